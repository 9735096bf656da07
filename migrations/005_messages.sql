-- What follows from a job travels as messages: written with what made them true, handed to
-- each consumer group by a claim of its own, applied together with that claim.

-- Something happened that others must react to. The key derives from the id of what made it.
CREATE TABLE outbox (
    message_key onejob_name PRIMARY KEY CHECK (octet_length(message_key) <= 500),
    owner_id    onejob_name NOT NULL CHECK (octet_length(owner_id) <= 200),
    topic       onejob_name NOT NULL CHECK (octet_length(topic) <= 100),
    payload     json        NOT NULL,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT outbox_key_of_topic CHECK (starts_with(message_key, topic || ':')),
    CONSTRAINT outbox_owner UNIQUE (message_key, owner_id) -- what a claim refers to
);
CREATE INDEX outbox_by_topic ON outbox (topic, message_key);
CREATE INDEX outbox_by_age ON outbox (created_at);

-- Which group hears which topics. Who hears from the beginning gets the claims of older
-- messages bit by bit, in the order of their keys; until that is done backlog is how far it
-- has come.
CREATE TABLE subscriptions (
    consumer_group onejob_name NOT NULL CHECK (octet_length(consumer_group) <= 100),
    topic          onejob_name NOT NULL,
    since          timestamptz NOT NULL DEFAULT clock_timestamp(),
    backlog        text COLLATE "C",
    PRIMARY KEY (consumer_group, topic)
);

-- A group's claim on a message. Its primary key is what a claim is looked up by, at every
-- place and by no other columns; its owner is the message's.
CREATE TABLE inbox (
    consumer_group onejob_name NOT NULL CHECK (octet_length(consumer_group) <= 100),
    message_key    onejob_name NOT NULL,
    owner_id       onejob_name NOT NULL,
    state          text        NOT NULL DEFAULT 'pending' CHECK (state IN ('pending', 'done', 'dead')),
    tries          integer     NOT NULL DEFAULT 0 CHECK (tries >= 0),
    next_try_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_error     text        CHECK (octet_length(last_error) <= 8192), -- or who discarded it, why, and what had failed
    done_at        timestamptz,
    done_by        text        CHECK (done_by IN ('consumer', 'rebuild', 'discarded')),
    duplicates     integer     NOT NULL DEFAULT 0 CHECK (duplicates >= 0), -- deliveries after it was done
    PRIMARY KEY (consumer_group, message_key),
    CONSTRAINT inbox_message FOREIGN KEY (message_key, owner_id) REFERENCES outbox (message_key, owner_id) ON DELETE CASCADE,
    CONSTRAINT inbox_done CHECK ((done_at IS NOT NULL) = (state = 'done') AND (done_by IS NOT NULL) = (state = 'done'))
);
CREATE INDEX inbox_due ON inbox (consumer_group, next_try_at) WHERE state = 'pending';
CREATE INDEX inbox_dead ON inbox (consumer_group, message_key) WHERE state = 'dead';
CREATE INDEX inbox_by_message ON inbox (message_key);

-- Claims are written with the message, one for each group that hears its topic: nothing
-- depends on the order of commits or on a cursor. The groups that sleep are woken at the commit.
CREATE FUNCTION onejob_message_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO inbox (consumer_group, message_key, owner_id)
    SELECT s.consumer_group, m.message_key, m.owner_id FROM written m JOIN subscriptions s ON s.topic = m.topic;
    PERFORM pg_notify('onejob_messages', consumer_group)
    FROM (SELECT DISTINCT s.consumer_group FROM written m JOIN subscriptions s ON s.topic = m.topic) heard;
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_inserted AFTER INSERT ON outbox REFERENCING NEW TABLE AS written
    FOR EACH STATEMENT EXECUTE FUNCTION onejob_message_inserted();

CREATE FUNCTION onejob_message_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('message %s: what happened never changes', OLD.message_key));
    RETURN NULL;
END $$;
CREATE TRIGGER outbox_updated BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION onejob_message_updated();

-- A done claim stays done: applied again, its message would count twice. It goes with its
-- message, when both are older than any redelivery.
CREATE FUNCTION onejob_claim_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.consumer_group, NEW.message_key, NEW.owner_id) IS DISTINCT FROM (OLD.consumer_group, OLD.message_key, OLD.owner_id)
        OR OLD.state = 'done' AND (NEW.state, NEW.tries, NEW.done_at, NEW.done_by) IS DISTINCT FROM (OLD.state, OLD.tries, OLD.done_at, OLD.done_by)
    THEN
        PERFORM onejob_refuse(format('claim of %s on message %s: it is %s and stays so', OLD.consumer_group, OLD.message_key, OLD.state));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER inbox_updated BEFORE UPDATE ON inbox FOR EACH ROW EXECUTE FUNCTION onejob_claim_updated();
