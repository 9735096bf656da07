package postgres

// The scope's conditions on the tables by their short names: of days by UTC, on the bare
// column, so that an index of it can serve.
const (
	ledgerInScope  = `l.day BETWEEN $2::date AND $3::date AND ($1::text = '' OR l.owner_id = $1)`
	jobInScope     = `j.finished_at >= $2::date::timestamp AT TIME ZONE 'UTC' AND j.finished_at < ($3::date + 1)::timestamp AT TIME ZONE 'UTC' AND ($1::text = '' OR j.owner_id = $1)`
	attemptInScope = `a.finished_at >= $2::date::timestamp AT TIME ZONE 'UTC' AND a.finished_at < ($3::date + 1)::timestamp AT TIME ZONE 'UTC' AND ($1::text = '' OR j.owner_id = $1)`
)

// moneyChecks are about the ledger, and the budgets.
var moneyChecks = []auditCheck{
	{"jobs_without_charge", SeverityDifference, jobsWithoutCharge},
	{"charges_without_job", SeverityDifference, chargesWithoutJob},
	{"jobs_charged_twice", SeverityDifference, jobsChargedTwice},
	{"attempts_without_cost", SeverityDifference, attemptsWithoutCost},
	{"costs_without_attempt", SeverityDifference, costsWithoutAttempt},
	{"attempts_costed_twice", SeverityDifference, attemptsCostedTwice},
	{"calls_without_cost", SeverityDifference, callsWithoutCost},
	{"costs_without_call", SeverityDifference, costsWithoutCall},
	{"calls_costed_twice", SeverityDifference, callsCostedTwice},
	{"amounts_by_snapshot", SeverityDifference, amountsBySnapshot},
	{"amounts_by_usage", SeverityDifference, amountsByUsage},
	{"snapshots_by_prices", SeverityDifference, snapshotsByPrices},
	{"unpriced_with_price", SeverityDifference, unpricedWithPrice},
	{"corrections", SeverityDifference, correctionsDiffer},
	{"accounts", SeverityDifference, accountsDiffer},
	{"accounts_sum", SeverityDifference, accountsSum},
	{"budgets", SeverityDifference, budgetsDiffer},
	{"settlements", SeverityDifference, settlementsDiffer},
	{"reservations", SeverityDifference, reservationsDiffer},
	{"certification_settlements", SeverityDifference, certificationSettlementsDiffer},
	{"unpriced_entries", SeverityWarning, unpricedEntries},
}

const jobsWithoutCharge = `
	SELECT json_build_object('job', j.id, 'owner', j.owner_id) AS ids,
		format('job %s of %s succeeded by attempt %s and is not charged', j.id, j.owner_id, j.completed_by) AS says
	FROM jobs j
	WHERE j.status = 'succeeded' AND ` + jobInScope + `
	  AND NOT EXISTS (SELECT FROM ledger l WHERE l.job_id = j.id AND l.kind = 'charge')
	ORDER BY j.id`

// chargesWithoutJob: a charge is of what the attempt used that won.
const chargesWithoutJob = `
	SELECT json_build_object('entry', l.id::text, 'job', l.job_id, 'owner', l.owner_id, 'attempt', coalesce(a.number::text, '')) AS ids,
		format('entry %s charges %s for job %s, which is %s by attempt %s of %s; it is of %s at %s %s, attempt %s used %s of %s %s', l.id, l.owner_id, l.job_id,
			coalesce(j.status, 'not there'), j.completed_by, j.owner_id, l.usage, l.provider, l.model, a.number, a.usage, a.provider, a.model) AS says
	FROM ledger l LEFT JOIN jobs j ON j.id = l.job_id LEFT JOIN attempts a ON a.id = l.attempt_id
	WHERE l.kind = 'charge' AND ` + ledgerInScope + `
	  AND (j.status IS DISTINCT FROM 'succeeded' OR j.owner_id <> l.owner_id
	       OR a.job_id IS DISTINCT FROM j.id OR a.number IS DISTINCT FROM j.completed_by
	       OR a.provider <> l.provider OR a.model <> coalesce(l.model, '')
	       OR a.usage::text <> l.usage::text AND a.usage::jsonb <> l.usage::jsonb)
	ORDER BY l.id`

