-- The two state machines, kept by the database. The root package has the same tables
-- (states.go); a test compares them move by move.

CREATE FUNCTION onejob_refuse(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '%', what USING ERRCODE = 'OJ001';
END $$;

CREATE FUNCTION onejob_job_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.status <> 'accepted' OR NEW.version <> 0 THEN
        PERFORM onejob_refuse(format('a job starts as accepted at version 0, not as %s at %s', NEW.status, NEW.version));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_inserted BEFORE INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION onejob_job_inserted();

CREATE FUNCTION onejob_job_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.owner_id, NEW.idempotency_key, NEW.workflow_id, NEW.kind, NEW.provider, NEW.fallbacks,
        NEW.hedge_after_ms, NEW.callback_url, NEW.fingerprint, NEW.fingerprint_version, NEW.created_at)
       IS DISTINCT FROM
       (OLD.id, OLD.owner_id, OLD.idempotency_key, OLD.workflow_id, OLD.kind, OLD.provider, OLD.fallbacks,
        OLD.hedge_after_ms, OLD.callback_url, OLD.fingerprint, OLD.fingerprint_version, OLD.created_at)
    THEN
        PERFORM onejob_refuse(format('job %s: what identifies a job never changes', OLD.id));
    END IF;
    IF NEW.status <> OLD.status AND NOT (OLD.status, NEW.status) IN (
        ('accepted', 'running'), ('accepted', 'cancelled'),
        ('running', 'unknown'), ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'),
        ('unknown', 'running'), ('unknown', 'succeeded'), ('unknown', 'cancelled'),
        ('failed', 'running'))
    THEN
        PERFORM onejob_refuse(format('job %s: %s cannot become %s', OLD.id, OLD.status, NEW.status));
    END IF;
    -- A decision about the slot counts one: a result written, the job cancelled or reopened.
    IF NEW.version - OLD.version <> (NEW.status <> OLD.status
        AND (NEW.status IN ('succeeded', 'cancelled') OR OLD.status = 'failed'))::integer
    THEN
        PERFORM onejob_refuse(format('job %s: version cannot go from %s to %s as %s becomes %s',
            OLD.id, OLD.version, NEW.version, OLD.status, NEW.status));
    END IF;
    IF OLD.completed_by IS NOT NULL AND (NEW.completed_by IS DISTINCT FROM OLD.completed_by
        OR NEW.result::text IS DISTINCT FROM OLD.result::text)
    THEN
        PERFORM onejob_refuse(format('job %s: its result was written by attempt %s and never changes', OLD.id, OLD.completed_by));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_updated BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION onejob_job_updated();

-- The input is what the fingerprint speaks of. Compared apart, and only when a
-- statement names the column, so that a large input costs other updates nothing.
CREATE FUNCTION onejob_input_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.input::text <> OLD.input::text THEN
        PERFORM onejob_refuse(format('job %s: its input never changes', OLD.id));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_input_updated BEFORE UPDATE OF input ON jobs FOR EACH ROW EXECUTE FUNCTION onejob_input_updated();

-- A job closes as failed or cancelled only when nothing under it can still win.
CREATE FUNCTION onejob_job_closing() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT FROM attempts WHERE job_id = NEW.id
               AND (state IN ('starting', 'running', 'unknown') OR (state = 'succeeded' AND decided_at IS NULL)))
    THEN
        PERFORM onejob_refuse(format('job %s: cannot become %s while an attempt is unresolved', NEW.id, NEW.status));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER jobs_closing BEFORE UPDATE OF status ON jobs FOR EACH ROW
    WHEN (NEW.status IN ('failed', 'cancelled') AND NEW.status <> OLD.status) EXECUTE FUNCTION onejob_job_closing();

CREATE FUNCTION onejob_attempt_inserted() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    job record;
BEGIN
    SELECT status, version, hedge_after_ms INTO job FROM jobs WHERE id = NEW.job_id FOR NO KEY UPDATE;
    IF NEW.state <> 'starting' AND NOT (NEW.state = 'failed' AND NEW.reason IN ('never_started', 'not_certified')) THEN
        PERFORM onejob_refuse(format('job %s: an attempt starts as starting, not as %s', NEW.job_id, NEW.state));
    END IF;
    IF NEW.state = 'starting' AND NOT (job.status = 'running' OR job.status = 'unknown' AND NEW.lane = 1) THEN
        PERFORM onejob_refuse(format('job %s: no attempt starts while the job is %s', NEW.job_id, job.status));
    END IF;
    IF NEW.lane <> 0 AND job.hedge_after_ms IS NULL THEN
        PERFORM onejob_refuse(format('job %s: it allows no hedge, so it has one lane', NEW.job_id));
    END IF;
    IF NEW.job_version <> job.version THEN
        PERFORM onejob_refuse(format('job %s: the attempt read version %s, the job is at %s', NEW.job_id, NEW.job_version, job.version));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempts_inserted BEFORE INSERT ON attempts FOR EACH ROW EXECUTE FUNCTION onejob_attempt_inserted();

