-- A provider proves that it honours a contract by a run of paid calls; a run that passed leaves
-- a certificate, and automatic failover needs one.

-- What a run goes by: the contract's file and those beside it, as they were read. The SHA-256
-- is the contract's identity, not that of the files.
CREATE TABLE contract_texts (
    sha256     text COLLATE "C" PRIMARY KEY CHECK (sha256 ~ '^[0-9a-f]{64}$'),
    kind       onejob_name NOT NULL,
    version    integer     NOT NULL CHECK (version > 0),
    file       text        NOT NULL CHECK (file <> ''), -- which of the files is the contract
    files      json        NOT NULL CHECK (json_typeof(files) = 'object'), -- text by name
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT contract_texts_kind UNIQUE (sha256, kind) -- what a run refers to
);
CREATE TRIGGER contract_texts_append_only BEFORE UPDATE OR DELETE ON contract_texts FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER contract_texts_never_truncated BEFORE TRUNCATE ON contract_texts FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- One run of a contract against one model of one provider. It keeps the report of a run that
-- did not pass; that of one that passed stands on its certificate. What its calls may come to is
-- set aside in the budget of its owner before the first of them, and settled with their cost.
CREATE TABLE certification_runs (
    id              uuid PRIMARY KEY,
    contract        onejob_name NOT NULL, -- its kind
    contract_sha256 text COLLATE "C" NOT NULL,
    provider        onejob_name NOT NULL,
    model           text COLLATE "C" NOT NULL, -- empty: the provider has none
    adapter         onejob_name NOT NULL, -- the version of the adapter, and where it asks
    requested_by    onejob_name NOT NULL,
    calls           integer     NOT NULL CHECK (calls >= 0), -- planned
    must_pass       integer     NOT NULL CHECK (must_pass BETWEEN 0 AND calls), -- of the calls
    owner_id        onejob_name NOT NULL CHECK (octet_length(owner_id) <= 200), -- who pays
    estimate        onejob_amount NOT NULL CHECK (estimate >= 0), -- of all calls
    currency        onejob_currency NOT NULL, -- of the estimate; XXX: nothing has a price
    month           date, -- whose budget the estimate is set aside in; null: the owner has none
    settled         onejob_amount, -- the cost of the calls, in the currency; that of a late answer is added
    state           text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'passed', 'failed', 'cancelled')),
    report          json,       -- json, not jsonb: a reply may hold what jsonb does not take
    started_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz,
    CONSTRAINT certification_runs_contract FOREIGN KEY (contract_sha256, contract) REFERENCES contract_texts (sha256, kind),
    CONSTRAINT certification_runs_what UNIQUE (id, contract, contract_sha256, provider, model, adapter), -- what a certificate refers to
    CONSTRAINT certification_runs_asks UNIQUE (id, model, adapter), -- what a call refers to
    CONSTRAINT certification_runs_budget FOREIGN KEY (owner_id, month) REFERENCES budgets (owner_id, month),
    CONSTRAINT certification_runs_finished CHECK ((finished_at IS NOT NULL) = (state <> 'running')),
    CONSTRAINT certification_runs_settled CHECK ((settled IS NOT NULL) = (state <> 'running')),
    CONSTRAINT certification_runs_report CHECK ((report IS NOT NULL) = (state IN ('failed', 'cancelled')))
);
CREATE INDEX certification_runs_by_contract ON certification_runs (contract_sha256, provider, model, started_at);
CREATE INDEX certification_runs_by_month ON certification_runs (owner_id, month) WHERE month IS NOT NULL;