const jobsChargedTwice = `
	SELECT json_build_object('entry', l.id::text, 'first', o.id::text, 'job', l.job_id, 'owner', l.owner_id) AS ids,
		format('entry %s charges %s again for job %s: entry %s did', l.id, l.owner_id, l.job_id, o.id) AS says
	FROM ledger l JOIN ledger o ON o.job_id = l.job_id AND o.kind = 'charge' AND o.id < l.id
	WHERE l.kind = 'charge' AND ` + ledgerInScope + `
	ORDER BY l.id`

const attemptsWithoutCost = `
	SELECT json_build_object('job', a.job_id, 'attempt', a.number::text, 'owner', j.owner_id) AS ids,
		format('attempt %s of job %s used %s of %s, and its cost is not booked', a.number, a.job_id, a.usage, a.provider) AS says
	FROM attempts a JOIN jobs j ON j.id = a.job_id
	WHERE a.state IN ('succeeded', 'failed', 'cancelled') AND a.usage IS NOT NULL AND ` + attemptInScope + `
	  AND NOT EXISTS (SELECT FROM ledger l WHERE l.attempt_id = a.id AND l.kind = 'cost' AND l.corrects IS NULL)
	ORDER BY a.id`

// costsWithoutAttempt compares what was used as values: texts of the same JSON may differ.
const costsWithoutAttempt = `
	SELECT json_build_object('entry', l.id::text, 'job', l.job_id, 'attempt', coalesce(a.number::text, ''), 'owner', l.owner_id) AS ids,
		format('entry %s is the cost of %s at %s %s, attempt %s of job %s used %s of %s %s', l.id, l.usage, l.provider, l.model,
			a.number, a.job_id, a.usage, a.provider, a.model) AS says
	FROM ledger l LEFT JOIN attempts a ON a.id = l.attempt_id LEFT JOIN jobs j ON j.id = a.job_id
	WHERE l.kind = 'cost' AND l.corrects IS NULL AND l.certification_call IS NULL AND ` + ledgerInScope + `
	  AND (a.job_id IS DISTINCT FROM l.job_id OR j.owner_id IS DISTINCT FROM l.owner_id OR a.provider <> l.provider OR a.model <> coalesce(l.model, '')
	       OR a.usage IS NULL OR a.usage::text <> l.usage::text AND a.usage::jsonb <> l.usage::jsonb)
	ORDER BY l.id`

const attemptsCostedTwice = `
	SELECT json_build_object('entry', l.id::text, 'first', o.id::text, 'job', l.job_id, 'owner', l.owner_id) AS ids,
		format('entry %s is a second cost of an attempt of job %s: entry %s is the first', l.id, l.job_id, o.id) AS says
	FROM ledger l JOIN ledger o ON o.attempt_id = l.attempt_id AND o.kind = 'cost' AND o.corrects IS NULL AND o.id < l.id
	WHERE l.kind = 'cost' AND l.corrects IS NULL AND ` + ledgerInScope + `
	ORDER BY l.id`

// callInScope is of the calls of certifications that have an outcome.
const callInScope = `k.finished_at >= $2::date::timestamp AT TIME ZONE 'UTC' AND k.finished_at < ($3::date + 1)::timestamp AT TIME ZONE 'UTC' AND ($1::text = '' OR r.owner_id = $1)`

const callsWithoutCost = `
	SELECT json_build_object('certification', k.run_id, 'call', k.id::text, 'owner', r.owner_id) AS ids,
		format('call %s of certification %s used %s of %s, and its cost is not booked', k.id, k.run_id, k.usage, r.provider) AS says
	FROM certification_calls k JOIN certification_runs r ON r.id = k.run_id
	WHERE k.usage IS NOT NULL AND ` + callInScope + `
	  AND NOT EXISTS (SELECT FROM ledger l WHERE l.certification_call = k.id AND l.corrects IS NULL)
	ORDER BY k.id`