CREATE FUNCTION onejob_claim_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM outbox WHERE message_key = OLD.message_key) THEN
        PERFORM onejob_refuse(format('claim of %s on message %s: it goes with its message', OLD.consumer_group, OLD.message_key));
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER inbox_deleted BEFORE DELETE ON inbox FOR EACH ROW EXECUTE FUNCTION onejob_claim_deleted();

-- What is booked is told, under the entry's own source as the key.
CREATE FUNCTION onejob_entry_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM outbox WHERE message_key = NEW.source AND owner_id = NEW.owner_id) THEN
        PERFORM onejob_refuse(format('ledger entry %s: it was booked without its message', NEW.source));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ledger_told AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION onejob_entry_told();

-- So is what became of a job. A reopened job may fail again: its version tells the times apart.
CREATE FUNCTION onejob_job_told() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM outbox WHERE owner_id = NEW.owner_id
                   AND message_key = 'job.' || NEW.status || ':' || NEW.id || CASE NEW.status WHEN 'failed' THEN ':' || NEW.version ELSE '' END)
    THEN
        PERFORM onejob_refuse(format('job %s: it became %s without its message', NEW.id, NEW.status));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_told AFTER UPDATE OF status ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.status IN ('succeeded', 'failed', 'cancelled') AND NEW.status <> OLD.status) EXECUTE FUNCTION onejob_job_told();

-- The summaries: sums over the ledger's costs, charges and their corrections, by UTC day of
-- the entry. Consumers add to them and the rebuild replaces them; nothing that decides about
-- money reads them. Credits are the charges that were taken back.
CREATE TABLE usage_daily (
    owner_id            onejob_name     NOT NULL,
    day                 date            NOT NULL,
    currency            onejob_currency NOT NULL,
    calls               bigint          NOT NULL DEFAULT 0, -- entries of kind cost
    jobs                bigint          NOT NULL DEFAULT 0, -- entries of kind charge
    input_tokens        bigint          NOT NULL DEFAULT 0, -- of the calls; so are the others
    cached_input_tokens bigint          NOT NULL DEFAULT 0,
    output_tokens       bigint          NOT NULL DEFAULT 0,
    reasoning_tokens    bigint          NOT NULL DEFAULT 0,
    cost                onejob_amount   NOT NULL DEFAULT 0,
    charged             onejob_amount   NOT NULL DEFAULT 0,
    credited            onejob_amount   NOT NULL DEFAULT 0,
    PRIMARY KEY (owner_id, day, currency)
);
CREATE TABLE usage_by_model (
    provider text COLLATE "C" NOT NULL,
    model    text COLLATE "C" NOT NULL,
    LIKE usage_daily INCLUDING DEFAULTS,
    PRIMARY KEY (owner_id, day, provider, model, currency)
);
CREATE TABLE usage_by_kind (
    kind onejob_name NOT NULL,
    LIKE usage_daily INCLUDING DEFAULTS,
    PRIMARY KEY (owner_id, day, kind, currency)
);

-- What each entry adds to the summaries. Consumers and the rebuild both read this and nothing
-- else, so they cannot differ in what they count. Topups and credits that correct no charge
-- are no usage.
CREATE VIEW usage_entries AS
SELECT l.source AS message_key, l.owner_id, l.day, l.currency, coalesce(l.provider, '') AS provider, coalesce(l.model, '') AS model, j.kind,
       (l.kind = 'cost' AND l.corrects IS NULL)::integer AS calls,
       (l.kind = 'charge')::integer AS jobs,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'input_tokens')::bigint, 0) ELSE 0 END AS input_tokens,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'cached_input_tokens')::bigint, 0) ELSE 0 END AS cached_input_tokens,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'output_tokens')::bigint, 0) ELSE 0 END AS output_tokens,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'reasoning_tokens')::bigint, 0) ELSE 0 END AS reasoning_tokens,
       CASE WHEN l.kind = 'cost' THEN l.amount ELSE 0 END AS cost,
       CASE WHEN l.kind = 'charge' THEN l.amount ELSE 0 END AS charged,
       CASE WHEN l.kind = 'credit' THEN l.amount ELSE 0 END AS credited
FROM ledger l JOIN jobs j ON j.id = l.job_id, LATERAL (SELECT l.kind = 'cost' AND l.corrects IS NULL AS counted) c
WHERE l.kind IN ('cost', 'charge')
   OR l.kind = 'credit' AND EXISTS (SELECT FROM ledger charge WHERE charge.id = l.corrects AND charge.kind = 'charge');

---- create above / drop below ----

DROP VIEW usage_entries;
DROP TABLE usage_by_kind, usage_by_model, usage_daily;
DROP TRIGGER jobs_told ON jobs;
DROP TRIGGER ledger_told ON ledger;
DROP TABLE inbox, subscriptions, outbox;
DROP FUNCTION onejob_job_told, onejob_entry_told, onejob_claim_deleted, onejob_claim_updated, onejob_message_updated, onejob_message_inserted;