-- A call of a run. Its row is the permission to make it: it is made once, whatever becomes of
-- who makes it. One that may have reached the provider and has no answer is unknown.
CREATE TABLE certification_calls (
    id           bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id       uuid        NOT NULL REFERENCES certification_runs (id),
    model        text COLLATE "C" NOT NULL, -- that whoever makes the call has configured
    adapter      onejob_name NOT NULL,
    case_name    text COLLATE "C" NOT NULL, -- empty: the canary
    repeat       integer     NOT NULL CHECK (repeat > 0),
    try          integer     NOT NULL CHECK (try > 0), -- more than one where the provider refused for a moment
    execution    uuid,       -- null: nobody makes it any more
    state        text        NOT NULL DEFAULT 'calling' CHECK (state IN ('calling', 'answered', 'failed', 'unknown')),
    reason       text COLLATE "C" CHECK (reason <> ''),
    detail       text        CHECK (octet_length(detail) <= 4096),
    usage        json        CONSTRAINT certification_calls_usage_adds_up CHECK (onejob_usage_ok(usage)),
    reply_sha256 bytea       CHECK (octet_length(reply_sha256) = 32),
    reply        bytea,      -- what the model wrote; only where the contract keeps payloads
    verdict      json,       -- of the checks
    latency_ms   bigint      CHECK (latency_ms >= 0),
    listen_until timestamptz NOT NULL, -- from when on nobody waits for the answer
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at  timestamptz,
    CONSTRAINT certification_calls_once UNIQUE (run_id, case_name, repeat, try),
    -- A worker with another configuration does not answer for the one that the run is of.
    CONSTRAINT certification_calls_asks FOREIGN KEY (run_id, model, adapter) REFERENCES certification_runs (id, model, adapter),
    CONSTRAINT certification_calls_finished CHECK ((finished_at IS NOT NULL) = (state <> 'calling')),
    CONSTRAINT certification_calls_reason CHECK ((reason IS NOT NULL) = (state IN ('failed', 'unknown'))),
    CONSTRAINT certification_calls_answer CHECK (state <> 'answered' OR num_nulls(verdict, reply_sha256, usage, latency_ms) = 0),
    CONSTRAINT certification_calls_no_answer CHECK (state IN ('answered', 'failed') OR num_nonnulls(verdict, reply_sha256, reply) = 0),
    CONSTRAINT certification_calls_execution CHECK (execution IS NOT NULL OR reason IS NOT DISTINCT FROM 'never_started')
);
-- One try after the other.
CREATE UNIQUE INDEX certification_calls_one_live ON certification_calls (run_id, case_name, repeat) WHERE state IN ('calling', 'answered', 'unknown');
CREATE INDEX certification_calls_under_way ON certification_calls (run_id) WHERE state = 'calling'; -- few, over all runs

CREATE FUNCTION onejob_certification_call_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    run record;
BEGIN
    SELECT state INTO run FROM certification_runs WHERE id = NEW.run_id FOR SHARE;
    IF run.state <> 'running' THEN
        PERFORM onejob_refuse(format('certification run %s: it is %s and makes no more calls', NEW.run_id, run.state));
    END IF;
    IF NEW.state <> 'calling' AND NEW.reason IS DISTINCT FROM 'never_started' THEN
        PERFORM onejob_refuse(format('certification run %s: a call starts as calling, not as %s', NEW.run_id, NEW.state));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER certification_calls_inserted BEFORE INSERT ON certification_calls FOR EACH ROW EXECUTE FUNCTION onejob_certification_call_inserted();

CREATE FUNCTION onejob_certification_call_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.run_id, NEW.model, NEW.adapter, NEW.case_name, NEW.repeat, NEW.try, NEW.execution, NEW.started_at)
       IS DISTINCT FROM (OLD.id, OLD.run_id, OLD.model, OLD.adapter, OLD.case_name, OLD.repeat, OLD.try, OLD.execution, OLD.started_at)
        OR NOT (OLD.state, NEW.state) IN (('calling', 'answered'), ('calling', 'failed'), ('calling', 'unknown'), ('unknown', 'answered'), ('unknown', 'failed'))
        OR OLD.usage IS NOT NULL AND NEW.usage::text IS DISTINCT FROM OLD.usage::text
    THEN
        PERFORM onejob_refuse(format('call %s of certification run %s: it is %s and cannot become %s', OLD.id, OLD.run_id, OLD.state, NEW.state));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER certification_calls_updated BEFORE UPDATE ON certification_calls FOR EACH ROW EXECUTE FUNCTION onejob_certification_call_updated();
CREATE TRIGGER certification_calls_never_deleted BEFORE DELETE ON certification_calls FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER certification_calls_never_truncated BEFORE TRUNCATE ON certification_calls FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- Its cost is the owner's, booked like an attempt's: by the call instead of by job and attempt.
ALTER TABLE ledger ADD COLUMN certification_call bigint REFERENCES certification_calls (id),
    DROP CONSTRAINT ledger_work_is_named,
    ADD CONSTRAINT ledger_work_is_named CHECK (kind NOT IN ('charge', 'cost')
        OR provider IS NOT NULL AND usage IS NOT NULL AND (job_id IS NOT NULL AND attempt_id IS NOT NULL OR kind = 'cost' AND certification_call IS NOT NULL)),
    ADD CONSTRAINT ledger_work_is_one CHECK (certification_call IS NULL OR kind = 'cost' AND job_id IS NULL AND attempt_id IS NULL);