const costsWithoutCall = `
	SELECT json_build_object('entry', l.id::text, 'certification', coalesce(k.run_id::text, ''), 'call', l.certification_call::text, 'owner', l.owner_id) AS ids,
		format('entry %s is the cost of %s at %s %s, call %s of certification %s used %s of %s %s', l.id, l.usage, l.provider, l.model,
			l.certification_call, k.run_id, k.usage, r.provider, r.model) AS says
	FROM ledger l LEFT JOIN certification_calls k ON k.id = l.certification_call LEFT JOIN certification_runs r ON r.id = k.run_id
	WHERE l.certification_call IS NOT NULL AND l.corrects IS NULL AND ` + ledgerInScope + `
	  AND (l.kind <> 'cost' OR r.owner_id IS DISTINCT FROM l.owner_id OR r.provider IS DISTINCT FROM l.provider OR r.model IS DISTINCT FROM coalesce(l.model, '')
	       OR k.usage IS NULL OR k.usage::text <> l.usage::text AND k.usage::jsonb <> l.usage::jsonb)
	ORDER BY l.id`

const callsCostedTwice = `
	SELECT json_build_object('entry', l.id::text, 'first', o.id::text, 'call', l.certification_call::text, 'owner', l.owner_id) AS ids,
		format('entry %s is a second cost of call %s of a certification: entry %s is the first', l.id, l.certification_call, o.id) AS says
	FROM ledger l JOIN ledger o ON o.certification_call = l.certification_call AND o.corrects IS NULL AND o.id < l.id
	WHERE l.corrects IS NULL AND ` + ledgerInScope + `
	ORDER BY l.id`

// snapshotLines are the lines of the entry l's own snapshot.
const snapshotLines = `json_to_recordset(l.prices) AS s (id bigint, unit text, quantity numeric, price numeric, charge numeric)`

// amountsBySnapshot multiplies the lines of each entry's snapshot.
const amountsBySnapshot = `
	SELECT json_build_object('entry', l.id::text, 'owner', l.owner_id, 'amount', l.amount::text, 'recomputed', r.amount::text) AS ids,
		format('entry %s is of %s, its snapshot comes to %s', l.id, trim_scale(l.amount), trim_scale(r.amount)) AS says
	FROM ledger l, LATERAL (
		SELECT coalesce(sum(s.quantity * CASE l.kind WHEN 'cost' THEN s.price ELSE s.charge END), 0) AS amount FROM ` + snapshotLines + `) r
	WHERE l.kind IN ('cost', 'charge') AND l.corrects IS NULL AND ` + ledgerInScope + ` AND l.amount IS DISTINCT FROM r.amount
	ORDER BY l.id`

// amountsByUsage counts the units of each entry's usage itself, and multiplies them by the
// prices of the snapshot. A unit that is used and has no line makes the entry unpriced; a
// call without a price is free.
const amountsByUsage = `
	SELECT json_build_object('entry', l.id::text, 'owner', l.owner_id, 'amount', l.amount::text, 'recomputed', r.amount::text) AS ids,
		format('entry %s is of %s and unpriced is %s, its usage %s comes to %s and unpriced is %s', l.id, trim_scale(l.amount), l.unpriced,
			l.usage, trim_scale(r.amount), r.unpriced) AS says
	FROM ledger l, LATERAL (
		SELECT greatest(coalesce(input_tokens, 0) - coalesce(cached_input_tokens, 0), 0) AS input, greatest(cached_input_tokens, 0) AS cached_input,
			greatest(coalesce(output_tokens, 0) - coalesce(reasoning_tokens, 0), 0) AS output, greatest(reasoning_tokens, 0) AS reasoning,
			greatest(images, 0) AS image, greatest(milliseconds, 0) / 1000 AS second
		FROM json_to_record(l.usage) AS u (input_tokens numeric, cached_input_tokens numeric, output_tokens numeric, reasoning_tokens numeric,
			images numeric, milliseconds numeric)
	) u, LATERAL (
		SELECT coalesce(sum(CASE s.unit WHEN 'input' THEN u.input WHEN 'cached_input' THEN u.cached_input WHEN 'output' THEN u.output
				WHEN 'reasoning' THEN u.reasoning WHEN 'image' THEN u.image WHEN 'second' THEN u.second WHEN 'call' THEN 1 END
				* CASE l.kind WHEN 'cost' THEN s.price ELSE s.charge END), 0) AS amount,
			l.currency = 'XXX' OR u.input > 0 AND 'input' <> ALL (units) OR u.cached_input > 0 AND 'cached_input' <> ALL (units)
				OR u.output > 0 AND 'output' <> ALL (units) OR u.reasoning > 0 AND 'reasoning' <> ALL (units)
				OR u.image > 0 AND 'image' <> ALL (units) OR u.second > 0 AND 'second' <> ALL (units) AS unpriced
		FROM (SELECT coalesce(array_agg(unit), '{}') AS units FROM ` + snapshotLines + `) named LEFT JOIN ` + snapshotLines + ` ON true
		GROUP BY units) r
	WHERE l.kind IN ('cost', 'charge') AND l.corrects IS NULL AND ` + ledgerInScope + `
	  AND (l.amount IS DISTINCT FROM r.amount OR l.unpriced <> r.unpriced)
	ORDER BY l.id`

