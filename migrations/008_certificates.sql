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
-- did not pass; that of one that passed stands on its certificate.
CREATE TABLE certification_runs (
    id              uuid PRIMARY KEY,
    contract        onejob_name NOT NULL, -- its kind
    contract_sha256 text COLLATE "C" NOT NULL,
    provider        onejob_name NOT NULL,
    model           text COLLATE "C" NOT NULL, -- empty: the provider has none
    adapter         onejob_name NOT NULL, -- the version of the adapter
    requested_by    onejob_name NOT NULL,
    calls           integer     NOT NULL CHECK (calls >= 0), -- planned
    state           text        NOT NULL DEFAULT 'running' CHECK (state IN ('running', 'passed', 'failed', 'cancelled')),
    report          json,       -- json, not jsonb: a reply may hold what jsonb does not take
    started_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at     timestamptz,
    CONSTRAINT certification_runs_contract FOREIGN KEY (contract_sha256, contract) REFERENCES contract_texts (sha256, kind),
    CONSTRAINT certification_runs_what UNIQUE (id, contract, contract_sha256, provider, model, adapter), -- what a certificate refers to
    CONSTRAINT certification_runs_finished CHECK ((finished_at IS NOT NULL) = (state <> 'running')),
    CONSTRAINT certification_runs_report CHECK ((report IS NOT NULL) = (state IN ('failed', 'cancelled')))
);
CREATE INDEX certification_runs_by_contract ON certification_runs (contract_sha256, provider, model, id);

CREATE FUNCTION onejob_certification_run_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.contract, NEW.contract_sha256, NEW.provider, NEW.model, NEW.adapter, NEW.requested_by, NEW.calls, NEW.started_at)
       IS DISTINCT FROM (OLD.id, OLD.contract, OLD.contract_sha256, OLD.provider, OLD.model, OLD.adapter, OLD.requested_by, OLD.calls, OLD.started_at)
        OR OLD.state <> 'running'
    THEN
        PERFORM onejob_refuse(format('certification run %s: it ends once, and nothing else of it changes', OLD.id));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER certification_runs_updated BEFORE UPDATE ON certification_runs FOR EACH ROW EXECUTE FUNCTION onejob_certification_run_updated();
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

-- A certificate comes of a run that passed. One that was revoked while the run was under way
-- was not revoked to be replaced by it.
CREATE FUNCTION onejob_certificate_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    run certification_runs;
BEGIN
    SELECT * INTO run FROM certification_runs WHERE id = NEW.run_id;
    IF run.state IS DISTINCT FROM 'passed' THEN
        PERFORM onejob_refuse(format('certification run %s: it is %s, and only one that passed makes a certificate', NEW.run_id, coalesce(run.state, 'not there')));
    END IF;
    IF EXISTS (SELECT FROM certificates c WHERE (c.contract_sha256, c.provider, c.model, c.adapter) = (NEW.contract_sha256, NEW.provider, NEW.model, NEW.adapter)
               AND c.revoked_at >= run.started_at AND NEW.revoked_at IS NULL)
    THEN
        PERFORM onejob_refuse(format('certification run %s: the certificate of %s %s was revoked after it began', NEW.run_id, NEW.provider, NEW.model));
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

---- create above / drop below ----

DROP FUNCTION onejob_certificate_valid;
DROP TABLE certificates, certification_runs, contract_texts;
DROP FUNCTION onejob_certificate_updated, onejob_certification_run_passed, onejob_certificate_inserted, onejob_certification_run_updated;
