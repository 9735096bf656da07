package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// list returns the ids of the jobs that the query selects, page by page, and how many pages.
func (r *rig) list(query string) (ids []string, pages int) {
	r.t.Helper()
	for cursor := ""; ; pages++ {
		path := "/v1/jobs?limit=2&" + query
		if cursor != "" {
			path += "&cursor=" + cursor
		}
		got := r.get(path)
		var page struct {
			Jobs []onejob.View
			Next string
		}
		if err := json.Unmarshal(got.body, &page); got.status != http.StatusOK || err != nil || len(page.Jobs) > 2 {
			r.t.Fatalf("%s got %d %s", path, got.status, got.body)
		}
		for _, j := range page.Jobs {
			ids = append(ids, j.JobID)
		}
		if cursor = page.Next; cursor == "" {
			return ids, pages + 1
		}
	}
}

func TestListFiltersAndPages(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 5 {
		provider := []string{"primary", "fallback"}[i%2]
		all = append(all, r.mustSubmit(fmt.Sprint(i), fmt.Sprintf(`{"kind": "ticket", "provider": %q, "input": 1, "labels": {"n": "%d", "team": "a=b"}}`, provider, i)))
	}
	slices.Reverse(all)
	if got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + all[0] + "/cancel", token: r.token}); got.status != http.StatusOK {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	past, coming := url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339)), url.QueryEscape(time.Now().Add(time.Hour).Format(time.RFC3339))
	for query, want := range map[string][]string{
		"":                               all,
		"provider=fallback":              {all[1], all[3]},
		"kind=ticket":                    all,
		"kind=chat":                      nil,
		"status=cancelled":               {all[0]},
		"status=accepted":                all[1:],
		"label=n%3D3":                    {all[1]},
		"label=team%3Da%3Db":             all,
		"label=n%3D3&label=team%3Da%3Db": {all[1]},
		"label=n%3D3&label=team%3Dc":     nil,
		"from=" + past:                   all,
		"to=" + past:                     nil,
		"from=" + coming:                 nil,
		"from=" + past + "&to=" + coming + "&provider=primary&status=accepted": {all[2], all[4]},
	} {
		if got, _ := r.list(query); !slices.Equal(got, want) {
			t.Errorf("%q selects %v, want %v", query, got, want)
		}
	}
	for _, query := range []string{"status=open", "limit=0", "limit=1001", "cursor=x", "label=n", "from=yesterday", "owner=%00"} {
		if got := r.get("/v1/jobs?" + query); got.problem() != "invalid-request" {
			t.Errorf("%q got %d %s", query, got.status, got.body)
		}
	}
}

func TestMoneyIsReadByItsOwner(t *testing.T) {
	r := newRig(t)
	for i, amount := range []string{"10", "2.50", "0.000000000001"} {
		if _, err := r.store.BookDepositOnce(t.Context(), postgres.Deposit{Kind: "topup", Owner: r.owner, Key: fmt.Sprint(i), Amount: mustAmount(t, amount), Currency: "USD", By: "ana"}); err != nil {
			t.Fatal(err)
		}
	}
	balance := r.get("/v1/balance")
	if got := fmt.Sprint(balance.field(t, "balances")); got != "[map[balance:12.500000000001 currency:USD owner:"+r.owner+"]]" || balance.field(t, "budget") != nil {
		t.Errorf("the balance is %s", balance.body)
	}
	var amounts []string
	for cursor := ""; ; {
		got := r.get("/v1/ledger?limit=2&kind=topup" + cursor)
		var page struct {
			Entries []postgres.LedgerEntry
			Next    string
		}
		if err := json.Unmarshal(got.body, &page); got.status != http.StatusOK || err != nil {
			t.Fatalf("the ledger got %d %s", got.status, got.body)
		}
		for _, e := range page.Entries {
			amounts = append(amounts, e.Amount.String())
		}
		if cursor = "&cursor=" + page.Next; page.Next == "" {
			break
		}
	}
	if !slices.Equal(amounts, []string{"0.000000000001", "2.5", "10"}) {
		t.Errorf("the ledger has %v", amounts)
	}
	for _, by := range []string{"day", "model", "kind"} {
		if got := r.get("/v1/usage?by=" + by + "&from=" + time.Now().UTC().AddDate(0, -1, 0).Format(time.DateOnly) + "&to=2999-12-31"); got.status != http.StatusOK || got.field(t, "by") != by {
			t.Errorf("the usage by %s got %d %s", by, got.status, got.body)
		}
	}
	for _, path := range []string{"/v1/usage?by=hour", "/v1/usage?from=2026-13-01", "/v1/ledger?kind=gift", "/v1/ledger?cursor=0", "/v1/ledger?cursor=x"} {
		if got := r.get(path); got.problem() != "invalid-request" {
			t.Errorf("%s got %d %s", path, got.status, got.body)
		}
	}
}
