package postgres

const messageInScope = `m.created_at >= $2::date::timestamp AT TIME ZONE 'UTC' AND m.created_at < ($3::date + 1)::timestamp AT TIME ZONE 'UTC' AND ($1::text = '' OR m.owner_id = $1)`

// messageChecks compare messages with claims, and with the ledger.
var messageChecks = []auditCheck{
	{"claims_of_nobody", SeverityDifference, claimsOfNobody},
	{"claims_of_another_owner", SeverityDifference, claimsOfAnotherOwner},
	{"claims_without_message", SeverityDifference, claimsWithoutMessage},
	{"messages_without_claim", SeverityDifference, messagesWithoutClaim},
	{"claims_overdue", SeverityDifference, claimsOverdue},
	{"dead_letters", SeverityDifference, deadLetters},
	{"deliveries_overdue", SeverityDifference, deliveriesOverdue},
	{"entries_without_message", SeverityDifference, entriesWithoutMessage},
	{"messages_without_entry", SeverityDifference, messagesWithoutEntry},
	{"jobs_without_message", SeverityDifference, jobsWithoutMessage},
	{"dead_deliveries", SeverityWarning, deadDeliveries},
}

// claimsOfNobody looks at all claims: of nobody's there is no owner and perhaps no message.
const claimsOfNobody = `
	SELECT json_build_object('group', i.consumer_group, 'message', i.message_key) AS ids,
		format('the claim of %s on %s has a blank owner', i.consumer_group, i.message_key) AS says
	FROM inbox i WHERE i.owner_id IS NULL OR i.owner_id::text !~ '[^[:space:]]'
	ORDER BY i.consumer_group, i.message_key`

const claimsOfAnotherOwner = `
	SELECT json_build_object('group', i.consumer_group, 'message', i.message_key, 'owner', m.owner_id, 'claimed', i.owner_id) AS ids,
		format('the claim of %s on %s is of %s, the message of %s', i.consumer_group, i.message_key, i.owner_id, m.owner_id) AS says
	FROM outbox m JOIN inbox i ON i.message_key = m.message_key
	WHERE ` + messageInScope + ` AND i.owner_id <> m.owner_id AND i.owner_id::text ~ '[^[:space:]]'
	ORDER BY i.consumer_group, i.message_key`

// claimsWithoutMessage has no day to go by: it looks at all claims.
const claimsWithoutMessage = `
	SELECT json_build_object('group', i.consumer_group, 'message', i.message_key, 'owner', i.owner_id) AS ids,
		format('%s has a claim on %s, which is not there', i.consumer_group, i.message_key) AS says
	FROM inbox i
	WHERE ($1::text = '' OR i.owner_id = $1) AND NOT EXISTS (SELECT FROM outbox m WHERE m.message_key = i.message_key)
	ORDER BY i.consumer_group, i.message_key`

// messagesWithoutClaim: a claim is written with its message, and goes with it, so there is
// no time in which one may be missing. Of messages older than a subscription nobody can say.
const messagesWithoutClaim = `
	SELECT json_build_object('group', s.consumer_group, 'message', m.message_key, 'owner', m.owner_id) AS ids,
		format('%s hears %s and has no claim on %s', s.consumer_group, s.topic, m.message_key) AS says
	FROM subscriptions s JOIN outbox m ON m.topic = s.topic AND m.created_at >= s.since
	WHERE ` + messageInScope + `
	  AND NOT EXISTS (SELECT FROM inbox i WHERE i.consumer_group = s.consumer_group AND i.message_key = m.message_key)
	ORDER BY s.consumer_group, m.message_key`

// longestDelivery is longer than any group tries: who is pending then goes in circles.
const longestDelivery = `interval '8 days'`

// claimsOverdue finds claims that nobody has tried for too long, and those that are tried
// for ever. One that waits for its next try is neither.
const claimsOverdue = `
	SELECT json_build_object('group', i.consumer_group, 'message', i.message_key, 'owner', i.owner_id, 'tries', i.tries::text) AS ids,
		format('the claim of %s on %s is due since %s and was tried %s times', i.consumer_group, i.message_key, i.next_try_at, i.tries) AS says
	FROM inbox i LEFT JOIN outbox m ON m.message_key = i.message_key
	WHERE i.state = 'pending' AND ($1::text = '' OR i.owner_id = $1)
	  AND (i.next_try_at < now() - $4::interval OR m.created_at < now() - greatest($4::interval, ` + longestDelivery + `))
	ORDER BY i.consumer_group, i.message_key`

