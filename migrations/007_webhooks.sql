-- Owners are told of their jobs by webhooks: each message becomes a delivery to every endpoint
-- of the owner that wants its topic, and to the job's own callback_url. A delivery is written
-- once, by the consumer group that hears the message; it is sent by a loop of its own, which
-- may send it more than once.

CREATE TABLE webhook_endpoints (
    id              uuid        PRIMARY KEY,
    owner_id        onejob_name NOT NULL CHECK (octet_length(owner_id) <= 200),
    url             text        NOT NULL CHECK (url <> '' AND octet_length(url) <= 2000),
    secret          text        NOT NULL CHECK (starts_with(secret, 'whsec_')), -- in clear: every delivery is signed with it
    topics          text[]      NOT NULL DEFAULT '{}' -- empty: all of them
        CHECK (topics <@ ARRAY ['job.succeeded', 'job.failed', 'job.cancelled']),
    state           text        NOT NULL DEFAULT 'enabled' CHECK (state IN ('enabled', 'disabled')),
    disabled_reason text        CHECK (disabled_reason <> '' AND octet_length(disabled_reason) <= 8192), -- with who said so
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT webhook_endpoints_owner UNIQUE (id, owner_id), -- what a delivery refers to
    CONSTRAINT webhook_endpoints_reason CHECK ((disabled_reason IS NOT NULL) = (state = 'disabled'))
);
CREATE INDEX webhook_endpoints_by_owner ON webhook_endpoints (owner_id, id);

CREATE TABLE webhook_deliveries (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    endpoint_id uuid,       -- null: the job's own callback_url
    message_key onejob_name NOT NULL,
    owner_id    onejob_name NOT NULL,
    url         text        NOT NULL CHECK (url <> ''),
    -- Whom a slow answer keeps waiting: an endpoint, or all callback_urls of a host.
    receiver    text        COLLATE "C" NOT NULL
        GENERATED ALWAYS AS (coalesce(endpoint_id::text, lower(substring(url FROM '^[^:]*://([^/?#]*)')), url)) STORED,
    state       text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
    tries       integer     NOT NULL DEFAULT 0 CHECK (tries >= 0), -- counted before each is made
    tries_before integer    NOT NULL DEFAULT 0 CHECK (tries_before BETWEEN 0 AND tries), -- when it was last asked for anew
    next_try_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_status integer     CHECK (last_status BETWEEN 100 AND 999),
    last_error  text        CHECK (octet_length(last_error) <= 4096),
    done_at     timestamptz,
    CONSTRAINT webhook_deliveries_once UNIQUE NULLS NOT DISTINCT (message_key, endpoint_id),
    CONSTRAINT webhook_deliveries_message FOREIGN KEY (message_key, owner_id)
        REFERENCES outbox (message_key, owner_id) ON DELETE CASCADE,
    CONSTRAINT webhook_deliveries_endpoint FOREIGN KEY (endpoint_id, owner_id) REFERENCES webhook_endpoints (id, owner_id),
    CONSTRAINT webhook_deliveries_done CHECK ((done_at IS NOT NULL) = (state = 'done'))
);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (receiver, next_try_at) WHERE state = 'pending';
CREATE INDEX webhook_deliveries_dead ON webhook_deliveries (id) WHERE state = 'dead';
CREATE INDEX webhook_deliveries_by_owner ON webhook_deliveries (owner_id, id);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries (endpoint_id, id);

CREATE FUNCTION onejob_endpoint_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('webhook endpoint %s: whom it tells, where and by which secret never changes', OLD.id));
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_endpoints_updated BEFORE UPDATE ON webhook_endpoints FOR EACH ROW
    WHEN ((NEW.id, NEW.owner_id, NEW.url, NEW.secret, NEW.created_at) IS DISTINCT FROM (OLD.id, OLD.owner_id, OLD.url, OLD.secret, OLD.created_at))
    EXECUTE FUNCTION onejob_endpoint_updated();

CREATE FUNCTION onejob_delivery_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('webhook delivery %s: what it tells, whom and where never changes', OLD.id));
    RETURN NULL;
END $$;
CREATE TRIGGER webhook_deliveries_updated BEFORE UPDATE ON webhook_deliveries FOR EACH ROW
    WHEN ((NEW.id, NEW.endpoint_id, NEW.message_key, NEW.owner_id, NEW.url) IS DISTINCT FROM (OLD.id, OLD.endpoint_id, OLD.message_key, OLD.owner_id, OLD.url))
    EXECUTE FUNCTION onejob_delivery_updated();

---- create above / drop below ----

DROP TABLE webhook_deliveries, webhook_endpoints;
DROP FUNCTION onejob_delivery_updated, onejob_endpoint_updated;
