-- The ways out of unknown leave their traces here: what was sent, how often it was sent
-- again, whether the provider gave the call up, and which callbacks were taken.

ALTER TABLE attempts
    -- The bytes that were sent, of a provider that honours keys: what is asked again is
    -- exactly that. They go when the outcome comes.
    ADD COLUMN request bytea,
    -- A digest of the place and the account that it was sent to: elsewhere a key is another
    -- key, and a call that is not found was never there.
    ADD COLUMN sent_to text COLLATE "C" CHECK (sent_to <> ''),
    ADD COLUMN reasks integer NOT NULL DEFAULT 0 CHECK (reasks >= 0),
    ADD COLUMN provider_cancel text CHECK (provider_cancel IN ('agreed', 'refused', 'unsure')),
    ADD CONSTRAINT attempts_request_until_final CHECK (request IS NULL OR state IN ('starting', 'running', 'unknown'));

CREATE FUNCTION onejob_request_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('attempt %s of job %s: what was sent never changes, and re-asks are counted one by one while it is unknown', OLD.number, OLD.job_id));
    RETURN NULL;
END $$;
CREATE TRIGGER attempts_request_updated BEFORE UPDATE OF request, reasks ON attempts FOR EACH ROW
    WHEN (NEW.request IS NOT NULL AND NEW.request IS DISTINCT FROM OLD.request
          OR NEW.reasks <> OLD.reasks AND (NEW.reasks <> OLD.reasks + 1 OR OLD.state <> 'unknown'))
    EXECUTE FUNCTION onejob_request_updated();

-- How many calls a provider has under way, where that is limited.
CREATE INDEX attempts_live ON attempts (provider) WHERE state IN ('starting', 'running', 'unknown');

-- A callback about an attempt is taken once: its sender's id says which it is. An id that the
-- sender uses for another attempt, too, hides nothing of that one.
CREATE TABLE callbacks (
    provider    onejob_name NOT NULL,
    webhook_id  onejob_name NOT NULL CHECK (octet_length(webhook_id) <= 255),
    attempt_id  bigint      NOT NULL REFERENCES attempts (id),
    outcome     text        NOT NULL CHECK (outcome IN ('resolved', 'noted', 'late')),
    received_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (provider, webhook_id, attempt_id)
);
CREATE TRIGGER callbacks_append_only BEFORE UPDATE OR DELETE ON callbacks FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER callbacks_never_truncated BEFORE TRUNCATE ON callbacks FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- The circuits that are open: providers that are not called until open_until, because their
-- calls failed one after the other, or because somebody paused them. Past that time one
-- attempt at a time tries, and the first that is served closes the circuit.
CREATE TABLE circuits (
    provider   onejob_name PRIMARY KEY,
    open_until timestamptz NOT NULL,
    try_until  timestamptz, -- while one attempt tries, nobody else does
    opened_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    times      integer     NOT NULL DEFAULT 1 CHECK (times > 0), -- opened since it was closed
    reason     text        NOT NULL CHECK (reason <> '' AND octet_length(reason) <= 4096),
    paused_by  onejob_name -- who paused it; null: a worker opened it
);

---- create above / drop below ----

DROP TABLE circuits;
DROP TABLE callbacks;
DROP TRIGGER attempts_request_updated ON attempts;
DROP FUNCTION onejob_request_updated;
DROP INDEX attempts_live;
ALTER TABLE attempts
    DROP CONSTRAINT attempts_request_until_final,
    DROP COLUMN provider_cancel,
    DROP COLUMN reasks,
    DROP COLUMN sent_to,
    DROP COLUMN request;