// knownAtBooking says that the price n is of the entry l's model, was valid when its attempt a,
// or its call k of a certification, started, and was recorded before the call was costed: a charge goes by the prices of the
// cost. What was recorded in the minute before may not have been committed.
const knownAtBooking = `n.provider = l.provider AND n.model = coalesce(l.model, '') AND n.valid_from <= coalesce(a.started_at, k.started_at)
	AND n.recorded_at < (SELECT coalesce(min(c.created_at), l.created_at) FROM ledger c
	                     WHERE c.attempt_id = l.attempt_id AND c.kind = 'cost' AND c.corrects IS NULL) - interval '1 minute'`

// snapshotsByPrices compares each line with the price that it names, which must have been
// valid when the attempt started, with no later one and none of the unit itself in its place,
// and be of the unit or of the one that it is counted among.
const snapshotsByPrices = `
	SELECT json_build_object('entry', l.id::text, 'owner', l.owner_id, 'price', coalesce(s.id::text, ''), 'unit', s.unit) AS ids,
		format('entry %s of %s %s has %s as price %s, which is %s', l.id, l.provider, l.model, row_to_json(s), s.id, coalesce(row_to_json(p)::text, 'not there')) AS says
	FROM ledger l CROSS JOIN LATERAL ` + snapshotLines + `
	LEFT JOIN prices p ON p.id = s.id LEFT JOIN attempts a ON a.id = l.attempt_id LEFT JOIN certification_calls k ON k.id = l.certification_call
	WHERE l.corrects IS NULL AND ` + ledgerInScope + `
	  AND (p.id IS NULL OR p.price <> s.price OR p.charge <> s.charge
	       OR p.provider <> l.provider OR p.model <> coalesce(l.model, '') OR p.currency <> l.currency OR p.valid_from > coalesce(a.started_at, k.started_at)
	       OR p.unit NOT IN (s.unit, CASE s.unit WHEN 'cached_input' THEN 'input' WHEN 'reasoning' THEN 'output' ELSE '' END)
	       OR EXISTS (SELECT FROM prices n WHERE ` + knownAtBooking + `
	                  AND (n.unit = p.unit AND n.valid_from > p.valid_from OR n.unit = s.unit AND p.unit <> s.unit)))
	ORDER BY l.id, s.unit`

const correctionsDiffer = `
	SELECT json_build_object('entry', l.id::text, 'corrects', l.corrects::text, 'owner', l.owner_id) AS ids,
		format('entry %s, %s of %s %s, does not take back entry %s, %s of %s %s', l.id, l.kind, trim_scale(l.amount), l.currency,
			l.corrects, c.kind, trim_scale(c.amount), c.currency) AS says
	FROM ledger l LEFT JOIN ledger c ON c.id = l.corrects
	WHERE l.corrects IS NOT NULL AND ` + ledgerInScope + `
	  AND (c.id IS NULL OR c.corrects IS NOT NULL OR c.owner_id <> l.owner_id OR c.currency <> l.currency
	       OR NOT (c.kind = 'charge' AND l.kind = 'credit' AND l.amount = c.amount OR c.kind <> 'charge' AND l.kind = c.kind AND l.amount = -c.amount)
	       OR EXISTS (SELECT FROM ledger o WHERE o.corrects = l.corrects AND o.id < l.id))
	ORDER BY l.id`

