-- Who may use the HTTP door. A token is a secret of high entropy that is shown once; what is kept
-- is its SHA-256, by which it is found. It ends by itself, and can be ended before.

CREATE TABLE tokens (
    id           uuid        PRIMARY KEY,
    sha256       bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    owner_id     onejob_name NOT NULL CHECK (octet_length(owner_id) <= 200)
                 CONSTRAINT tokens_owner_not_reserved CHECK (owner_id NOT LIKE 'onejob:%'),
    role         text        NOT NULL CHECK (role IN ('user', 'operator', 'admin')),
    created_by   onejob_name NOT NULL,
    created_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at   timestamptz NOT NULL,
    last_used_at timestamptz, -- by the hour: a write for each request would be the dearest part of many
    revoked_at   timestamptz,
    revoked_by   onejob_name,
    CONSTRAINT tokens_sha256 UNIQUE (sha256),
    CONSTRAINT tokens_expire CHECK (expires_at > created_at),
    CONSTRAINT tokens_revoked_by CHECK ((revoked_at IS NULL) = (revoked_by IS NULL))
);
CREATE INDEX tokens_by_owner ON tokens (owner_id, id);

CREATE FUNCTION onejob_token_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('token %s: whose it is, what it may and when it ends never changes, and a revoked one stays revoked', OLD.id));
    RETURN NULL;
END $$;
CREATE TRIGGER tokens_updated BEFORE UPDATE ON tokens FOR EACH ROW
    WHEN ((NEW.id, NEW.sha256, NEW.owner_id, NEW.role, NEW.created_by, NEW.created_at, NEW.expires_at)
          IS DISTINCT FROM (OLD.id, OLD.sha256, OLD.owner_id, OLD.role, OLD.created_by, OLD.created_at, OLD.expires_at)
          OR OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.revoked_by) IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by)
          OR NEW.last_used_at IS NULL AND OLD.last_used_at IS NOT NULL OR NEW.last_used_at < OLD.last_used_at)
    EXECUTE FUNCTION onejob_token_updated();
CREATE TRIGGER tokens_never_deleted BEFORE DELETE ON tokens FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER tokens_never_truncated BEFORE TRUNCATE ON tokens FOR EACH STATEMENT EXECUTE FUNCTION onejob_append_only();

---- create above / drop below ----

DROP TABLE tokens;
DROP FUNCTION onejob_token_updated;
