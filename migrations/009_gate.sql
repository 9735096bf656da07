-- A job whose kind has a contract goes by itself only to a provider that has proved that it
-- honours it: the attempt names the certificate, and the certificate is looked at while the
-- attempt starts, so one that was revoked a moment ago stops it.

-- What an attempt refers to: a certificate is of exactly these.
ALTER TABLE certificates ADD CONSTRAINT certificates_what UNIQUE (id, contract_sha256, provider, model, adapter);

-- Somebody may ask for a provider without one, for one attempt.
ALTER TABLE decisions
    ADD COLUMN uncertified boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT decisions_uncertified_attempt CHECK (NOT uncertified OR action = 'start-attempt'),
    ADD CONSTRAINT decisions_of_provider UNIQUE (id, job_id, provider);

ALTER TABLE attempts
    -- The contract by which the provider is asked and its reply is judged. Null: the kind has none.
    ADD COLUMN contract_sha256 text COLLATE "C" CHECK (contract_sha256 ~ '^[0-9a-f]{64}$'),
    ADD COLUMN adapter onejob_name, -- its version, and where it asks; null: it cannot be asked by a contract
    ADD COLUMN certificate_id bigint,
    ADD COLUMN uncertified bigint UNIQUE, -- the decision by which somebody asked for it without a certificate
    ADD CONSTRAINT attempts_certificate FOREIGN KEY (certificate_id, contract_sha256, provider, model, adapter)
        REFERENCES certificates (id, contract_sha256, provider, model, adapter),
    ADD CONSTRAINT attempts_uncertified FOREIGN KEY (uncertified, job_id, provider) REFERENCES decisions (id, job_id, provider),
    -- A foreign key with a null in it refers to nothing.
    ADD CONSTRAINT attempts_certificate_whole CHECK (certificate_id IS NULL OR contract_sha256 IS NOT NULL AND adapter IS NOT NULL),
    ADD CONSTRAINT attempts_gated_by_contract CHECK (contract_sha256 IS NOT NULL OR num_nonnulls(adapter, certificate_id, uncertified) = 0),
    ADD CONSTRAINT attempts_gated_once CHECK (certificate_id IS NULL OR uncertified IS NULL);

-- How often a provider broke a contract of late.
CREATE INDEX attempts_violations ON attempts (contract_sha256, provider, model, adapter, finished_at)
    WHERE reason = 'contract_violation' AND contract_sha256 IS NOT NULL;

-- The job's own provider was asked for by its owner. Every other one, a hedge too, needs a
-- certificate that is valid now and stays so until this transaction ends, or somebody who asked
-- for it without. Its name puts it behind attempts_inserted, which locks the job: jobs are locked
-- before certificates.
CREATE FUNCTION onejob_attempt_gate() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.provider = (SELECT provider FROM jobs WHERE id = NEW.job_id) THEN
        RETURN NEW;
    END IF;
    IF NEW.uncertified IS NOT NULL AND EXISTS (SELECT FROM decisions d WHERE d.id = NEW.uncertified AND d.uncertified AND d.refused IS NULL) THEN
        RETURN NEW;
    END IF;
    PERFORM FROM certificates c WHERE c.id = NEW.certificate_id AND onejob_certificate_valid(c) FOR SHARE;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job %: provider % has no valid certificate for contract %', NEW.job_id, NEW.provider, NEW.contract_sha256 USING ERRCODE = 'OJ004';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempts_inserted_gate BEFORE INSERT ON attempts FOR EACH ROW
    WHEN (NEW.state <> 'failed' AND NEW.contract_sha256 IS NOT NULL) EXECUTE FUNCTION onejob_attempt_gate();

CREATE FUNCTION onejob_attempt_gate_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.contract_sha256, NEW.adapter, NEW.certificate_id, NEW.uncertified)
       IS DISTINCT FROM (OLD.contract_sha256, OLD.adapter, OLD.certificate_id, OLD.uncertified)
    THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: by what it was let in never changes', OLD.number, OLD.job_id));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempts_gate_updated BEFORE UPDATE OF contract_sha256, adapter, certificate_id, uncertified ON attempts FOR EACH ROW
    EXECUTE FUNCTION onejob_attempt_gate_updated();

---- create above / drop below ----

DROP TRIGGER attempts_gate_updated ON attempts;
DROP TRIGGER attempts_inserted_gate ON attempts;
DROP FUNCTION onejob_attempt_gate_updated, onejob_attempt_gate;
DROP INDEX attempts_violations;
ALTER TABLE attempts
    DROP CONSTRAINT attempts_gated_once,
    DROP CONSTRAINT attempts_gated_by_contract,
    DROP CONSTRAINT attempts_certificate_whole,
    DROP CONSTRAINT attempts_uncertified,
    DROP CONSTRAINT attempts_certificate,
    DROP COLUMN uncertified,
    DROP COLUMN certificate_id,
    DROP COLUMN adapter,
    DROP COLUMN contract_sha256;
ALTER TABLE decisions
    DROP CONSTRAINT decisions_of_provider,
    DROP CONSTRAINT decisions_uncertified_attempt,
    DROP COLUMN uncertified;
ALTER TABLE certificates DROP CONSTRAINT certificates_what;
