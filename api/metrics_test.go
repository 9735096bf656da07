package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onejob/onejob/api"
)

// metered is a rig whose door's metrics are read.
func metered(t *testing.T, change ...func(*api.Options)) (r *rig, read func() map[string]float64) {
	t.Helper()
	metrics, registry := api.NewMetrics(), prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	r = newRig(t, append(change, func(o *api.Options) { o.Metrics = metrics })...)
	return r, func() map[string]float64 {
		t.Helper()
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		values := map[string]float64{}
		for _, family := range families {
			for _, m := range family.Metric {
				var labels []string
				for _, l := range m.Label {
					labels = append(labels, l.GetValue())
				}
				name := strings.TrimPrefix(family.GetName(), "onejob_http_") + " " + strings.Join(labels, " ")
				values[name] = m.Counter.GetValue() + m.Gauge.GetValue() + float64(m.Histogram.GetSampleCount())
			}
		}
		return values
	}
}

func TestMetricsCountWhatIsAskedByRoute(t *testing.T) {
	r, read := metered(t, func(o *api.Options) { o.Rate = api.Rate{PerSecond: 0.001, Burst: 9} })
	job := r.mustSubmit("k", ticket)
	r.do(r.submit("k", ticket))
	r.get("/v1/jobs/" + job)
	r.get("/v1/jobs/" + job + "x")
	r.do(call{method: http.MethodGet, path: "/nothing/" + job})
	r.do(call{method: http.MethodGet, path: "/v1/jobs", token: "oj_nobody"})
	r.do(call{method: http.MethodPost, path: "/v1/jobs", token: r.token, key: "l", body: "text", header: map[string]string{"Content-Type": "text/plain"}})
	r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/attempts/1/resolve", token: r.token, body: `{"as": "failed"}`})
	poll := make(chan answer, 1)
	go func() { poll <- r.get("/v1/jobs/" + job + "?wait=1m") }()
	stream := r.follow(r.door, job, "")
	stream.until("job accepted")
	r.eventually("both wait", func() bool { v := read(); return v["waiting poll"] == 1 && v["waiting stream"] == 1 })
	if got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/cancel", token: r.token, body: `{}`}); got.status != http.StatusOK {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	<-poll
	stream.rest()
	for range 5 {
		r.get("/v1/jobs")
	}
	r.eventually("what was answered is counted, and nobody waits", func() bool {
		v := read()
		return v["waiting poll"] == 0 && v["waiting stream"] == 0 && v["requests_total GET /v1/jobs/{job}/events 200"] == 1
	})
	got := read()
	for name, want := range map[string]float64{
		"requests_total POST /v1/jobs 201":                                  1,
		"requests_total POST /v1/jobs 200":                                  1,
		"requests_total POST /v1/jobs 415":                                  1,
		"requests_total GET /v1/jobs/{job} 200":                             2,
		"requests_total GET /v1/jobs/{job} 404":                             1,
		"requests_total none 404":                                           1,
		"requests_total GET /v1/jobs 401":                                   1,
		"requests_total POST /v1/jobs/{job}/attempts/{attempt}/resolve 403": 1,
		"request_seconds POST /v1/jobs":                                     3,
		"request_seconds GET /v1/jobs/{job}":                                2, // the long poll is not among them
		"request_seconds GET /v1/jobs/{job}/events":                         0,
		"rejected_total token":                                              1,
		"rejected_total role":                                               1,
		"rejected_total body":                                               1,
		"rejected_total address":                                            0,
		"rejected_total rate":                                               got["requests_total GET /v1/jobs 429"],
	} {
		if got[name] != want {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
	if got["rejected_total rate"] == 0 {
		t.Error("nothing was rejected for its rate")
	}
	for name := range got {
		if strings.Contains(name, job) {
			t.Errorf("%q has an id in it: there is no bound to such", name)
		}
	}
}

// TestFloodOfBadTokensCostsNoQueryEach: once an address has nothing left it is turned away before
// anything is looked up, and who has a good token notices nothing.
func TestFloodOfBadTokensCostsNoQueryEach(t *testing.T) {
	r, read := metered(t, func(o *api.Options) { o.Failures = api.Rate{PerSecond: 0.001, Burst: 3} })
	with := func(token string) answer { return r.do(call{method: http.MethodGet, path: "/v1/jobs", token: token}) }
	late := r.mustToken(r.owner, "user")
	for range 10 { // good ones take nothing
		if got := with(r.token); got.status != http.StatusOK {
			t.Fatalf("a good token got %d %s", got.status, got.body)
		}
	}
	for i := range 3 {
		if got := with(fmt.Sprintf("oj_%052d", i)); got.problem() != "unauthorized" {
			t.Errorf("bad token %d got %d %s", i, got.status, got.body)
		}
	}
	for name, token := range map[string]string{"a bad token": "oj_" + strings.Repeat("B", 52), "no token": "", "a good one that nobody has seen": late} {
		if got := with(token); got.problem() != "rate-limited" || got.header.Get("Retry-After") == "" {
			t.Errorf("%s got %d %s", name, got.status, got.body)
		}
	}
	if got := with(r.token); got.status != http.StatusOK {
		t.Errorf("a known token got %d %s", got.status, got.body)
	}
	r.store.Close()
	for range 50 {
		if got := with("oj_" + strings.Repeat("C", 52)); got.problem() != "rate-limited" {
			t.Fatalf("without a database a bad token got %d %s: it was looked up", got.status, got.body)
		}
	}
	if got := with(r.token); got.status < 500 {
		t.Errorf("without a database a good token got %d %s", got.status, got.body)
	}
	if got := read(); got["rejected_total address"] != 53 || got["rejected_total token"] != 3 {
		t.Errorf("counted %v and %v", got["rejected_total address"], got["rejected_total token"])
	}
}

// TestTokenThatWasRevokedIsNotKnownAnyMore, so that it takes from its address as any bad one does.
func TestTokenThatWasRevokedIsNotKnownAnyMore(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Failures = api.Rate{PerSecond: 0.001, Burst: 2} })
	if got := r.get("/v1/jobs"); got.status != http.StatusOK {
		t.Fatalf("the token got %d %s", got.status, got.body)
	}
	tokens, err := r.store.Tokens(t.Context(), tokenFilter(r.owner))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.store.RevokeTokenIfLive(t.Context(), tokens[0].ID, "ana"); err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"unauthorized", "unauthorized", "unauthorized", "rate-limited"} { // the first was known
		if got := r.get("/v1/jobs"); got.problem() != want {
			t.Errorf("request %d got %d %s", i, got.status, got.body)
		}
	}
}