CREATE UNIQUE INDEX ledger_one_certification_cost ON ledger (certification_call) WHERE corrects IS NULL AND certification_call IS NOT NULL;

CREATE FUNCTION onejob_certification_entry_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM certification_calls c JOIN certification_runs r ON r.id = c.run_id
                   WHERE c.id = NEW.certification_call AND r.owner_id = NEW.owner_id AND r.provider = NEW.provider AND r.model = NEW.model) THEN
        PERFORM onejob_refuse(format('ledger entry %s: certification call %s is not of owner %s and %s %s', NEW.source, NEW.certification_call, NEW.owner_id, NEW.provider, NEW.model));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER ledger_certification_inserted AFTER INSERT ON ledger DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.certification_call IS NOT NULL) EXECUTE FUNCTION onejob_certification_entry_inserted();

CREATE FUNCTION onejob_certification_call_costs() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM ledger WHERE certification_call = NEW.id) THEN
        PERFORM onejob_refuse(format('call %s of certification run %s: its usage was recorded without its cost', NEW.id, NEW.run_id));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER certification_calls_cost AFTER UPDATE ON certification_calls DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.usage IS NOT NULL) EXECUTE FUNCTION onejob_certification_call_costs();

-- The budget guard, as that of jobs: what does not fit is refused by OJ002 before the first
-- call, what is in another currency than the budget by OJ003. It sets aside behind the insert,
-- since one that finds its id taken sets nothing aside.
CREATE FUNCTION onejob_certification_run_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.state <> 'running' THEN
        PERFORM onejob_refuse(format('certification run %s: it starts as running, not as %s', NEW.id, NEW.state));
    END IF;
    NEW.month := onejob_budget_month(NEW.owner_id);
    RETURN NEW;
END $$;
CREATE TRIGGER certification_runs_inserted BEFORE INSERT ON certification_runs FOR EACH ROW EXECUTE FUNCTION onejob_certification_run_inserted();

CREATE FUNCTION onejob_certification_run_budgeted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    budget budgets;
BEGIN
    UPDATE budgets SET reserved = reserved + NEW.estimate
    WHERE owner_id = NEW.owner_id AND month = NEW.month AND (currency = NEW.currency OR NEW.currency = 'XXX')
      AND ("limit" IS NULL OR reserved + spent + NEW.estimate <= "limit");
    IF NOT FOUND THEN
        SELECT * INTO budget FROM budgets WHERE owner_id = NEW.owner_id AND month = NEW.month;
        IF budget.currency <> NEW.currency AND NEW.currency <> 'XXX' THEN
            RAISE EXCEPTION 'the budget of % for % is in % and % is priced in %',
                NEW.owner_id, to_char(NEW.month, 'YYYY-MM'), budget.currency, NEW.provider, NEW.currency USING ERRCODE = 'OJ003';
        END IF;
        RAISE EXCEPTION 'the budget of % for % is % %: % is spent and % reserved, and the run may come to %',
            NEW.owner_id, to_char(NEW.month, 'YYYY-MM'), trim_scale(budget."limit"), budget.currency,
            trim_scale(budget.spent), trim_scale(budget.reserved), trim_scale(NEW.estimate) USING ERRCODE = 'OJ002';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER certification_runs_budgeted AFTER INSERT ON certification_runs FOR EACH ROW
    WHEN (NEW.month IS NOT NULL) EXECUTE FUNCTION onejob_certification_run_budgeted();

-- A run ends once, when none of its calls is under way, and settles what it set aside. One that
-- passed has as many answers as must pass. What an answer costs that comes later is settled by
-- the trigger of its ledger entry, and by no other hand.
CREATE FUNCTION onejob_certification_run_updated() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    is_same boolean := (NEW.id, NEW.contract, NEW.contract_sha256, NEW.provider, NEW.model, NEW.adapter, NEW.requested_by, NEW.calls, NEW.must_pass, NEW.owner_id,
        NEW.estimate, NEW.currency, NEW.month, NEW.started_at)
       IS NOT DISTINCT FROM
       (OLD.id, OLD.contract, OLD.contract_sha256, OLD.provider, OLD.model, OLD.adapter, OLD.requested_by, OLD.calls, OLD.must_pass, OLD.owner_id,
        OLD.estimate, OLD.currency, OLD.month, OLD.started_at);