const accountsDiffer = `
	SELECT json_build_object('entry', l.id::text, 'owner', l.owner_id) AS ids,
		format('entry %s, a %s of %s, goes from %s to %s', l.id, l.kind, l.owner_id, l.from_account, l.to_account) AS says
	FROM ledger l
	WHERE ` + ledgerInScope + ` AND (
		l.from_account IS DISTINCT FROM CASE l.kind
			WHEN 'charge' THEN 'owner:' || l.owner_id WHEN 'cost' THEN 'costs' WHEN 'credit' THEN 'credits' ELSE 'world' END COLLATE "C"
		OR l.to_account IS DISTINCT FROM CASE l.kind
			WHEN 'charge' THEN 'revenue' WHEN 'cost' THEN 'provider:' || l.provider ELSE 'owner:' || l.owner_id END COLLATE "C")
	ORDER BY l.id`

// accountsSum is the one query for the sum over all accounts.
const accountsSum = `
	SELECT json_build_object('currency', currency, 'sum', sum(amount)::text) AS ids,
		format('all accounts together have %s %s, not nothing', trim_scale(sum(amount)), currency) AS says
	FROM (SELECT l.currency, l.from_account AS account, -l.amount AS amount FROM ledger l WHERE ` + ledgerInScope + `
		UNION ALL SELECT l.currency, l.to_account, l.amount FROM ledger l WHERE ` + ledgerInScope + `) movements
	WHERE account IS NOT NULL GROUP BY currency HAVING sum(amount) <> 0
	ORDER BY currency`

// budgetsDiffer looks at every month: the counters are few.
const budgetsDiffer = `
	SELECT json_build_object('owner', owner_id, 'month', to_char(month, 'YYYY-MM'), 'counter', c.counter, 'budget', c.kept::text, 'reservations', c.summed::text) AS ids,
		format('%s of the budget of %s for %s is %s, its reservations come to %s', c.counter, owner_id, to_char(month, 'YYYY-MM'), trim_scale(c.kept), trim_scale(c.summed)) AS says
	FROM budgets b FULL JOIN (
		SELECT owner_id, month, currency, sum(amount) FILTER (WHERE state = 'open') AS open, sum(settled) FILTER (WHERE state = 'settled') AS settled
		FROM (SELECT owner_id, month, currency, amount, state, settled FROM reservations
			UNION ALL SELECT c.owner_id, c.month, m.currency, c.estimate, CASE c.state WHEN 'running' THEN 'open' ELSE 'settled' END, c.settled
			FROM certification_runs c JOIN budgets m USING (owner_id, month)) set_aside
		GROUP BY owner_id, month, currency) r USING (owner_id, month, currency),
		LATERAL (VALUES ('reserved', coalesce(b.reserved, 0), coalesce(r.open, 0)), ('spent', coalesce(b.spent, 0), coalesce(r.settled, 0))) c (counter, kept, summed)
	WHERE ($1::text = '' OR owner_id = $1) AND c.kept <> c.summed
	ORDER BY owner_id, month, c.counter`

const settlementsDiffer = `
	SELECT json_build_object('job', r.job_id, 'owner', r.owner_id, 'settled', coalesce(r.settled::text, ''), 'charge', coalesce(l.amount::text, ''),
			'currency', r.currency, 'charged_in', coalesce(l.currency, '')) AS ids,
		format('job %s of %s: %s of its reservations are settled, with %s %s; its charge is %s %s', r.job_id, r.owner_id, r.times, trim_scale(r.settled), r.currency,
			trim_scale(l.amount), l.currency) AS says
	FROM (SELECT job_id, min(owner_id::text) AS owner_id, min(currency::text) AS currency, count(settled) AS times, sum(settled) AS settled
		FROM reservations GROUP BY job_id) r
	LEFT JOIN ledger l ON l.job_id = r.job_id AND l.kind = 'charge'
	WHERE ($1::text = '' OR r.owner_id = $1) AND (r.settled IS DISTINCT FROM l.amount OR r.times <> (l.id IS NOT NULL)::integer OR l.currency NOT IN (r.currency, 'XXX'))
	ORDER BY r.job_id`

