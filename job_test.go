package onejob_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
)

func catalog() onejob.Catalog {
	times := onejob.ProviderDefaults{Timeout: 10 * time.Second, ListenFor: 10 * time.Minute}
	return onejob.Catalog{
		Kinds: map[string]onejob.Kind{"ticket": {SideEffects: true}, "summary": {}},
		Providers: map[string]onejob.ProviderDefaults{
			"primary": times, "second": {Timeout: time.Second, ListenFor: time.Hour}, "third": times,
		},
		Limits: onejob.Limits{InputBytes: 1000, Depth: 5},
	}
}

func request() onejob.Request {
	return onejob.Request{Owner: "acme", Key: "order-45", Kind: "ticket", Provider: "primary", Input: json.RawMessage(`{"n":1.50}`)}
}

func mustNewJob(t *testing.T, change func(*onejob.Request)) onejob.Job {
	t.Helper()
	r := request()
	change(&r)
	job, err := onejob.NewJob(r, catalog())
	if err != nil {
		t.Fatalf("NewJob: %v", err)
	}
	return job
}

func unchanged(*onejob.Request) {}

func TestNewJobFillsInTheDefaults(t *testing.T) {
	t.Parallel()
	job := mustNewJob(t, unchanged)
	if job.Timeout != 10*time.Second || job.ListenFor != 10*time.Minute || job.MaxAttempts != onejob.DefaultMaxAttempts || job.HedgeAfter != 0 {
		t.Errorf("defaults: %+v", job)
	}
	if job.WorkflowID != "job/acme/order-45" || job.Status != onejob.StatusAccepted || job.Version != 0 {
		t.Errorf("identity and state: %+v", job)
	}
	if string(job.Input) != `{"n":1.50}` {
		t.Errorf("input %s is not kept as it was written", job.Input)
	}
	if job.Fallbacks == nil {
		t.Error("no fallbacks are nil, want an empty list: the database column is not null")
	}
}

func TestNewJobGivesEveryJobAnIDOfVersion7(t *testing.T) {
	t.Parallel()
	first, second := mustNewJob(t, unchanged), mustNewJob(t, unchanged)
	id, err := uuid.Parse(first.ID)
	if err != nil || id.Version() != 7 || first.ID == second.ID {
		t.Errorf("ids %s and %s (%v)", first.ID, second.ID, err)
	}
}

func TestDefaultLeftOutEqualsDefaultSpelledOut(t *testing.T) {
	t.Parallel()
	plain := mustNewJob(t, unchanged)
	spelled := mustNewJob(t, func(r *onejob.Request) {
		r.Timeout, r.ListenFor = onejob.Duration(10*time.Second), onejob.Duration(10*time.Minute)
		r.MaxAttempts, r.Fallbacks, r.Labels = onejob.DefaultMaxAttempts, []string{}, map[string]string{}
	})
	if !bytes.Equal(plain.Fingerprint, spelled.Fingerprint) {
		t.Error("the fingerprints differ")
	}
}

func TestTimesAttemptsAndLabelsAreNotIntent(t *testing.T) {
	t.Parallel()
	plain := mustNewJob(t, unchanged)
	for why, change := range map[string]func(*onejob.Request){
		"timeout":      func(r *onejob.Request) { r.Timeout = onejob.Duration(time.Second) },
		"listen_for":   func(r *onejob.Request) { r.ListenFor = onejob.Duration(time.Hour) },
		"max_attempts": func(r *onejob.Request) { r.MaxAttempts = 9 },
		"labels":       func(r *onejob.Request) { r.Labels = map[string]string{"team": "support"} },
	} {
		if !bytes.Equal(plain.Fingerprint, mustNewJob(t, change).Fingerprint) {
			t.Errorf("%s changed the fingerprint", why)
		}
	}
}

