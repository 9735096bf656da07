package pgproxy

import (
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5/pgproto3"
)

// Transaction states as ReadyForQuery tells them.
const (
	statusIdle  = 'I'
	statusInTx  = 'T'
	tagRollback = "ROLLBACK"
)

// conversation follows what a connection says: which statement an Execute runs, in which
// transaction, and which answers belong to it.
type conversation struct {
	mu       sync.Mutex
	prepared map[string]string // SQL by the name of the prepared statement
	portals  map[string]string // SQL by the name of the portal
	units    []*unit           // not answered in full, in the order they were sent
	sending  *unit             // the last of units, until its Sync or Query was sent
	status   byte              // of the transaction, as the server said last
	earlier  []string          // statements of the transaction under way that were answered
}

// unit is what one ReadyForQuery answers.
type unit struct {
	statements []string
	ends       bool // a transaction: by COMMIT, or as there is no block around it
	quiet      bool // its answer is kept until it is known whether the client may have it
	completed  bool
	failed     bool
	rolledBack bool
}

func newConversation() *conversation {
	return &conversation{prepared: map[string]string{}, portals: map[string]string{}, status: statusIdle}
}

// remember follows the names of statements and portals.
func (c *conversation) remember(msg pgproto3.FrontendMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch m := msg.(type) {
	case *pgproto3.Parse:
		c.prepared[m.Name] = m.Query
	case *pgproto3.Bind:
		c.portals[m.DestinationPortal] = c.prepared[m.PreparedStatement]
	case *pgproto3.Close:
		c.forget(m)
	}
}

func (c *conversation) forget(m *pgproto3.Close) {
	if m.ObjectType == 'S' {
		delete(c.prepared, m.Name)
		return
	}
	delete(c.portals, m.Name)
}

// portal returns the SQL that the portal runs.
func (c *conversation) portal(name string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.portals[name]
}

// say adds a statement to what is being sent, and returns the unit it belongs to.
func (c *conversation) say(sql string) *unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.current()
	u.statements = append(u.statements, sql)
	u.ends = isCommit(sql) || u.ends || c.status == statusIdle && !isBegin(sql)
	return u
}

// current returns the unit being sent. The lock is held.
func (c *conversation) current() *unit {
	if c.sending == nil {
		c.sending = &unit{}
		c.units = append(c.units, c.sending)
	}
	return c.sending
}

// sync ends what is being sent, and returns it.
func (c *conversation) sync() *unit {
	c.mu.Lock()
	defer c.mu.Unlock()
	u := c.current()
	c.sending = nil
	return u
}

// transaction returns the statements of the transaction under way.
func (c *conversation) transaction() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	statements := slices.Clone(c.earlier)
	for _, u := range c.units {
		statements = append(statements, u.statements...)
	}
	return statements
}

// keepQuiet keeps the unit's answer until its end.
func (c *conversation) keepQuiet(u *unit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	u.quiet = true
}

// isQuiet says whether the answer that is coming in is kept.
func (c *conversation) isQuiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.units) > 0 && c.units[0].quiet
}

// hear takes in a part of the answer to the oldest unit.
func (c *conversation) hear(msg pgproto3.BackendMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.units) == 0 {
		return
	}
	switch m := msg.(type) {
	case *pgproto3.CommandComplete:
		c.units[0].completed = true
		c.units[0].rolledBack = string(m.CommandTag) == tagRollback
	case *pgproto3.ErrorResponse:
		c.units[0].failed = true
	}
}

// ready ends the answer to the oldest unit. If that committed a transaction, it returns
// the transaction's statements.
func (c *conversation) ready(status byte) (committed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.status = status
	if len(c.units) == 0 {
		return nil
	}
	u := c.units[0]
	c.units = c.units[1:]
	statements := slices.Concat(c.earlier, u.statements)
	if c.earlier = nil; status != statusIdle {
		c.earlier = statements
		return nil
	}
	if !u.completed || u.failed || u.rolledBack {
		return nil
	}
	return statements
}

func isCommit(sql string) bool { return firstWordIs(sql, "commit", "end") }

func isBegin(sql string) bool { return firstWordIs(sql, "begin", "start") }

// isControl says that the statement begins or ends a transaction or a part of one.
func isControl(sql string) bool {
	return isCommit(sql) || isBegin(sql) || firstWordIs(sql, "rollback", "abort", "savepoint", "release")
}

func firstWordIs(sql string, words ...string) bool {
	fields := strings.FieldsFunc(sql, func(r rune) bool { return strings.ContainsRune(" \t\r\n;", r) })
	return len(fields) > 0 && slices.Contains(words, strings.ToLower(fields[0]))
}
