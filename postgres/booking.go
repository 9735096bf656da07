package postgres

// The statements below write what follows from a change together with it: entries of the
// ledger, the end of a reservation, messages. They are parts of the statement that makes the
// change, so nothing of it can be left out and it costs no round trip. None of them says ON
// CONFLICT: who repeats a call finds the row changed already and changes nothing, so a second
// entry would be a defect that must show.

// costed is what bookCost needs of the attempts in a change named done.
const costed = `id, job_id, job_version, recorded_by, number, lane, provider, model, state, reason, detail,
	retryable, retry_after_ms, decided_at, discarded_at, started_at, finished_at, usage`

// bookCost books what the attempt in done used, by the prices that were valid when it
// started, on behalf of done.booked_by, and tells of it.
const bookCost = `
	entry AS (
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices, estimated, unpriced, recorded_by)
		SELECT 'attempt.cost:' || d.id, j.owner_id, 'cost', p.cost, p.currency, d.job_id, d.id, d.provider, d.model, d.usage,
		       p.prices, coalesce((d.usage ->> 'estimated')::boolean, false), p.unpriced, d.booked_by
		FROM done d JOIN jobs j ON j.id = d.job_id, LATERAL onejob_priced(d.provider, d.model, d.usage, d.started_at) p
		WHERE d.usage IS NOT NULL
		RETURNING *
	), entry_told AS (` + entryTold + `)`

// bookCharge books what the owner pays for the result that closed the job, and tells of it: by
// the prices of the attempt's own cost, since an import may have come between, and by those of
// its start where an attempt of before the ledger has no cost.
const bookCharge = `
	entry AS (
		INSERT INTO ledger (source, owner_id, kind, amount, currency, job_id, attempt_id, provider, model, usage, prices, estimated, unpriced, recorded_by)
		SELECT 'job.charge:' || c.id, c.owner_id, 'charge', p.charge, p.currency, c.id, c.attempt_id, c.attempt_provider, c.model, c.usage,
		       p.prices, coalesce((c.usage ->> 'estimated')::boolean, false), p.unpriced, c.recorded_by
		FROM closed c, LATERAL (
			SELECT (SELECT coalesce(sum(s.quantity * s.charge), 0) FROM json_to_recordset(l.prices) AS s (quantity numeric, charge numeric)) AS charge,
			       l.currency, l.prices, l.unpriced
			FROM ledger l WHERE l.attempt_id = c.attempt_id AND l.kind = 'cost' AND l.corrects IS NULL
			UNION ALL
			SELECT new.charge, new.currency, new.prices, new.unpriced FROM onejob_priced(c.attempt_provider, c.model, c.usage, c.started_at) new
			WHERE NOT EXISTS (SELECT FROM ledger l WHERE l.attempt_id = c.attempt_id AND l.kind = 'cost' AND l.corrects IS NULL)
		) p
		RETURNING *
	), entry_told AS (` + entryTold + `)`

// entryTold tells of the rows of entry, whichever statement books them; the topic is what
// stands in front of the source. Who hears it reads amounts as strings: they are exact. An
// entry of no job has null where its job would be named.
const entryTold = `
	INSERT INTO outbox (message_key, owner_id, topic, payload)
	SELECT e.source, e.owner_id, split_part(e.source, ':', 1), json_build_object(
		'entry', e.id, 'owner', e.owner_id, 'job_id', e.job_id, 'attempt', a.number, 'provider', e.provider, 'model', e.model, 'kind', j.kind,
		'amount', trim_scale(e.amount)::text, 'currency', e.currency, 'estimated', e.estimated, 'unpriced', e.unpriced)
	FROM entry e LEFT JOIN attempts a ON a.id = e.attempt_id LEFT JOIN jobs j ON j.id = e.job_id`

// closedJob is what the statements below need of the job in a change named closed.
const closedJob = `jobs.id, jobs.owner_id, jobs.idempotency_key, jobs.kind, jobs.provider, jobs.status, jobs.version, jobs.completed_by, jobs.error, jobs.finished_at`

// settleReservation ends the job's reservation with exactly the charge, and with nothing where
// that is in another currency: what had no price is in none.
const settleReservation = `
	settled AS (
		UPDATE reservations r SET state = 'settled', settled = CASE WHEN e.currency = r.currency THEN e.amount ELSE 0 END, closed_at = clock_timestamp()
		FROM entry e WHERE r.job_id = e.job_id AND r.state = 'open')`

// releaseReservation ends the reservation of a job that closed without a charge.
const releaseReservation = `
	released AS (
		UPDATE reservations r SET state = 'released', closed_at = clock_timestamp()
		FROM closed c WHERE r.job_id = c.id AND r.state = 'open')`

// tellClosed tells what became of the job: with the attempt that won, or the last one. A
// reopened job may fail again, so the key of that has the version.
const tellClosed = `
	job_told AS (
		INSERT INTO outbox (message_key, owner_id, topic, payload)
		SELECT concat_ws(':', 'job.' || c.status, c.id, CASE c.status WHEN 'failed' THEN c.version END), c.owner_id, 'job.' || c.status,
			json_build_object('job_id', c.id, 'owner', c.owner_id, 'key', c.idempotency_key, 'kind', c.kind, 'status', c.status,
				'provider', coalesce(a.provider, c.provider), 'attempt', a.number, 'error', c.error,
				'finished_at', to_char(c.finished_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'))
		FROM closed c LEFT JOIN LATERAL (
			SELECT number, provider FROM attempts
			WHERE job_id = c.id AND (c.completed_by IS NULL OR number = c.completed_by)
			ORDER BY number DESC LIMIT 1) a ON true)`
