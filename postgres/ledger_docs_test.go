package postgres_test

import (
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
)

// block returns the first block of the language in docs/money.md.
func block(t *testing.T, language string) string {
	t.Helper()
	text, err := os.ReadFile("../docs/money.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n```"+language+"\n")
	code, _, closed := strings.Cut(after, "\n```\n")
	if !closed {
		t.Fatalf("docs/money.md has no block of %s", language)
	}
	return code
}

func TestDocumentedQueryFindsWhatTheCommandFinds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.worked(t)
	want, err := r.store.SumLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rows, err := r.hand.Query(t.Context(), block(t, "sql"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowToStructByPos[postgres.LedgerSum])
	if err != nil || len(got) == 0 || !reflect.DeepEqual(got, want) {
		t.Errorf("the documented query finds %+v (%v), the command %+v", got, err, want)
	}
}

var quoted = regexp.MustCompile("`([a-z_.]+)`")

// documentedMembers returns the members of each topic's messages by docs/messages.md.
func documentedMembers(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/messages.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "\n| topics | members |\n|---|---|\n")
	table, _, _ := strings.Cut(after, "\n\n")
	members := map[string][]string{}
	for row := range strings.Lines(table) {
		cells := strings.Split(row, "|")
		for _, topic := range quoted.FindAllStringSubmatch(cells[1], -1) {
			for _, member := range quoted.FindAllStringSubmatch(cells[2], -1) {
				members[topic[1]] = append(members[topic[1]], member[1])
			}
		}
	}
	return members
}

func TestMessagesHaveTheDocumentedMembers(t *testing.T) {
	t.Parallel()
	r := newRig(t).priced(t)
	r.tellEverything(t)
	rows, err := r.hand.Query(t.Context(), `SELECT topic, array(SELECT json_object_keys(payload)) FROM outbox`)
	if err != nil {
		t.Fatal(err)
	}
	type told struct {
		Topic   string
		Members []string
	}
	all, err := pgx.CollectRows(rows, pgx.RowToStructByPos[told])
	if err != nil {
		t.Fatal(err)
	}
	documented, seen := documentedMembers(t), map[string]bool{}
	for _, m := range all {
		seen[m.Topic] = true
		if !slices.Equal(m.Members, documented[m.Topic]) {
			t.Errorf("a message of %s has %v, documented are %v", m.Topic, m.Members, documented[m.Topic])
		}
	}
	for topic := range maps.Keys(documented) {
		if !seen[topic] {
			t.Errorf("no message of %s was told", topic)
		}
	}
}

// tellEverything makes a message of each topic at least.
func (r rig) tellEverything(t *testing.T) {
	t.Helper()
	a := r.started(t)
	referral := r.subscribed(t, consumer(t, "referral_credit"))
	r.exec(t, `INSERT INTO referrals (referee, referrer, amount, currency, recorded_by) VALUES ($1, 'old', 2.50, 'USD', 'hand')`, a.job.Owner)
	r.record(t, a, using(a.success(`1`), 3))
	r.mustComplete(t, a)
	r.failed(t)
	r.cancelled(t)
	if applied := r.applyAll(t, referral); applied != (messages.Applied{Done: 1}) {
		t.Fatalf("the referral's consumer: %+v", applied)
	}
	credit := topup(t, "o", "k", "1")
	credit.Kind = "credit"
	r.mustBook(t, credit)
	if _, err := r.store.ReverseEntryOnce(t.Context(), r.mustBook(t, topup(t, "o", "k", "1")).ID, "ana", ""); err != nil {
		t.Fatal(err)
	}
}
