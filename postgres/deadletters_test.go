package postgres_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/messages"
)

func TestRedriveMakesTheMessageNew(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	broken := true
	c := counting(func([]messages.Message) error {
		if broken {
			return errors.New("broken")
		}
		return nil
	})
	c.MaxTries = 2
	r.subscribed(t, c)
	keys := r.tell(t, 3)
	r.applyAll(t, c)
	mustBe(t, r.store.RedriveIfDead(t.Context(), c.Group, "no such key"), onejob.ErrNotFound)
	mustBe(t, r.store.RedriveIfDead(t.Context(), "no such group", keys[0]), onejob.ErrNotFound)
	if err := r.store.RedriveIfDead(t.Context(), c.Group, keys[0]); err != nil {
		t.Fatal(err)
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE message_key = $1 AND state = 'pending' AND tries = 0 AND next_try_at <= now() AND last_error IS NULL`, keys[0]); n != 1 {
		t.Error("state, tries and error are not reset together")
	}
	mustBe(t, r.store.RedriveIfDead(t.Context(), c.Group, keys[0]), onejob.ErrNotFound)
	if r.applyAll(t, c); r.claims(t, c.Group, "dead") != 3 {
		t.Error("a message that was redriven does not die again")
	}
	broken = false
	if n, err := r.store.RedriveAll(t.Context(), c.Group); n != 3 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	r.applyAll(t, c)
	r.mustHaveEffects(t, keys...)
	mustBe(t, r.store.RedriveIfDead(t.Context(), c.Group, keys[0]), onejob.ErrNotFound)
}

func TestDiscardedDeadLetterIsNeverApplied(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := counting(func([]messages.Message) error { return errors.New(strings.Repeat("ü", 5000)) })
	c.MaxTries = 1
	r.subscribed(t, c)
	keys := r.tell(t, 2)
	mustBe(t, r.store.DiscardIfDead(t.Context(), c.Group, keys[0], "ops", "why"), onejob.ErrNotFound)
	r.applyAll(t, c)
	mustBe(t, r.store.DiscardIfDead(t.Context(), c.Group, keys[0], "ops", strings.Repeat("é", 2049)), onejob.ErrInvalidRequest)
	if err := r.store.DiscardIfDead(t.Context(), c.Group, keys[0], "ops", strings.Repeat("é", 2048)); err != nil {
		t.Fatal(err)
	}
	if err := r.store.DiscardIfDead(t.Context(), c.Group, keys[1], "ops", "gone"); err != nil {
		t.Fatal(err)
	}
	mustBe(t, r.store.DiscardIfDead(t.Context(), c.Group, keys[1], "ops", "again"), onejob.ErrNotFound)
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE done_by = 'discarded' AND last_error LIKE 'discarded by ops: %'`); n != 2 {
		t.Errorf("%d are discarded, with who said so", n)
	}
	if n := r.count(t, `SELECT count(*) FROM inbox WHERE last_error LIKE 'discarded by ops: gone; it had failed with: üü%'`); n != 1 {
		t.Error("what had failed is not kept")
	}
	r.mustRefuse(t, "it goes with its message", `DELETE FROM inbox WHERE message_key = '`+keys[1]+`'`)
	if applied, err := r.store.Deliver(t.Context(), c, keys...); err != nil || applied.Duplicates != 2 {
		t.Errorf("%+v, %v", applied, err)
	}
	r.mustHaveEffects(t)
}

func TestBacklogsCountWhatIsPendingAndDead(t *testing.T) {
	t.Parallel()
	r := newMessagesRig(t)
	c := counting(func([]messages.Message) error { return errors.New("no") })
	c.MaxTries = 1
	r.subscribed(t, c)
	r.tell(t, 2)
	r.applyAll(t, c)
	r.exec(t, `INSERT INTO outbox (message_key, owner_id, topic, payload, created_at) VALUES ($1 || ':old', 'o', $1, '{}', now() - interval '1 hour')`, testTopic)
	r.tell(t, 3)
	backlogs, err := r.store.Backlogs(t.Context())
	if err != nil || len(backlogs) != 1 {
		t.Fatalf("%+v, %v", backlogs, err)
	}
	if b := backlogs[0]; b.Group != c.Group || b.Pending != 4 || b.Dead != 2 || b.Oldest.Round(1e10) < 3600e9 || b.Oldest > 3700e9 {
		t.Errorf("%+v", b)
	}
}