BEGIN
    IF is_same AND pg_trigger_depth() > 1 AND OLD.state <> 'running' AND NEW.settled > OLD.settled
        AND (NEW.state, NEW.finished_at, NEW.report::text) IS NOT DISTINCT FROM (OLD.state, OLD.finished_at, OLD.report::text)
    THEN
        UPDATE budgets SET spent = spent + NEW.settled - OLD.settled WHERE owner_id = OLD.owner_id AND month = OLD.month;
        RETURN NEW;
    END IF;
    IF NOT is_same OR OLD.state <> 'running' OR NEW.state = 'running' THEN
        PERFORM onejob_refuse(format('certification run %s: it ends once, and nothing else of it changes', OLD.id));
    END IF;
    IF EXISTS (SELECT FROM certification_calls WHERE run_id = OLD.id AND state = 'calling') THEN
        PERFORM onejob_refuse(format('certification run %s: it cannot end while a call is under way', OLD.id));
    END IF;
    IF NEW.state = 'passed' AND (SELECT count(*) FROM certification_calls WHERE run_id = OLD.id AND state = 'answered') < OLD.must_pass THEN
        PERFORM onejob_refuse(format('certification run %s: it cannot pass with answers to fewer than %s calls', OLD.id, OLD.must_pass));
    END IF;
    NEW.finished_at := clock_timestamp();
    NEW.settled := (SELECT coalesce(sum(l.amount), 0) FROM certification_calls c JOIN ledger l ON l.certification_call = c.id
                    WHERE c.run_id = OLD.id AND l.currency = OLD.currency AND l.corrects IS NULL);
    UPDATE budgets SET reserved = reserved - OLD.estimate, spent = spent + NEW.settled WHERE owner_id = OLD.owner_id AND month = OLD.month;
    RETURN NEW;
END $$;
CREATE TRIGGER certification_runs_updated BEFORE UPDATE ON certification_runs FOR EACH ROW EXECUTE FUNCTION onejob_certification_run_updated();

CREATE FUNCTION onejob_certification_late_cost() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE certification_runs r SET settled = r.settled + NEW.amount FROM certification_calls k
    WHERE k.id = NEW.certification_call AND r.id = k.run_id AND r.state <> 'running' AND r.currency = NEW.currency;
    RETURN NULL;
END $$;
CREATE TRIGGER ledger_certification_late AFTER INSERT ON ledger FOR EACH ROW
    WHEN (NEW.certification_call IS NOT NULL AND NEW.corrects IS NULL AND NEW.amount > 0) EXECUTE FUNCTION onejob_certification_late_cost();

CREATE TRIGGER certification_runs_never_deleted BEFORE DELETE ON certification_runs FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER certification_runs_never_truncated BEFORE TRUNCATE ON certification_runs FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- That a model of a provider honours a contract, as asked by one version of an adapter: for a
-- stated time, and for nothing else.
CREATE TABLE certificates (
    id               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    run_id           uuid        NOT NULL UNIQUE, -- a repeated acknowledgement inserts once
    contract         onejob_name NOT NULL, -- its kind
    contract_sha256  text COLLATE "C" NOT NULL CHECK (contract_sha256 ~ '^[0-9a-f]{64}$'),
    provider         onejob_name NOT NULL,
    model            text COLLATE "C" NOT NULL,
    adapter          onejob_name NOT NULL,
    passed_at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at       timestamptz NOT NULL,
    report           json        NOT NULL,
    revoked_at       timestamptz, -- by somebody
    revoked_by       onejob_name,
    revoked_reason   text CHECK (revoked_reason <> '' AND octet_length(revoked_reason) <= 4096),
    suspended_at     timestamptz, -- by what the provider answered in production
    suspended_reason text CHECK (suspended_reason <> '' AND octet_length(suspended_reason) <= 4096),
    CONSTRAINT certificates_run FOREIGN KEY (run_id, contract, contract_sha256, provider, model, adapter)
        REFERENCES certification_runs (id, contract, contract_sha256, provider, model, adapter),
    CONSTRAINT certificates_expire CHECK (expires_at > passed_at),
    CONSTRAINT certificates_revoked CHECK (num_nonnulls(revoked_at, revoked_by, revoked_reason) IN (0, 3)),
    CONSTRAINT certificates_suspended CHECK (num_nonnulls(suspended_at, suspended_reason) IN (0, 2))
);
-- What decides whether a provider may be asked.
CREATE INDEX certificates_standing ON certificates (contract_sha256, provider, model, adapter, expires_at)
    WHERE revoked_at IS NULL AND suspended_at IS NULL;