func TestIntentIsFingerprinted(t *testing.T) {
	t.Parallel()
	plain := func(r *onejob.Request) { r.Kind, r.Fallbacks = "summary", []string{"second", "third"} }
	base := mustNewJob(t, plain)
	for why, change := range map[string]func(*onejob.Request){
		"kind":           func(r *onejob.Request) { r.Kind = "ticket" },
		"primary":        func(r *onejob.Request) { r.Provider, r.Fallbacks = "second", []string{"primary", "third"} },
		"fallback order": func(r *onejob.Request) { r.Fallbacks = []string{"third", "second"} },
		"hedge":          func(r *onejob.Request) { r.HedgeAfter = onejob.Duration(time.Second) },
		"callback":       func(r *onejob.Request) { r.CallbackURL = "https://acme.example/cb" },
		"input":          func(r *onejob.Request) { r.Input = json.RawMessage(`{"n":1.51}`) },
	} {
		job := mustNewJob(t, func(r *onejob.Request) { plain(r); change(r) })
		if bytes.Equal(base.Fingerprint, job.Fingerprint) {
			t.Errorf("%s did not change the fingerprint", why)
		}
	}
}

func TestHowLongAHedgeWaitsIsNotIntent(t *testing.T) {
	t.Parallel()
	hedged := func(after time.Duration) onejob.Job {
		return mustNewJob(t, func(r *onejob.Request) { r.Kind, r.HedgeAfter = "summary", onejob.Duration(after) })
	}
	if !bytes.Equal(hedged(time.Second).Fingerprint, hedged(time.Minute).Fingerprint) {
		t.Error("the wait before a hedge is a time-out, not intent")
	}
}

func TestNewJobRefusesWithValueAndRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why    string
		change func(*onejob.Request)
		words  []string
	}{
		{"blank owner", func(r *onejob.Request) { r.Owner = "" }, []string{"owner is empty", "1 to 200"}},
		{"blank key", func(r *onejob.Request) { r.Key = "" }, []string{"key is empty", "1 to 255"}},
		{"key with a line break", func(r *onejob.Request) { r.Key = "a\nb" }, []string{`"a\nb"`, "remove it"}},
		{"no kind", func(r *onejob.Request) { r.Kind = "" }, []string{"kind is missing", "summary, ticket"}},
		{"unknown kind", func(r *onejob.Request) { r.Kind = "tiket" }, []string{`"tiket"`, "summary, ticket", "onejob.yaml"}},
		{"no provider", func(r *onejob.Request) { r.Provider = "" }, []string{"provider is missing", "primary, second, third"}},
		{"unknown provider", func(r *onejob.Request) { r.Provider = "p\nq" }, []string{`"p\nq"`, "primary, second, third"}},
		{"unknown fallback", func(r *onejob.Request) { r.Fallbacks = []string{"second", "x"} }, []string{`provider "x"`, "primary"}},
		{"fallback is the primary", func(r *onejob.Request) { r.Fallbacks = []string{"primary"} }, []string{`"primary"`, "twice"}},
		{"fallback twice", func(r *onejob.Request) { r.Fallbacks = []string{"second", "second"} }, []string{`"second"`, "twice"}},
		{"hedge with side effects", func(r *onejob.Request) { r.HedgeAfter = onejob.Duration(time.Second) }, []string{`"ticket"`, "leave hedge_after out"}},
		{"no input", func(r *onejob.Request) { r.Input = nil }, []string{"input is missing"}},
		{"blank input", func(r *onejob.Request) { r.Input = json.RawMessage(" ") }, []string{"input is empty", "JSON value"}},
		{"long input", func(r *onejob.Request) { r.Input = json.RawMessage(`"` + strings.Repeat("x", 999) + `"`) }, []string{"1001 bytes", "1000"}},
		{"deep input", func(r *onejob.Request) { r.Input = json.RawMessage(`[[[[[[1]]]]]]`) }, []string{"deeper than 5"}},
		{"input is not JSON", func(r *onejob.Request) { r.Input = json.RawMessage(`{"a":NaN}`) }, []string{"input is not JSON"}},
		{"negative timeout", func(r *onejob.Request) { r.Timeout = -1 }, []string{"timeout -1ns", "24h"}},
		{"timeout over a day", func(r *onejob.Request) { r.Timeout = onejob.Duration(25 * time.Hour) }, []string{"25h0m0s", "24h"}},
		{"timeout below a millisecond", func(r *onejob.Request) { r.Timeout = onejob.Duration(time.Microsecond) }, []string{"1µs", "milliseconds"}},
		{"listening over 30 days", func(r *onejob.Request) { r.ListenFor = onejob.Duration(721 * time.Hour) }, []string{"listen_for 721h", "720h"}},
		{"listening ends too early", func(r *onejob.Request) { r.ListenFor = onejob.Duration(9 * time.Second) }, []string{"9s", "10s", "at least as long"}},
		{"timeout over the default listening", func(r *onejob.Request) { r.Timeout = onejob.Duration(time.Hour) }, []string{"10m0s", "1h0m0s"}},
		{"negative attempts", func(r *onejob.Request) { r.MaxAttempts = -1 }, []string{"max_attempts -1", "1 to 100"}},
		{"too many attempts", func(r *onejob.Request) { r.MaxAttempts = 101 }, []string{"101", "1 to 100"}},
		{"callback without host", func(r *onejob.Request) { r.CallbackURL = "https:///cb" }, []string{`"https:///cb"`, "absolute"}},
		{"callback by another scheme", func(r *onejob.Request) { r.CallbackURL = "ftp://acme.example" }, []string{"ftp://", "http or https"}},
		{"callback too long", func(r *onejob.Request) { r.CallbackURL = "https://acme.example/" + strings.Repeat("x", 2000) }, []string{"2000"}},
		{"callback is not UTF-8", func(r *onejob.Request) { r.CallbackURL = "https://acme.example/\xff" }, []string{"callback_url"}},
		{"blank label", func(r *onejob.Request) { r.Labels = map[string]string{"": "x"} }, []string{"label is empty"}},
		{"label with a control character", func(r *onejob.Request) { r.Labels = map[string]string{"team": "a\x00"} }, []string{"label team", "remove it"}},
		{"too many labels", func(r *onejob.Request) { r.Labels = manyLabels(51) }, []string{"51 labels", "at most 50"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			r := request()
			c.change(&r)
			_, err := onejob.NewJob(r, catalog())
			mustRefuse(t, err, c.words...)
		})
	}
}

