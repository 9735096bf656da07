package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Filter selects jobs. A zero field selects all.
type Filter struct {
	Owner    string
	Status   onejob.Status
	Kind     string
	Provider string
	From, To time.Time         // created in this time, To excluded
	Labels   map[string]string // that the job has with these values
	Before   string            // id of the last job of the page before
	Limit    int               // rows at most; 0: 100
}

const defaultPage = 100

// Page is some of the jobs that a filter selects.
type Page struct {
	Jobs []onejob.Job // without payloads
	Next string       // the next page's Filter.Before; empty: there is none
}

// mostLooked is how many jobs one page looks through for those that it selects: a rare one
// must not cost a walk through all that an owner ever had.
const mostLooked = 5000

// Jobs returns the selected jobs without payloads, the newest first; those of the status
// unknown the oldest first, since they wait for somebody.
func (s *Store) Jobs(ctx context.Context, f Filter) (jobs []onejob.Job, err error) {
	f.Limit = max(f.Limit, 0)
	if f.Limit == 0 {
		f.Limit = defaultPage
	}
	for {
		page, err := s.JobsPage(ctx, f)
		jobs, f.Before, f.Limit = append(jobs, page.Jobs...), page.Next, f.Limit-len(page.Jobs)
		if err != nil || page.Next == "" || f.Limit == 0 {
			return jobs, err
		}
	}
}

// JobsPage returns one page of what [Store.Jobs] would return. It walks along an index and
// looks at 5000 jobs at most, so a page may have fewer jobs than there is room for, none even,
// and a next page all the same.
func (s *Store) JobsPage(ctx context.Context, f Filter) (page Page, err error) {
	w := newWalk(f)
	last, err := s.lastLookedAt(ctx, w)
	if err != nil {
		return page, translate("list jobs", err)
	}
	limit := f.Limit
	if limit <= 0 {
		limit = defaultPage
	}
	sql, args := w.selected(last, limit+1)
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return page, translate("list jobs", err)
	}
	if page.Jobs, err = pgx.CollectRows(rows, scanJob); err != nil {
		return page, translate("list jobs", err)
	}
	page.Next = last
	if len(page.Jobs) > limit {
		page.Jobs = page.Jobs[:limit]
		page.Next = page.Jobs[limit-1].ID
	}
	return page, nil
}

// lastLookedAt returns the id at which the page ends, whatever was found by then; empty: there
// are not so many jobs.
func (s *Store) lastLookedAt(ctx context.Context, w walk) (id string, err error) {
	if len(w.wanted) == 0 {
		return "", nil // every job on the way is wanted
	}
	where, args := w.along.where()
	err = s.pool.QueryRow(ctx, `SELECT id::text FROM jobs`+where+w.order()+fmt.Sprintf(" OFFSET %d LIMIT 1", mostLooked-1), args...).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return id, err
}

// walk is a way through the jobs along an index, and what is wanted of those on the way.
type walk struct {
	along, wanted conditions
	oldestFirst   bool
}

// newWalk chooses the index: of the states that few jobs are in, else the owner's, else that of
// the states that are kept an index of, else that of all jobs.
func newWalk(f Filter) walk {
	w := walk{oldestFirst: f.Status == onejob.StatusUnknown}
	open := f.Status == onejob.StatusAccepted || f.Status == onejob.StatusRunning || f.Status == onejob.StatusUnknown
	byStatus := open || f.Owner == "" && f.Status != "" && f.Status != onejob.StatusSucceeded
	status, owner := &w.wanted, &w.along
	if byStatus {
		status, owner = &w.along, &w.wanted
		w.along.add("status <> 'succeeded'") // the index's own words
	}
	status.equal("status", string(f.Status))
	owner.equal("owner_id", f.Owner)
	w.along.bound(f, w.behind())
	w.wanted.equal("kind", f.Kind)
	w.wanted.equal("provider", f.Provider)
	w.wanted.created(f)
	for name, value := range f.Labels {
		w.wanted.add("labels ->> $%d = $%d", name, value)
	}
	return w
}

func (w walk) behind() string {
	if w.oldestFirst {
		return ">"
	}
	return "<"
}

// order names the table's column: id alone would be the text of the result, which no index has
// an order of.
func (w walk) order() string {
	if w.oldestFirst {
		return " ORDER BY jobs.id"
	}
	return " ORDER BY jobs.id DESC"
}

// selected is the statement of a page that ends with the job last, if that is not empty.
func (w walk) selected(last string, limit int) (sql string, args []any) {
	all := slices.Concat(w.along, w.wanted)
	if last != "" {
		upTo := ">="
		if w.oldestFirst {
			upTo = "<="
		}
		all.add("id "+upTo+" $%d::uuid", last)
	}
	where, args := all.where()
	return `SELECT ` + jobColumns + ` FROM jobs` + where + w.order() + fmt.Sprintf(" LIMIT %d", limit), args
}

// conditions are the parts of a WHERE.
type conditions []condition

// condition has a %d in its text for the number of each of its arguments.
type condition struct {
	format string
	args   []any
}

func (c *conditions) add(format string, args ...any) { *c = append(*c, condition{format, args}) }

// equal adds that the column has the value, unless that is empty.
func (c *conditions) equal(column, value string) {
	if value != "" {
		c.add(column+" = $%d", value)
	}
}

// where numbers the arguments from $1.
func (c conditions) where() (sql string, args []any) {
	word := " WHERE "
	for _, part := range c {
		numbers := make([]any, len(part.args))
		for i := range numbers {
			numbers[i] = len(args) + i + 1
		}
		sql += word + fmt.Sprintf(part.format, numbers...)
		args = append(args, part.args...)
		word = " AND "
	}
	return sql, args
}

// clockSkew is how far the clocks of those who make ids may be off the database's.
const clockSkew = 24 * time.Hour

// bound ends the walk where the page before ended, and outside the days of creation: ids begin
// with the time of the machine that made them.
func (c *conditions) bound(f Filter, behind string) {
	if f.Before != "" {
		c.add("id "+behind+" $%d::uuid", f.Before)
	}
	if !f.From.IsZero() {
		c.add("id >= $%d::uuid", firstIDOf(f.From.Add(-clockSkew)))
	}
	if !f.To.IsZero() {
		c.add("id < $%d::uuid", firstIDOf(f.To.Add(clockSkew)))
	}
}

// created adds the time of creation by the database's clock, which decides.
func (c *conditions) created(f Filter) {
	if !f.From.IsZero() {
		c.add("created_at >= $%d", f.From)
	}
	if !f.To.IsZero() {
		c.add("created_at < $%d", f.To)
	}
}

// firstIDOf is the lowest UUIDv7 of a time.
func firstIDOf(t time.Time) string {
	var id uuid.UUID
	ms := max(t.UnixMilli(), 0)
	for i := range 6 {
		id[i] = byte(ms >> (8 * (5 - i)))
	}
	return id.String()
}
