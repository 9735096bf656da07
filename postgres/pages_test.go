package postgres_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

func TestPagesWalkThroughAllThatAFilterSelects(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const jobs, owner = 7, "acme"
	for i := range jobs {
		r.accepted(t, func(r *onejob.Request) {
			r.Owner, r.Labels = owner, map[string]string{"parity": fmt.Sprint(i % 2), "n": fmt.Sprint(i)}
		})
	}
	r.accepted(t)
	for name, c := range map[string]struct {
		filter postgres.Filter
		want   int
	}{
		"all":              {postgres.Filter{}, jobs},
		"of a label":       {postgres.Filter{Labels: map[string]string{"parity": "1"}}, 3},
		"of two labels":    {postgres.Filter{Labels: map[string]string{"parity": "1", "n": "3"}}, 1},
		"of another value": {postgres.Filter{Labels: map[string]string{"parity": "2"}}, 0},
		"of a state":       {postgres.Filter{Status: onejob.StatusAccepted}, jobs},
		"of no such state": {postgres.Filter{Status: onejob.StatusSucceeded}, 0},
		"of another owner": {postgres.Filter{Owner: "nobody"}, 0},
		"from then on":     {postgres.Filter{From: time.Now().Add(-time.Hour), To: time.Now().Add(time.Hour)}, jobs},
		"before that":      {postgres.Filter{To: time.Now().Add(-time.Hour)}, 0},
		"after it":         {postgres.Filter{From: time.Now().Add(time.Hour)}, 0},
	} {
		if c.filter.Owner == "" {
			c.filter.Owner = owner
		}
		c.filter.Limit = 2
		var ids []string
		for pages := 0; ; pages++ {
			page, err := r.store.JobsPage(t.Context(), c.filter)
			if err != nil || len(page.Jobs) > 2 || pages > jobs {
				t.Fatalf("%s: page %d has %d jobs, %v", name, pages, len(page.Jobs), err)
			}
			for _, j := range page.Jobs {
				ids = append(ids, j.ID)
			}
			if c.filter.Before = page.Next; page.Next == "" {
				break
			}
		}
		if len(ids) != c.want || !slices.IsSortedFunc(ids, func(a, b string) int { return strings.Compare(b, a) }) {
			t.Errorf("%s: %d jobs in the order %v, want %d", name, len(ids), ids, c.want)
		}
	}
}

// TestPageLooksAtABoundedNumberOfJobs: a rare one behind many costs several pages, none of
// which walks through everything.
func TestPageLooksAtABoundedNumberOfJobs(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	rare := r.accepted(t, func(r *onejob.Request) { r.Labels = map[string]string{"rare": "yes"} })
	loader, err := pgxpool.New(t.Context(), withParameter(t, r.url, "application_name", "onejob"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sql := range []string{`
		INSERT INTO jobs (id, owner_id, idempotency_key, workflow_id, kind, provider, input, fingerprint, fingerprint_version, timeout_ms, listen_for_ms, max_attempts)
		SELECT ('f' || substr(j.id::text, 2, 23) || lpad(n::text, 12, '0'))::uuid, j.owner_id, 'many-' || n, 'many-' || n, j.kind, j.provider, '1', j.fingerprint, 1, 1, 1, 1
		FROM jobs j, generate_series(1, 12000) n`, `ANALYZE jobs`} {
		if _, err := loader.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	loader.Close()
	r.countReads(t, r.store) // of the set-up, before they are forgotten
	r.exec(t, `SELECT pg_stat_reset()`)
	watched := r.through(t, withParameter(t, r.url, "enable_seqscan", "off"))
	f := postgres.Filter{Owner: rare.Owner, Labels: rare.Labels, Limit: 10}
	page, err := watched.store.JobsPage(t.Context(), f)
	if err != nil || len(page.Jobs) != 0 || page.Next == "" {
		t.Fatalf("the first page has %d jobs and the next %q, %v", len(page.Jobs), page.Next, err)
	}
	r.countReads(t, watched.store)
	const walks = 2 * 5000
	if n := r.count(t, `SELECT sum(idx_tup_read)::int FROM pg_stat_user_indexes WHERE relname = 'jobs'`); n == 0 || n > walks+100 {
		t.Errorf("it read %d entries of indexes, want %d", n, walks)
	}
	if n := r.count(t, `SELECT seq_scan::int FROM pg_stat_user_tables WHERE relname = 'jobs'`); n > 0 {
		t.Errorf("it read the whole table %d times", n)
	}
	jobs, err := r.through(t, r.url).store.Jobs(t.Context(), f)
	if err != nil || len(jobs) != 1 || jobs[0].ID != rare.ID {
		t.Errorf("all pages together have %d jobs, %v", len(jobs), err)
	}
}