CREATE FUNCTION onejob_attempt_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.id, NEW.job_id, NEW.number, NEW.lane, NEW.provider, NEW.job_version, NEW.execution, NEW.started_at)
       IS DISTINCT FROM
       (OLD.id, OLD.job_id, OLD.number, OLD.lane, OLD.provider, OLD.job_version, OLD.execution, OLD.started_at)
    THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: what identifies an attempt never changes', OLD.number, OLD.job_id));
    END IF;
    IF NEW.state <> OLD.state AND NOT (OLD.state, NEW.state) IN (
        ('starting', 'running'), ('starting', 'unknown'), ('starting', 'succeeded'), ('starting', 'failed'), ('starting', 'cancelled'),
        ('running', 'unknown'), ('running', 'succeeded'), ('running', 'failed'), ('running', 'cancelled'),
        ('unknown', 'succeeded'), ('unknown', 'failed'), ('unknown', 'cancelled'))
    THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: %s cannot become %s', OLD.number, OLD.job_id, OLD.state, NEW.state));
    END IF;
    IF OLD.state IN ('succeeded', 'failed', 'cancelled')
        AND ((NEW.reason, NEW.detail, NEW.retryable, NEW.retry_after_ms, NEW.recorded_by, NEW.finished_at)
            IS DISTINCT FROM (OLD.reason, OLD.detail, OLD.retryable, OLD.retry_after_ms, OLD.recorded_by, OLD.finished_at)
            OR NEW.result IS NOT NULL AND OLD.result IS NOT NULL AND NEW.result::text <> OLD.result::text)
    THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: its outcome never changes', OLD.number, OLD.job_id));
    END IF;
    IF OLD.decided_at IS NOT NULL AND (NEW.decided_at, NEW.discarded_at) IS DISTINCT FROM (OLD.decided_at, OLD.discarded_at)
        OR OLD.discarded_at IS NOT NULL AND NEW.discarded_at IS DISTINCT FROM OLD.discarded_at
    THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: it was decided on and stays so', OLD.number, OLD.job_id));
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER attempts_updated BEFORE UPDATE ON attempts FOR EACH ROW EXECUTE FUNCTION onejob_attempt_updated();

-- A decided success either fills the slot or is marked discarded. Checked at the end
-- of the statement's transaction, when both rows are written.
CREATE FUNCTION onejob_attempt_decided() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (SELECT completed_by IS NOT DISTINCT FROM NEW.number FROM jobs WHERE id = NEW.job_id)
        = (NEW.discarded_at IS NOT NULL)
    THEN
        PERFORM onejob_refuse(format('attempt %s of job %s: a decided result is the winner or is discarded', NEW.number, NEW.job_id));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER attempts_decided AFTER UPDATE ON attempts DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.decided_at IS NOT NULL AND OLD.decided_at IS NULL) EXECUTE FUNCTION onejob_attempt_decided();

-- And the slot is filled only by a success that was decided on in the same transaction.
CREATE FUNCTION onejob_job_completed() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (SELECT FROM attempts WHERE job_id = NEW.id AND number = NEW.completed_by
                   AND state = 'succeeded' AND decided_at IS NOT NULL AND discarded_at IS NULL
                   AND job_version = NEW.version - 1)
    THEN
        PERFORM onejob_refuse(format('job %s: attempt %s is not a success of version %s', NEW.id, NEW.completed_by, NEW.version - 1));
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER jobs_completed AFTER UPDATE ON jobs DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
    WHEN (NEW.completed_by IS NOT NULL AND OLD.completed_by IS NULL) EXECUTE FUNCTION onejob_job_completed();

-- A key lives for ever, and history is not rewritten.
CREATE FUNCTION onejob_never_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('rows of %s are never deleted: a forgotten key would run its intention again', TG_TABLE_NAME));
    RETURN NULL;
END $$;
CREATE TRIGGER jobs_never_deleted BEFORE DELETE ON jobs FOR EACH ROW EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER attempts_never_deleted BEFORE DELETE ON attempts FOR EACH ROW EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER jobs_never_truncated BEFORE TRUNCATE ON jobs FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER attempts_never_truncated BEFORE TRUNCATE ON attempts FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

CREATE FUNCTION onejob_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM onejob_refuse(format('rows of %s are never changed', TG_TABLE_NAME));
    RETURN NULL;
END $$;
CREATE TRIGGER decisions_append_only BEFORE UPDATE OR DELETE ON decisions FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER discarded_results_append_only BEFORE UPDATE OR DELETE ON discarded_results FOR EACH ROW EXECUTE FUNCTION onejob_append_only();
CREATE TRIGGER decisions_never_truncated BEFORE TRUNCATE ON decisions FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();
CREATE TRIGGER discarded_results_never_truncated BEFORE TRUNCATE ON discarded_results FOR EACH STATEMENT EXECUTE FUNCTION onejob_never_deleted();

---- create above / drop below ----

DROP TRIGGER discarded_results_never_truncated ON discarded_results;
DROP TRIGGER decisions_never_truncated ON decisions;
DROP TRIGGER discarded_results_append_only ON discarded_results;
DROP TRIGGER decisions_append_only ON decisions;
DROP TRIGGER attempts_never_truncated ON attempts;
DROP TRIGGER jobs_never_truncated ON jobs;
DROP TRIGGER attempts_never_deleted ON attempts;
DROP TRIGGER jobs_never_deleted ON jobs;
DROP TRIGGER jobs_completed ON jobs;
DROP TRIGGER attempts_decided ON attempts;
DROP TRIGGER attempts_updated ON attempts;
DROP TRIGGER attempts_inserted ON attempts;
DROP TRIGGER jobs_closing ON jobs;
DROP TRIGGER jobs_input_updated ON jobs;
DROP TRIGGER jobs_updated ON jobs;
DROP TRIGGER jobs_inserted ON jobs;
DROP FUNCTION onejob_append_only, onejob_never_deleted, onejob_job_completed, onejob_attempt_decided,
    onejob_attempt_updated, onejob_attempt_inserted, onejob_job_closing, onejob_input_updated,
    onejob_job_updated, onejob_job_inserted, onejob_refuse;
