package postgres

import "strings"

// usageChecks compare each summary with the ledger.
func usageChecks() (checks []auditCheck) {
	for _, s := range summaries {
		checks = append(checks, auditCheck{s.table, SeverityDifference, s.auditQuery()})
	}
	return checks
}

// auditQuery returns the comparison for the summary. What its key has beside owner, day and
// currency is taken from the ledger, or from the job or the certification.
func (s summary) auditQuery() string {
	columns, ids, join := "", "", ""
	for name := range strings.SplitSeq(strings.TrimPrefix(s.by, ", "), ", ") {
		if from := bookedColumns[name]; from != "" {
			columns += ", " + from + " AS " + name
			ids += ", '" + name + "', " + name
		}
		if name == "kind" {
			join = " LEFT JOIN jobs j ON j.id = l.job_id LEFT JOIN certification_calls k ON k.id = l.certification_call LEFT JOIN certification_runs cr ON cr.id = k.run_id"
		}
	}
	return strings.NewReplacer("{summary}", s.table, "{by}", s.by, "{columns}", columns, "{ids}", ids, "{join}", join).Replace(summaryDiffers)
}

var bookedColumns = map[string]string{
	"provider": `coalesce(l.provider, '')`,
	"model":    `coalesce(l.model, '')`,
	"kind":     `coalesce(j.kind, cr.contract, '')`,
}

// summaryDiffers adds up the ledger's own rows, measure by measure, and finds where a summary
// has another sum. Entries whose message is under way to the summary's consumer are left out,
// as they are there, unless that lasts longer than the patience. A summary above the ledger
// is what messages leave that were applied more than once.
const summaryDiffers = `
	WITH under_way AS MATERIALIZED (
		SELECT i.message_key FROM inbox i JOIN outbox m ON m.message_key = i.message_key
		WHERE i.consumer_group = '{summary}' AND i.state = 'pending' AND m.created_at > now() - $4::interval
	), entries AS (
		SELECT l.owner_id, l.day, l.currency{columns}, l.kind AS entry, l.amount, l.usage, l.kind = 'cost' AND l.corrects IS NULL AS call
		FROM ledger l{join}
		WHERE ` + ledgerInScope + ` AND NOT EXISTS (SELECT FROM under_way u WHERE u.message_key = l.source)
		  AND (l.kind IN ('cost', 'charge') OR l.kind = 'credit' AND EXISTS (SELECT FROM ledger c WHERE c.id = l.corrects AND c.kind = 'charge'))
	), booked AS (
		SELECT owner_id, day, currency{by}, count(*) FILTER (WHERE call) AS calls, count(*) FILTER (WHERE entry = 'charge') AS jobs,
			sum((usage ->> 'input_tokens')::bigint) FILTER (WHERE call) AS input_tokens,
			sum((usage ->> 'cached_input_tokens')::bigint) FILTER (WHERE call) AS cached_input_tokens,
			sum((usage ->> 'output_tokens')::bigint) FILTER (WHERE call) AS output_tokens,
			sum((usage ->> 'reasoning_tokens')::bigint) FILTER (WHERE call) AS reasoning_tokens,
			sum(amount) FILTER (WHERE entry = 'cost') AS cost, sum(amount) FILTER (WHERE entry = 'charge') AS charged,
			sum(amount) FILTER (WHERE entry = 'credit') AS credited
		FROM entries GROUP BY owner_id, day, currency{by}
	), kept AS (
		SELECT * FROM {summary} WHERE day BETWEEN $2::date AND $3::date AND ($1::text = '' OR owner_id = $1)
	)
	SELECT json_build_object('owner', owner_id, 'day', day, 'currency', currency{ids}, 'measure', m.measure,
			'summary', trim_scale(m.kept)::text, 'ledger', trim_scale(m.booked)::text, 'ratio', r.ratio) AS ids,
		format('%s of %s on %s is %s in {summary} and %s in the ledger: %s', m.measure, owner_id, day, trim_scale(m.kept), trim_scale(m.booked),
			CASE WHEN m.kept > m.booked THEN 'messages were applied more than once' ELSE 'entries are missing' END) AS says
	FROM booked b FULL JOIN kept k USING (owner_id, day, currency{by}),
		LATERAL (VALUES ('calls', b.calls::numeric, k.calls::numeric), ('jobs', b.jobs, k.jobs),
			('input_tokens', b.input_tokens, k.input_tokens), ('cached_input_tokens', b.cached_input_tokens, k.cached_input_tokens),
			('output_tokens', b.output_tokens, k.output_tokens), ('reasoning_tokens', b.reasoning_tokens, k.reasoning_tokens),
			('cost', b.cost, k.cost), ('charged', b.charged, k.charged), ('credited', b.credited, k.credited)) v (measure, booked, kept),
		LATERAL (SELECT v.measure, coalesce(v.booked, 0) AS booked, coalesce(v.kept, 0) AS kept) m,
		LATERAL (SELECT CASE WHEN m.booked = 0 THEN 'inf' ELSE trim_scale(round(m.kept / m.booked, 12))::text END AS ratio,
			CASE WHEN m.booked * m.kept <= 0 THEN 'infinity' ELSE abs(ln(m.kept / m.booked)) END AS distance) r
	WHERE m.booked <> m.kept
	ORDER BY r.distance DESC, owner_id, day, m.measure`
