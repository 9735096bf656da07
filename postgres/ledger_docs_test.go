package postgres_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

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
