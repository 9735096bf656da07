package faults_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/webhooks"
)

// money is a system of many owners: some with a budget, one referred by another, one topped
// up, one told by webhooks.
type money struct {
	*system
	store *postgres.Store // past the proxy
	heard hearsay
}

// The parts that owners play, by their number.
const (
	budgeted = 3 // as many have a budget
	referee  = 4
	referrer = 5
	payer    = 6
	listener = 7
)

// What is moved beside the prices. A call's charge decides how many jobs fit into a budget.
const (
	scarce         = "0.06"
	enough         = "1000"
	topup          = "12.000000000001"
	referralCredit = "5.5"
	currency       = "USD"
)

func newMoneySystem(t *testing.T, provider string) *money {
	t.Helper()
	s := newSystemOf(t, provider)
	m := &money{system: s, store: pgtest.Open(t, s.url)}
	m.setBudgets(scarce)
	_, err := m.store.SetReferralOnce(t.Context(), postgres.Referral{
		Referee: m.ownerOf(referee), Referrer: m.ownerOf(referrer), Credit: amount(t, referralCredit), Currency: currency, RecordedBy: "test"})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := m.store.BookDepositOnce(t.Context(), postgres.Deposit{
			Kind: "topup", Owner: m.ownerOf(payer), Key: "once", Amount: amount(t, topup), Currency: currency, By: "test"})
		if err != nil {
			t.Fatal(err)
		}
	}
	m.listen()
	return m
}

func amount(t *testing.T, text string) onejob.Amount {
	t.Helper()
	a, err := onejob.ParseAmount(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (s *system) ownerOf(intent int) string { return fmt.Sprintf("%s-%d", s.owner, intent%mixedOwners) }

func (s *money) setBudgets(limit string) {
	s.t.Helper()
	most := amount(s.t, limit)
	for i := range budgeted {
		_, err := s.store.SetBudget(s.t.Context(), postgres.BudgetChange{Owner: s.ownerOf(i), Limit: &most, Currency: currency})
		if err != nil {
			s.t.Fatal(err)
		}
	}
}

// intent is what the owner of that number wants. Some get an answer that the plan does not
// draw: with usage of all kinds, without any, or a rejection that used something, with and
// without a fallback.
func (s *system) intent(i int) onejob.Request {
	r := onejob.Request{Owner: s.ownerOf(i), Key: fmt.Sprint(i), Kind: []string{"ticket", "letter"}[i%2], Provider: "askable", MaxAttempts: 20}
	simulate := fmt.Sprintf(`{"as": "%d"}`, i)
	switch i % 25 {
	case 0:
		simulate = fmt.Sprintf(`{"usage": {"input_tokens": %d, "cached_input_tokens": %d, "output_tokens": 90, "reasoning_tokens": 41}}`, 1000+i, i)
	case 1:
		simulate = `{"usage": null}`
	case 2:
		r.Fallbacks = []string{"spare"}
		simulate = fmt.Sprintf(`{"only": "askable", "status": 400, "usage": {"input_tokens": %d, "cached_input_tokens": 5}}`, 10+i)
	case 3:
		simulate = fmt.Sprintf(`{"status": 400, "usage": {"input_tokens": %d}}`, 10+i)
	}
	r.Input = json.RawMessage(fmt.Sprintf(`{"n": %d, "max_output_tokens": 16, "simulate": %s}`, i, simulate))
	return r
}

// hearsay is what a receiver of webhooks has heard.
type hearsay struct {
	mu  sync.Mutex
	ids []string // as often as they came
}

func (h *hearsay) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ids = append(h.ids, r.Header.Get("Webhook-Id"))
}

// distinct returns what was heard, each once.
func (h *hearsay) distinct() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	ids := slices.Sorted(slices.Values(h.ids))
	return slices.Compact(ids)
}

// listen adds an endpoint of the listener.
func (s *money) listen() {
	s.t.Helper()
	server := httptest.NewServer(&s.heard)
	s.t.Cleanup(server.Close)
	endpoint, err := webhooks.Policy{AllowPrivate: true}.NewEndpoint(s.ownerOf(listener), server.URL, nil)
	if err == nil {
		_, err = s.store.AddEndpointOnce(s.t.Context(), endpoint)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// mustHaveTold asserts that the listener heard of each of its jobs and of nothing else.
func (s *money) mustHaveTold() {
	s.t.Helper()
	const waiting = `SELECT count(*) FROM webhook_deliveries WHERE state = 'pending'`
	s.eventually("the receiver has answered", func() bool { return s.count(waiting) == 0 })
	var want []string
	err := s.psql.QueryRow(s.t.Context(), `
		SELECT array_agg('job.' || status || ':' || id || CASE status WHEN 'failed' THEN ':' || version ELSE '' END) FROM jobs WHERE owner_id = $1`,
		s.ownerOf(listener)).Scan(&want)
	slices.Sort(want)
	if heard := s.heard.distinct(); err != nil || !slices.Equal(heard, want) {
		s.t.Errorf("the listener has %d jobs and heard of %d, %v: %v", len(want), len(heard), err, heard)
	}
}