func TestNewJobRefusesMoreThanTwentyFallbacks(t *testing.T) {
	t.Parallel()
	c, r := catalog(), request()
	for i := range 21 {
		name := fmt.Sprintf("f%d", i)
		c.Providers[name] = c.Providers["primary"]
		r.Fallbacks = append(r.Fallbacks, name)
	}
	_, err := onejob.NewJob(r, c)
	mustRefuse(t, err, "21 fallbacks", "at most 20")
	r.Fallbacks = r.Fallbacks[:20]
	if _, err := onejob.NewJob(r, c); err != nil {
		t.Errorf("twenty: %v", err)
	}
}

func TestNewJobTakesTheBounds(t *testing.T) {
	t.Parallel()
	mustNewJob(t, func(r *onejob.Request) {
		r.Kind = "summary"
		r.Timeout, r.ListenFor = onejob.Duration(24*time.Hour), onejob.Duration(720*time.Hour)
		r.HedgeAfter, r.MaxAttempts = onejob.Duration(time.Millisecond), onejob.MostAttempts
		r.Labels, r.Input = manyLabels(50), json.RawMessage(`"`+strings.Repeat("x", 998)+`"`)
		r.Labels["label-0"] = ""
	})
}

func TestReferenceCarriesNoPayload(t *testing.T) {
	t.Parallel()
	job := mustNewJob(t, func(r *onejob.Request) { r.Input, r.Fallbacks = json.RawMessage(`"confidential"`), []string{"second"} })
	text, err := json.Marshal(job.Reference())
	if err != nil || strings.Contains(string(text), "confidential") {
		t.Fatalf("%s (%v)", text, err)
	}
	var read onejob.Reference
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	plan := read.Plan()
	if plan.JobID != job.ID || plan.MaxAttempts != job.MaxAttempts || strings.Join(plan.Providers, " ") != "primary second" {
		t.Errorf("plan %+v", plan)
	}
}

func manyLabels(n int) map[string]string {
	labels := map[string]string{}
	for i := range n {
		labels[fmt.Sprintf("label-%d", i)] = "x"
	}
	return labels
}