const deadLetters = `
	SELECT json_build_object('group', i.consumer_group, 'message', i.message_key, 'owner', i.owner_id, 'tries', i.tries::text) AS ids,
		format('%s gave %s up after %s tries: %s', i.consumer_group, i.message_key, i.tries, i.last_error) AS says
	FROM inbox i WHERE i.state = 'dead' AND ($1::text = '' OR i.owner_id = $1)
	ORDER BY i.consumer_group, i.message_key`

// deliveriesOverdue finds webhooks that nobody tries to send. One that waits for its next try,
// or for its turn at a slow receiver within the patience, is none.
const deliveriesOverdue = `
	SELECT json_build_object('delivery', d.id::text, 'message', d.message_key, 'owner', d.owner_id, 'tries', d.tries::text) AS ids,
		format('webhook delivery %s of %s is due since %s and was tried %s times', d.id, d.message_key, d.next_try_at, d.tries) AS says
	FROM webhook_deliveries d
	WHERE d.state = 'pending' AND ($1::text = '' OR d.owner_id = $1) AND d.next_try_at < now() - $4::interval
	ORDER BY d.id`

// entriesWithoutMessage lets those be whose message retention may have taken.
const entriesWithoutMessage = `
	SELECT json_build_object('entry', l.id::text, 'message', l.source, 'owner', l.owner_id) AS ids,
		CASE WHEN m.message_key IS NULL THEN format('entry %s was booked without its message %s', l.id, l.source)
			ELSE format('entry %s is of %s, its message %s of %s', l.id, l.owner_id, l.source, m.owner_id) END AS says
	FROM ledger l LEFT JOIN outbox m ON m.message_key = l.source
	WHERE ` + ledgerInScope + ` AND (m.message_key IS NULL AND l.created_at > now() - $5::interval OR m.owner_id <> l.owner_id)
	ORDER BY l.id`

// messagesWithoutEntry are messages of a topic that entries have.
const messagesWithoutEntry = `
	SELECT json_build_object('message', m.message_key, 'owner', m.owner_id) AS ids,
		format('message %s of %s tells of an entry that is not there', m.message_key, m.owner_id) AS says
	FROM outbox m
	WHERE m.topic IN ('attempt.cost', 'job.charge', 'ledger.topup', 'ledger.credit', 'ledger.reversal', 'ledger.referral') AND ` + messageInScope + `
	  AND NOT EXISTS (SELECT FROM ledger l WHERE l.source = m.message_key)
	ORDER BY m.message_key`

// jobsWithoutMessage lets those be that closed before there were messages, and whose message
// retention may have taken.
const jobsWithoutMessage = `
	SELECT json_build_object('job', j.id, 'owner', j.owner_id) AS ids,
		format('job %s of %s is %s and no message tells of it', j.id, j.owner_id, j.status) AS says
	FROM jobs j
	WHERE j.status IN ('succeeded', 'failed', 'cancelled') AND ` + jobInScope + `
	  AND j.finished_at > greatest(now() - $5::interval, (SELECT min(created_at) FROM outbox))
	  AND NOT EXISTS (SELECT FROM outbox m WHERE m.owner_id = j.owner_id
	                  AND m.message_key = concat_ws(':', 'job.' || j.status, j.id, CASE j.status WHEN 'failed' THEN j.version END))
	ORDER BY j.id`

// deadDeliveries are a receiver's doing more often than ours.
const deadDeliveries = `
	SELECT json_build_object('delivery', d.id::text, 'message', d.message_key, 'owner', d.owner_id) AS ids,
		format('webhook delivery %s of %s was given up after %s tries: %s', d.id, d.message_key, d.tries, d.last_error) AS says
	FROM webhook_deliveries d WHERE d.state = 'dead' AND ($1::text = '' OR d.owner_id = $1)
	ORDER BY d.id`