const reservationsDiffer = `
	SELECT json_build_object('job', r.job_id, 'owner', r.owner_id, 'open', r.open::text, 'status', coalesce(j.status, '')) AS ids,
		format('job %s of %s is %s and has %s open reservations', r.job_id, r.owner_id, coalesce(j.status, 'not there'), r.open) AS says
	FROM (SELECT job_id, min(owner_id::text) AS owner_id, count(*) FILTER (WHERE state = 'open') AS open FROM reservations GROUP BY job_id) r
	LEFT JOIN jobs j ON j.id = r.job_id
	WHERE ($1::text = '' OR r.owner_id = $1) AND (r.open <> coalesce(j.status IN ('accepted', 'running', 'unknown'), false)::integer OR j.owner_id IS DISTINCT FROM r.owner_id)
	ORDER BY r.job_id`

// certificationSettlementsDiffer: a run settles what its calls cost, those answered late too.
const certificationSettlementsDiffer = `
	SELECT json_build_object('certification', r.id, 'owner', r.owner_id, 'settled', r.settled::text, 'cost', b.cost::text, 'currency', r.currency) AS ids,
		format('certification %s of %s is settled with %s %s, its calls cost %s', r.id, r.owner_id, trim_scale(r.settled), r.currency, trim_scale(b.cost)) AS says
	FROM certification_runs r, LATERAL (
		SELECT coalesce(sum(l.amount), 0) AS cost FROM certification_calls k JOIN ledger l ON l.certification_call = k.id
		WHERE k.run_id = r.id AND l.corrects IS NULL AND l.currency = r.currency) b
	WHERE r.state <> 'running' AND ($1::text = '' OR r.owner_id = $1)
	  AND r.finished_at >= $2::date::timestamp AT TIME ZONE 'UTC' AND r.finished_at < ($3::date + 1)::timestamp AT TIME ZONE 'UTC' AND r.settled <> b.cost
	ORDER BY r.id`

// unpricedWithPrice finds units that are used, had a price and have no line.
const unpricedWithPrice = `
	SELECT json_build_object('entry', l.id::text, 'owner', l.owner_id, 'unit', q.unit) AS ids,
		format('entry %s leaves out %s %s of %s %s, which had a price', l.id, trim_scale(q.quantity), q.unit, l.provider, l.model) AS says
	FROM ledger l LEFT JOIN attempts a ON a.id = l.attempt_id LEFT JOIN certification_calls k ON k.id = l.certification_call CROSS JOIN LATERAL onejob_quantities(l.usage) q
	WHERE l.unpriced AND l.kind IN ('cost', 'charge') AND l.corrects IS NULL AND ` + ledgerInScope + ` AND q.quantity > 0
	  AND NOT EXISTS (SELECT FROM ` + snapshotLines + ` WHERE s.unit = q.unit)
	  AND EXISTS (SELECT FROM prices n WHERE ` + knownAtBooking + ` AND n.unit IN (q.unit, q.other))
	ORDER BY l.id, q.unit`

// unpricedEntries are allowed where the configuration says so, and leave something out.
const unpricedEntries = `
	SELECT json_build_object('entry', l.id::text, 'job', l.job_id, 'owner', l.owner_id, 'provider', l.provider, 'model', l.model) AS ids,
		format('entry %s, a %s of %s for %s %s: some of %s has no price', l.id, l.kind, l.owner_id, l.provider, l.model, l.usage) AS says
	FROM ledger l WHERE l.unpriced AND ` + ledgerInScope + `
	ORDER BY l.id`
