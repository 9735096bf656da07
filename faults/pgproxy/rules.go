package pgproxy

import (
	"slices"
	"strings"
	"sync"
)

// moment is where in a transaction a rule acts.
type moment int

const (
	beforeStatement moment = iota // the matching statement has not been forwarded
	beforeCommit                  // what commits the transaction has not been forwarded
	afterCommit                   // the server has committed; the client does not know
)

// rule acts on the next transactions that a matching statement ran in.
type rule struct {
	at    moment
	match string
	left  int // times that it still acts
	act   func(*session) error
}

func (r *rule) applies(at moment, statements []string) bool {
	return r.at == at && r.left > 0 && slices.ContainsFunc(statements, func(sql string) bool {
		return strings.Contains(sql, r.match)
	})
}

func (p *Proxy) add(r *rule) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rules = append(p.rules, r)
}

// awaits says whether a rule would act now, without using it up.
func (p *Proxy) awaits(at moment, statements []string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.ContainsFunc(p.rules, func(r *rule) bool { return r.applies(at, statements) })
}

// act lets the first rule that applies act, once.
func (p *Proxy) act(s *session, at moment, statements []string) error {
	if r := p.take(at, statements); r != nil {
		return r.act(s)
	}
	return nil
}

func (p *Proxy) take(at moment, statements []string) *rule {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range p.rules {
		if r.applies(at, statements) {
			r.left--
			return r
		}
	}
	return nil
}

// Hold stops one connection at a moment until the test lets it go on. A connection that
// is never let go is cut with the proxy.
type Hold struct {
	reached  chan struct{}
	decision chan struct{}
	decide   sync.Once
	cut      bool
}

// Reached is closed once a connection stands at the moment.
func (h *Hold) Reached() <-chan struct{} { return h.reached }

// Release lets the connection go on; one that has not come yet will not be stopped.
func (h *Hold) Release() { h.decide.Do(func() { close(h.decision) }) }

// Cut closes both sides of the connection, or will do so when it comes. What was held
// is not forwarded.
func (h *Hold) Cut() {
	h.decide.Do(func() {
		h.cut = true
		close(h.decision)
	})
}

func (h *Hold) stop(s *session) error {
	close(h.reached)
	select {
	case <-h.decision:
		if h.cut {
			return errCut
		}
		return nil
	case <-s.done:
		return errCut
	}
}

func (p *Proxy) hold(at moment, match string) *Hold {
	h := &Hold{reached: make(chan struct{}), decision: make(chan struct{})}
	p.add(&rule{at: at, match: match, left: 1, act: h.stop})
	return h
}

// HoldBefore holds the next matching statement: the server does not see it before it is
// released. One hold takes one statement; several take as many.
func (p *Proxy) HoldBefore(match string) *Hold { return p.hold(beforeStatement, match) }

// HoldBeforeCommit holds the next transaction that runs a matching statement: its
// statements have run, and it does not commit before it is released.
func (p *Proxy) HoldBeforeCommit(match string) *Hold { return p.hold(beforeCommit, match) }

// HoldAfterCommit holds the acknowledgement of the next transaction that runs a matching
// statement: the server has committed it, and the client does not learn so before it is
// released.
func (p *Proxy) HoldAfterCommit(match string) *Hold { return p.hold(afterCommit, match) }

// Fault cuts connections at a moment.
type Fault struct{ fired chan struct{} }

// Fired receives once for each connection that was cut.
func (f *Fault) Fired() <-chan struct{} { return f.fired }

func (p *Proxy) fault(at moment, match string, times int) *Fault {
	f := &Fault{fired: make(chan struct{}, times)}
	p.add(&rule{at: at, match: match, left: times, act: func(s *session) error {
		s.cut()
		f.fired <- struct{}{}
		return errCut
	}})
	return f
}

// SwallowCommit lets the server commit the next transaction that runs a matching
// statement, and cuts the connection in place of its acknowledgement.
func (p *Proxy) SwallowCommit(match string) *Fault { return p.SwallowCommits(match, 1) }

// SwallowCommits does what SwallowCommit does, to the next so many transactions.
func (p *Proxy) SwallowCommits(match string, times int) *Fault {
	return p.fault(afterCommit, match, times)
}

// CutBeforeCommit cuts the connection before the next transaction that runs a matching
// statement commits: it never does.
func (p *Proxy) CutBeforeCommit(match string) *Fault { return p.fault(beforeCommit, match, 1) }
