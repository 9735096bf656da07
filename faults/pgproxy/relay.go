package pgproxy

import "github.com/jackc/pgx/v5/pgproto3"

// relayQuestions forwards what the client says, and lets rules act before it.
func (s *session) relayQuestions() error {
	for {
		msg, err := s.toClient.Receive()
		if err != nil {
			return err
		}
		if err := s.before(msg); err != nil {
			return err
		}
		s.toServer.Send(msg)
		if !wantsAnswer(msg) {
			continue
		}
		if err := s.proxy.pass(s, s.toServer.Flush); err != nil {
			return err
		}
	}
}

// wantsAnswer says that the server must see the message now. The others it need not
// answer before a Sync or a Flush, so they travel with that.
func wantsAnswer(msg pgproto3.FrontendMessage) bool {
	switch msg.(type) {
	case *pgproto3.Parse, *pgproto3.Bind, *pgproto3.Describe, *pgproto3.Execute, *pgproto3.Close:
		return false
	}
	return true
}

// before follows the message and lets the rules act whose moment it is.
func (s *session) before(msg pgproto3.FrontendMessage) error {
	switch m := msg.(type) {
	case *pgproto3.Query:
		if err := s.beforeStatement(m.String); err != nil {
			return err
		}
		return s.beforeEnd(s.sync())
	case *pgproto3.Execute:
		return s.beforeStatement(s.portal(m.Portal))
	case *pgproto3.Sync:
		return s.beforeEnd(s.sync())
	case *pgproto3.FunctionCall:
		s.sync()
	default:
		s.remember(msg)
	}
	return nil
}

func (s *session) beforeStatement(sql string) error {
	if err := s.proxy.act(s, beforeStatement, []string{sql}); err != nil {
		return err
	}
	s.proxy.countStatement(sql)
	if u := s.say(sql); u.ends && s.proxy.awaits(afterCommit, s.transaction()) {
		s.keepQuiet(u)
	}
	return nil
}

// beforeEnd runs before the message that lets the server commit, if it does.
func (s *session) beforeEnd(u *unit) error {
	if !u.ends {
		return nil
	}
	return s.proxy.act(s, beforeCommit, s.transaction())
}

func (p *Proxy) countStatement(sql string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !isControl(sql) {
		p.statements++
	}
}

// relayAnswers forwards what the server says. An answer that a rule waits for is kept
// until its end.
func (s *session) relayAnswers() error {
	for {
		msg, err := s.toServer.Receive()
		if err != nil {
			return err
		}
		quiet := s.isQuiet()
		if err := s.hearing(msg); err != nil {
			return err
		}
		s.toClient.Send(msg)
		if _, end := msg.(*pgproto3.ReadyForQuery); quiet && !end {
			continue
		}
		if err := s.proxy.pass(s, s.toClient.Flush); err != nil {
			return err
		}
	}
}

func (s *session) hearing(msg pgproto3.BackendMessage) error {
	end, ok := msg.(*pgproto3.ReadyForQuery)
	if !ok {
		s.hear(msg)
		return nil
	}
	committed := s.ready(end.TxStatus)
	if committed == nil {
		return nil
	}
	s.proxy.countCommit()
	return s.proxy.act(s, afterCommit, committed)
}

func (p *Proxy) countCommit() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.commits++
}
