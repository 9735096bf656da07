package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// consumer returns onejob's own consumer of that group.
func consumer(t testing.TB, group string) messages.Consumer {
	t.Helper()
	for _, c := range postgres.Consumers() {
		if c.Group == group {
			return c
		}
	}
	t.Fatalf("there is no consumer %s", group)
	return messages.Consumer{}
}

// deliverAll delivers every message to the consumer.
func (r rig) deliverAll(t testing.TB, c messages.Consumer) messages.Applied {
	t.Helper()
	rows, err := r.hand.Query(t.Context(), `SELECT message_key FROM inbox WHERE consumer_group = $1 ORDER BY random()`, c.Group)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	applied, err := r.store.Deliver(t.Context(), c, keys...)
	if err != nil {
		t.Error(err)
	}
	return applied
}

func TestSummariesEqualTheLedgerHoweverOftenMessagesCome(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 60)
	for i, day := range []string{"2026-11-28T23:59:59Z", "2026-11-29T00:00:00Z", "2026-11-30T12:00:00Z"} {
		if err := r.bookWork(t.Context(), 20*i+1, 20*i+20, day); err != nil {
			t.Fatal(err)
		}
	}
	var deliveries []func()
	for _, group := range usageGroups {
		c := r.subscribed(t, consumer(t, group))
		for range 3 {
			deliveries = append(deliveries, func() { r.deliverAll(t, c) })
		}
	}
	together(deliveries...)
	r.mustEqualLedger(t)
	for _, group := range usageGroups {
		if applied := r.deliverAll(t, consumer(t, group)); applied.Done != 0 || applied.Duplicates != 120 {
			t.Errorf("%s: %+v", group, applied)
		}
	}
	r.mustEqualLedger(t)
}

func TestSummariesAddUpOverManyBatches(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.workedJobs(t, 30)
	if err := r.bookWork(t.Context(), 1, 30, "2026-11-30T12:00:00Z"); err != nil {
		t.Fatal(err)
	}
	for _, group := range usageGroups {
		c := r.subscribed(t, consumer(t, group))
		c.Batch = 7
		if all := r.applyAll(t, c); all.Done != 60 || all.Failed != 0 {
			t.Errorf("%s: %+v", group, all)
		}
	}
	r.mustEqualLedger(t)
}

// charge writes the message of a charge.
func (r rig) charge(t testing.TB, n int, owner string) {
	t.Helper()
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload) VALUES ('job.charge:' || $1::int, $2, 'job.charge', '{"amount":"0.5"}')`, n, owner)
}

// Two owners that bring each other and are charged nothing get nothing.
func TestChargeOfNothingCreditsNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.subscribed(t, consumer(t, "referral_credit"))
	r.exec(t, `INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ('new', 'old', 2.5, 'USD', 'hand')`)
	r.mustComplete(t, r.answered(t, of("new")))
	if r.applyAll(t, c); r.count(t, `SELECT count(*) FROM ledger WHERE kind = 'credit'`) != 0 {
		t.Error("a charge without a price credits the referrer")
	}
	r.priced(t)
	r.mustComplete(t, r.answered(t, of("new")))
	if r.applyAll(t, c); r.count(t, `SELECT count(*) FROM ledger WHERE kind = 'credit'`) != 1 {
		t.Error("the first charge above nothing does not")
	}
}

func TestReferrerIsCreditedOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.subscribed(t, consumer(t, "referral_credit"))
	for referee, referrer := range map[string]string{"new": "old", "newer": "new"} {
		r.exec(t, `INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ($1, $2, 2.5, 'USD', 'hand')`, referee, referrer)
	}
	r.charge(t, 1, "new")
	r.charge(t, 2, "new")
	r.charge(t, 3, "new")
	r.charge(t, 4, "newer")
	r.charge(t, 5, "nobody's")
	deliver := func(key string) func() {
		return func() {
			if _, err := r.store.Deliver(context.WithoutCancel(t.Context()), c, key); err != nil {
				t.Error(err)
			}
		}
	}
	together(deliver("job.charge:1"), deliver("job.charge:2"), deliver("job.charge:4"), deliver("job.charge:5"))
	r.applyAll(t, c)
	for _, referee := range []string{"new", "newer"} {
		if n := r.count(t, `
			SELECT count(*) FROM ledger l JOIN outbox m ON m.message_key = l.source AND m.owner_id = l.owner_id AND m.topic = 'ledger.referral'
			JOIN referrals f ON f.referrer = l.owner_id AND f.amount = l.amount AND f.currency = l.currency
			WHERE l.source = 'ledger.referral:' || $1 AND f.referee = $1 AND l.kind = 'credit'`, referee); n != 1 {
			t.Errorf("%d credits for who brought %s", n, referee)
		}
	}
	if n := r.count(t, `SELECT count(*) FROM ledger`); n != 2 {
		t.Errorf("%d entries", n)
	}
	if n := r.claims(t, c.Group, "done"); n != 5 {
		t.Errorf("%d of 5 messages are done", n)
	}
}