CREATE INDEX certificates_by_contract ON certificates (contract, id);

-- Whether a certificate counts now. Volatile, so that it is inlined and the index serves.
CREATE FUNCTION onejob_certificate_valid(c certificates) RETURNS boolean LANGUAGE sql AS $$
    SELECT c.revoked_at IS NULL AND c.suspended_at IS NULL AND c.expires_at > clock_timestamp()
$$;

-- Who writes a certificate and who revokes or suspends the others like it take turns.
CREATE FUNCTION onejob_certification_lock(contract_sha256 text, provider text, model text) RETURNS void LANGUAGE sql AS $$
    SELECT pg_advisory_xact_lock(hashtextextended(concat_ws(' ', 'onejob certificate', contract_sha256, provider, model), 0))
$$;

-- A certificate comes of a run that passed. One that was revoked or suspended while the run was
-- under way is not replaced by it: what the run proved was known otherwise by then.
CREATE FUNCTION onejob_certificate_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    run certification_runs;
BEGIN
    PERFORM onejob_certification_lock(NEW.contract_sha256, NEW.provider, NEW.model);
    SELECT * INTO run FROM certification_runs WHERE id = NEW.run_id;
    IF run.state IS DISTINCT FROM 'passed' THEN
        PERFORM onejob_refuse(format('certification run %s: it is %s, and only one that passed makes a certificate', NEW.run_id, coalesce(run.state, 'not there')));
    END IF;
    IF EXISTS (SELECT FROM certificates c WHERE (c.contract_sha256, c.provider, c.model) = (NEW.contract_sha256, NEW.provider, NEW.model)
               AND c.id <> NEW.id AND greatest(c.revoked_at, c.suspended_at) >= run.started_at)
    THEN
        PERFORM onejob_refuse(format('certification run %s: the certificate of %s %s was revoked or suspended after it began', NEW.run_id, NEW.provider, NEW.model));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER certificates_inserted AFTER INSERT ON certificates DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    EXECUTE FUNCTION onejob_certificate_inserted();

CREATE FUNCTION onejob_certification_run_passed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM certificates WHERE run_id = NEW.id) THEN
        PERFORM onejob_refuse(format('certification run %s: it passed without a certificate', NEW.id));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER certification_runs_passed AFTER INSERT OR UPDATE ON certification_runs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.state = 'passed') EXECUTE FUNCTION onejob_certification_run_passed();

CREATE FUNCTION onejob_certificate_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.run_id, NEW.contract, NEW.contract_sha256, NEW.provider, NEW.model, NEW.adapter, NEW.passed_at, NEW.expires_at, NEW.report::text)
       IS DISTINCT FROM
       (OLD.id, OLD.run_id, OLD.contract, OLD.contract_sha256, OLD.provider, OLD.model, OLD.adapter, OLD.passed_at, OLD.expires_at, OLD.report::text)
        OR OLD.revoked_at IS NOT NULL AND (NEW.revoked_at, NEW.revoked_by, NEW.revoked_reason) IS DISTINCT FROM (OLD.revoked_at, OLD.revoked_by, OLD.revoked_reason)
        OR OLD.suspended_at IS NOT NULL AND (NEW.suspended_at, NEW.suspended_reason) IS DISTINCT FROM (OLD.suspended_at, OLD.suspended_reason)
    THEN
        PERFORM onejob_refuse(format('certificate %s: it is revoked once and suspended once, and nothing else of it changes', OLD.id));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER certificates_updated BEFORE UPDATE ON certificates FOR EACH ROW EXECUTE FUNCTION onejob_certificate_updated();
CREATE TRIGGER certificates_never_deleted BEFORE DELETE ON certificates FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER certificates_never_truncated BEFORE TRUNCATE ON certificates FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

