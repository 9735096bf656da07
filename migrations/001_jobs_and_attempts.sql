-- One job per intention, its attempts, and what became of them.
--
-- The constraints below are the enforcers: whatever a program or a hand in psql does,
-- it cannot make a second job for a key, a second live attempt in a lane, a second
-- result, or an illegal move. Times are the database's clock, in UTC. Order comes from
-- numbers and versions, never from times.

-- Text that names somebody or something: bytes compare as bytes, and blank is nobody.
CREATE DOMAIN onejob_name AS text COLLATE "C"
    CONSTRAINT onejob_name_not_blank CHECK (VALUE ~ '[^[:space:]]');

CREATE TABLE jobs (
    id                  uuid PRIMARY KEY,
    owner_id            onejob_name NOT NULL CHECK (octet_length(owner_id) <= 200),
    idempotency_key     onejob_name NOT NULL CHECK (octet_length(idempotency_key) <= 255),
    workflow_id         onejob_name NOT NULL CHECK (octet_length(workflow_id) <= 512),
    kind                onejob_name NOT NULL,
    provider            onejob_name NOT NULL,
    fallbacks           text[]      NOT NULL DEFAULT '{}',
    hedge_after_ms      bigint      CHECK (hedge_after_ms > 0),
    callback_url        text        CHECK (callback_url <> ''),
    input               json        NOT NULL,
    fingerprint         bytea       NOT NULL CHECK (octet_length(fingerprint) = 32),
    fingerprint_version smallint    NOT NULL CHECK (fingerprint_version > 0),
    timeout_ms          bigint      NOT NULL CHECK (timeout_ms > 0),
    listen_for_ms       bigint      NOT NULL CHECK (listen_for_ms >= timeout_ms),
    max_attempts        integer     NOT NULL CHECK (max_attempts > 0),
    labels              json        NOT NULL DEFAULT '{}',

    status              text        NOT NULL DEFAULT 'accepted'
        CHECK (status IN ('accepted', 'running', 'unknown', 'succeeded', 'failed', 'cancelled')),
    version             integer     NOT NULL DEFAULT 0 CHECK (version >= 0),
    completed_by        integer,
    result              json,
    error               json,
    requested_provider  text        CHECK (requested_provider <> ''),
    created_at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at         timestamptz,
    reconcile_at        timestamptz NOT NULL DEFAULT clock_timestamp() + interval '10 seconds',

    CONSTRAINT jobs_owner_key UNIQUE (owner_id, idempotency_key),
    CONSTRAINT jobs_workflow_id UNIQUE (workflow_id),
    CONSTRAINT jobs_result_has_winner CHECK ((completed_by IS NULL) = (result IS NULL)),
    CONSTRAINT jobs_winner_means_succeeded CHECK ((completed_by IS NOT NULL) = (status = 'succeeded')),
    CONSTRAINT jobs_error_means_failed CHECK ((error IS NOT NULL) = (status = 'failed')),
    CONSTRAINT jobs_finished_when_closed CHECK ((finished_at IS NOT NULL) = (status IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT jobs_closed_asks_for_nothing CHECK (requested_provider IS NULL OR status IN ('running', 'accepted'))
);

-- What the reconciler looks at: open jobs, the longest unwatched first.
CREATE INDEX jobs_open ON jobs (reconcile_at) WHERE status IN ('accepted', 'running', 'unknown');
-- What lists look at: an owner's jobs, and a status's, the newest first.
CREATE INDEX jobs_by_owner ON jobs (owner_id, id);
CREATE INDEX jobs_by_status ON jobs (status, id) WHERE status <> 'succeeded';

CREATE TABLE attempts (
    id             bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id         uuid        NOT NULL REFERENCES jobs (id),
    number         integer     NOT NULL CHECK (number > 0),
    lane           smallint    NOT NULL DEFAULT 0 CHECK (lane IN (0, 1)),
    provider       onejob_name NOT NULL,
    job_version    integer     NOT NULL,
    execution      uuid,
    state          text        NOT NULL DEFAULT 'starting'
        CHECK (state IN ('starting', 'running', 'unknown', 'succeeded', 'failed', 'cancelled')),
    reason         text        COLLATE "C" CHECK (reason <> ''),
    detail         text        CHECK (octet_length(detail) <= 4096),
    retryable      boolean     NOT NULL DEFAULT false,
    retry_after_ms bigint      NOT NULL DEFAULT 0 CHECK (retry_after_ms >= 0),
    provider_ref   text        CHECK (provider_ref <> ''),
    usage          json,
    result         json,
    recorded_by    text        COLLATE "C",
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at    timestamptz,
    decided_at     timestamptz,
    discarded_at   timestamptz,

    CONSTRAINT attempts_job_number UNIQUE (job_id, number),
    CONSTRAINT attempts_reason_given CHECK (reason IS NOT NULL OR state IN ('starting', 'running', 'succeeded')),
    CONSTRAINT attempts_finished_when_final CHECK ((finished_at IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT attempts_recorded_when_final CHECK ((recorded_by IS NOT NULL) = (state IN ('succeeded', 'failed', 'cancelled'))),
    CONSTRAINT attempts_retryable_failed CHECK (state = 'failed' OR NOT retryable),
    CONSTRAINT attempts_decided_when_succeeded CHECK (decided_at IS NULL OR state = 'succeeded'),
    CONSTRAINT attempts_discarded_when_decided CHECK (discarded_at IS NULL OR decided_at IS NOT NULL OR state IN ('cancelled', 'failed')),
    -- A payload is here only between the answer and the decision on it.
    CONSTRAINT attempts_result_until_decided CHECK ((result IS NOT NULL) = (state = 'succeeded' AND decided_at IS NULL)),
    CONSTRAINT attempts_execution_unless_fenced CHECK (execution IS NOT NULL OR reason IS NOT DISTINCT FROM 'never_started')
);

-- One live attempt per lane. An attempt is live until its outcome is known and, if
-- that is a result, until the result has won or was discarded.
CREATE UNIQUE INDEX attempts_one_live ON attempts (job_id, lane)
    WHERE state IN ('starting', 'running', 'unknown') OR (state = 'succeeded' AND decided_at IS NULL);
CREATE INDEX attempts_unknown ON attempts (provider, started_at) WHERE state = 'unknown';

-- The winner is an attempt of the same job.
ALTER TABLE jobs ADD CONSTRAINT jobs_completed_by_attempt
    FOREIGN KEY (id, completed_by) REFERENCES attempts (job_id, number);

-- What is left of a result that did not win. The payload is not.
CREATE TABLE discarded_results (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    attempt_id        bigint      NOT NULL UNIQUE REFERENCES attempts (id),
    job_id            uuid        NOT NULL REFERENCES jobs (id),
    reason            text        NOT NULL CHECK (reason <> ''),
    winner_attempt_id bigint      REFERENCES attempts (id) CHECK (winner_attempt_id <> attempt_id),
    sha256            bytea       NOT NULL CHECK (octet_length(sha256) = 32),
    bytes             bigint      NOT NULL CHECK (bytes >= 0),
    arrived_at        timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Who decided something about a job, when and why. The token makes a decision that is
-- sent twice one decision.
CREATE TABLE decisions (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job_id     uuid        NOT NULL REFERENCES jobs (id),
    attempt    integer,
    action     text        NOT NULL CHECK (action IN ('start-attempt', 'cancel-attempt', 'resolve-attempt', 'cancel-job')),
    outcome    text        CHECK (outcome IN ('succeeded', 'failed')),
    provider   text,
    decided_by onejob_name NOT NULL,
    reason     text        NOT NULL DEFAULT '' CHECK (octet_length(reason) <= 4096),
    token      onejob_name NOT NULL UNIQUE,
    refused    text        CHECK (refused <> ''), -- the code, where the rows did not allow it
    refusal    text,
    decided_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT decisions_attempt_of_job FOREIGN KEY (job_id, attempt) REFERENCES attempts (job_id, number)
);
CREATE INDEX decisions_by_job ON decisions (job_id, id);

---- create above / drop below ----

DROP TABLE decisions;
DROP TABLE discarded_results;
ALTER TABLE jobs DROP CONSTRAINT jobs_completed_by_attempt;
DROP TABLE attempts;
DROP TABLE jobs;
DROP DOMAIN onejob_name;