// TestAddressIsWhomAProxyOfOursNames, and of nobody else's what he says.
func TestAddressIsWhomAProxyOfOursNames(t *testing.T) {
	for name, c := range map[string]struct {
		proxies []string
		want    string
	}{"a proxy of ours": {[]string{"127.0.0.0/8"}, "unauthorized"}, "anybody": {nil, "rate-limited"}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(o *api.Options) {
				o.Failures, o.Proxies = api.Rate{PerSecond: 0.001, Burst: 1}, prefixes(c.proxies...)
			})
			from := func(address string) answer {
				return r.do(call{method: http.MethodGet, path: "/v1/jobs", header: map[string]string{"X-Forwarded-For": address}})
			}
			from("192.0.2.1")
			if got := from("192.0.2.2"); got.problem() != c.want {
				t.Errorf("another address got %d %s", got.status, got.body)
			}
			if got := from("203.0.113.9, 192.0.2.1"); got.problem() != "rate-limited" {
				t.Errorf("the same address behind what it says itself got %d %s", got.status, got.body)
			}
		})
	}
}

func TestUsageIsOfABoundedNumberOfDays(t *testing.T) {
	r := newRig(t)
	today := time.Now().UTC()
	day := func(ago int) string { return today.AddDate(0, 0, -ago).Format(time.DateOnly) }
	for query, want := range map[string]string{
		"from=" + day(360):                     "",
		"from=" + day(400):                     "invalid-request",
		"from=" + day(800) + "&to=" + day(500): "",
		"from=" + day(800) + "&to=" + day(400): "invalid-request",
		"from=0002-01-01":                      "invalid-request",
		"to=0002-01-01":                        "",
		"from=" + day(300) + "&to=2999-12-31":  "",
		"by=model&from=" + day(800):            "invalid-request",
		"":                                     "",
	} {
		if got := r.get("/v1/usage?" + query); got.problem() != want || want == "" && got.status != http.StatusOK {
			t.Errorf("%q got %d %s", query, got.status, got.body)
		}
	}
}

func TestEndpointsAreListedByPages(t *testing.T) {
	r := newRig(t)
	added := map[string]bool{}
	for i := range 5 {
		got := r.do(call{method: http.MethodPost, path: "/v1/webhooks", token: r.token, key: fmt.Sprint(i), body: bodies["add-webhook"]})
		added[got.field(t, "id").(string)] = true
	}
	pages, cursor := 0, ""
	for more := true; more; pages++ {
		page := r.get("/v1/webhooks?limit=2" + cursor)
		endpoints := page.field(t, "endpoints").([]any)
		if len(endpoints) == 0 || len(endpoints) > 2 {
			t.Fatalf("page %d is %s", pages, page.body)
		}
		for _, e := range endpoints {
			delete(added, e.(map[string]any)["id"].(string))
		}
		var next string
		next, more = page.field(t, "next").(string)
		cursor = "&cursor=" + next
	}
	if pages != 3 || len(added) != 0 {
		t.Errorf("after %d pages are missing %v", pages, added)
	}
	if got := r.get("/v1/webhooks?cursor=first"); got.problem() != "invalid-request" {
		t.Errorf("a cursor that is none got %d %s", got.status, got.body)
	}
}