-- What a call's cost adds to the summaries is of the contract's kind.
CREATE OR REPLACE VIEW usage_entries AS
SELECT l.source AS message_key, l.owner_id, l.day, l.currency, coalesce(l.provider, '') AS provider, coalesce(l.model, '') AS model, coalesce(j.kind, r.contract) AS kind,
       (l.kind = 'cost' AND l.corrects IS NULL)::integer AS calls,
       (l.kind = 'charge')::integer AS jobs,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'input_tokens')::bigint, 0) ELSE 0 END AS input_tokens,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'cached_input_tokens')::bigint, 0) ELSE 0 END AS cached_input_tokens,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'output_tokens')::bigint, 0) ELSE 0 END AS output_tokens,
       CASE WHEN c.counted THEN coalesce((l.usage ->> 'reasoning_tokens')::bigint, 0) ELSE 0 END AS reasoning_tokens,
       CASE WHEN l.kind = 'cost' THEN l.amount ELSE 0 END AS cost,
       CASE WHEN l.kind = 'charge' THEN l.amount ELSE 0 END AS charged,
       CASE WHEN l.kind = 'credit' THEN l.amount ELSE 0 END AS credited
FROM ledger l LEFT JOIN jobs j ON j.id = l.job_id
     LEFT JOIN certification_calls k ON k.id = l.certification_call LEFT JOIN certification_runs r ON r.id = k.run_id,
     LATERAL (SELECT l.kind = 'cost' AND l.corrects IS NULL AS counted) c
WHERE l.kind IN ('cost', 'charge')
   OR l.kind = 'credit' AND EXISTS (SELECT FROM ledger charge WHERE charge.id = l.corrects AND charge.kind = 'charge');

-- Owners whose names begin with onejob: are the program's own. Nobody submits, pays in, is told
-- of or brings anybody under such a name; a budget may bound what certifications cost.
ALTER TABLE jobs ADD CONSTRAINT jobs_owner_not_reserved CHECK (owner_id NOT LIKE 'onejob:%');
ALTER TABLE webhook_endpoints ADD CONSTRAINT webhook_endpoints_owner_not_reserved CHECK (owner_id NOT LIKE 'onejob:%');
ALTER TABLE referrals ADD CONSTRAINT referrals_owner_not_reserved CHECK (referee NOT LIKE 'onejob:%' AND referrer NOT LIKE 'onejob:%');
ALTER TABLE budgets ADD CONSTRAINT budgets_owner_not_reserved CHECK (owner_id NOT LIKE 'onejob:%' OR owner_id = 'onejob:certification');
ALTER TABLE ledger ADD CONSTRAINT ledger_owner_not_reserved CHECK (owner_id NOT LIKE 'onejob:%' OR kind = 'cost' AND owner_id = 'onejob:certification');
ALTER TABLE certification_runs ADD CONSTRAINT certification_runs_owner CHECK (owner_id = 'onejob:certification');

---- create above / drop below ----

ALTER TABLE ledger DROP CONSTRAINT ledger_owner_not_reserved;
ALTER TABLE budgets DROP CONSTRAINT budgets_owner_not_reserved;
ALTER TABLE referrals DROP CONSTRAINT referrals_owner_not_reserved;
ALTER TABLE webhook_endpoints DROP CONSTRAINT webhook_endpoints_owner_not_reserved;
ALTER TABLE jobs DROP CONSTRAINT jobs_owner_not_reserved;

CREATE OR REPLACE VIEW usage_entries AS
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

DROP TRIGGER ledger_certification_inserted ON ledger;
DROP TRIGGER ledger_certification_late ON ledger;
DROP INDEX ledger_one_certification_cost;
ALTER TABLE ledger DROP CONSTRAINT ledger_work_is_one, DROP CONSTRAINT ledger_work_is_named,
    DROP COLUMN certification_call;
ALTER TABLE ledger ADD CONSTRAINT ledger_work_is_named CHECK (kind NOT IN ('charge', 'cost')
    OR job_id IS NOT NULL AND attempt_id IS NOT NULL AND provider IS NOT NULL AND usage IS NOT NULL);
DROP FUNCTION onejob_certificate_valid;
DROP TABLE certificates, certification_calls, certification_runs, contract_texts;
DROP FUNCTION onejob_certification_late_cost, onejob_certificate_updated, onejob_certification_run_passed, onejob_certificate_inserted, onejob_certification_run_updated,
    onejob_certification_run_inserted, onejob_certification_run_budgeted, onejob_certification_lock, onejob_certification_call_costs, onejob_certification_entry_inserted,
    onejob_certification_call_updated, onejob_certification_call_inserted;
