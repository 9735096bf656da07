package config_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/verdict"
)

// environment is what references in the tests find.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"SIGNING_SECRETS": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVz",
		"PRIMARY_TOKEN":   "s3cret", "FALLBACK_URL": "https://fallback.example", "EMPTY": "", "BLANKS": "  ", "BROKEN": "a\nb", "NO_URL": "s3cret",
	}[name]
	return value, ok
}

func mustParse(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := config.Parse("onejob.yaml", []byte(text), environment)
	if err != nil {
		t.Fatalf("Parse: %v", err)
	}
	return c
}

func mustRead(t *testing.T, path ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestParseReadsEveryMember(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	primary := config.Provider{
		Name: "primary", Type: "http", URL: "https://primary.example/v1/run", Model: "m-large",
		Headers: config.Headers{"Authorization": "Bearer s3cret", "X-Team": "support"},
		Timeout: 20 * time.Second, ListenFor: time.Hour,
		Idempotency: &config.Idempotency{Header: "Idempotency-Key", Window: 24 * time.Hour, ReAsks: 5},
		Lookup: &config.Lookup{
			URL: "https://primary.example/v1/run/{ref}", Interval: 2 * time.Second, MaxInterval: 2 * time.Minute,
			NotFoundAfter: 5 * time.Minute, States: map[string]string{"starting": "running"}, Result: "output",
		},
		Cancel:   &config.Cancel{URL: "https://primary.example/v1/run/{ref}/cancel", Method: "PUT"},
		Callback: &config.Callback{Secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_bmV3ZXIgc2VjcmV0IG9mIDI0IGJ5dGVz"}},
		Limits:   provider.Limits{Concurrent: 50, PerSecond: 0.5},
		Certain:  verdict.Certain{NoEffect: []int{409, 500}, NoEffectCodes: []string{"E-NEVER"}, Refused: []int{425}, RefusedCodes: []string{"E-BUSY"}},
		Proxy:    "http://proxy.example:3128",
	}
	if !reflect.DeepEqual(c.Providers[0], primary) {
		t.Errorf("primary is %+v", c.Providers[0])
	}
	fallback := config.Provider{
		Name: "fallback", Type: "http", URL: "https://fallback.example/run", Model: "m-small", Unpriced: true,
		Headers: config.Headers{}, Timeout: config.DefaultTimeout, ListenFor: config.DefaultListenFor,
	}
	if !reflect.DeepEqual(c.Providers[1], fallback) {
		t.Errorf("fallback is %+v", c.Providers[1])
	}
	kinds := map[string]config.Kind{
		"sum":     {Contract: c.Kinds["sum"].Contract, Hold: true, Suspend: onejob.Suspension{Violations: 3, Within: 30 * time.Minute}},
		"summary": {}, "ticket": {SideEffects: true},
	}
	if !reflect.DeepEqual(c.Kinds, kinds) {
		t.Errorf("kinds are %+v", c.Kinds)
	}
	if its := c.Contracts()["sum"]; len(c.Contracts()) != 1 || its.Kind != "sum" || its.File != filepath.Join("testdata", "sum.yaml") {
		t.Errorf("contracts %+v", c.Contracts())
	}
	if c.Worker != (config.Worker{HeartbeatTimeout: 45 * time.Second, Drain: time.Minute, CircuitFailures: 5, CircuitOpenFor: 10 * time.Second, CallbackURL: "https://onejob.example/hooks"}) || c.Limits != (onejob.Limits{InputBytes: 1e6, ResultBytes: 2e6, Depth: 64}) {
		t.Errorf("worker %+v, limits %+v", c.Worker, c.Limits)
	}
	signing, _ := environment("SIGNING_SECRETS")
	if want := (config.Webhooks{CallbackSecrets: strings.Fields(signing), AllowPrivate: true, Timeout: 3 * time.Second}); !reflect.DeepEqual(c.Webhooks, want) {
		t.Errorf("webhooks %+v", c.Webhooks)
	}
	door := config.Door{
		PerSecond: 20, Burst: 40, DeriveKeys: true, Failures: config.Failures{PerSecond: 0.5, Burst: 7},
		Proxies:   []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::1/128")},
		OIDC:      &config.OIDC{Issuer: "https://login.example", Audience: "onejob", KeysURL: "https://login.example/keys", OwnerClaim: "email", RoleClaim: "roles"},
		OpenAI:    &config.VendorDoor{Kind: "summary", Provider: "local", Models: map[string]string{"qwen3-small": "local"}},
		Anthropic: &config.VendorDoor{Kind: "summary", Provider: "claude", Models: map[string]string{}},
	}
	if !reflect.DeepEqual(c.Door, door) {
		t.Errorf("door %+v", c.Door)
	}
}

func TestVendorsHaveTheirOwnDefaults(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	for i, want := range []config.Provider{
		{Name: "gpt", Type: "openai", URL: "https://api.openai.com/v1", Model: "gpt-5.2",
			Lookup: &config.Lookup{Interval: 3 * time.Second, MaxInterval: 30 * time.Second},
			Vendor: config.Vendor{APIKey: "s3cret", API: "responses", Background: true}},
		{Name: "local", Type: "openai", URL: "http://127.0.0.1:8000/v1", Model: "qwen3",
			Tokenizer: "gpt-4o", Context: 32768,
			Vendor: config.Vendor{API: "chat", Stream: true, Accept: []string{"stop", "length"}}},
		{Name: "claude", Type: "anthropic", URL: "https://api.anthropic.com", Model: "claude-opus-5",
			Vendor: config.Vendor{APIKey: "s3cret", API: "messages"}},
		{Name: "claude-cheap", Type: "anthropic", URL: "https://api.anthropic.com", Model: "claude-opus-5",
			Vendor: config.Vendor{APIKey: "s3cret", API: "batch"}},
	} {
		want.Headers, want.Timeout, want.ListenFor, want.Unpriced = config.Headers{}, config.DefaultTimeout, config.DefaultListenFor, true
		if got := c.Providers[3+i]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v", want.Name, got)
		}
	}
}

func TestPricesAreReadExactly(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	want := []string{
		"primary m-large input 0.000002 0.000002 USD ",
		"primary m-large output 0.000006 0.00000900001 USD ",
		"primary m-large output 0.000005 0 USD 2027-01-01T00:00:00.25Z",
	}
	if got := priceLines(c.Prices); !slices.Equal(got, want) {
		t.Errorf("prices are\n%s", strings.Join(got, "\n"))
	}
}

func priceLines(prices []onejob.Price) (lines []string) {
	for _, p := range prices {
		var from string
		if !p.ValidFrom.IsZero() {
			from = p.ValidFrom.Format(time.RFC3339Nano)
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s %s %s %s", p.Provider, p.Model, p.Unit, p.Price, p.Charged(), p.Currency, from))
	}
	return lines
}

func TestListOfPricesStandsAlone(t *testing.T) {
	t.Parallel()
	prices, err := config.ParsePrices("prices.yaml", []byte("- {provider: p, unit: call, price: 1, currency: EUR}\n- {provider: q, model: m, unit: image, price: 0.000000000001, charge: 2, currency: USD, valid_from: 2026-12-01T00:00:00Z}\n"))
	if want := []string{"p  call 1 1 EUR ", "q m image 0.000000000001 2 USD 2026-12-01T00:00:00Z"}; err != nil || !slices.Equal(priceLines(prices), want) {
		t.Errorf("%q, %v", priceLines(prices), err)
	}
	for text, words := range map[string]string{
		"- {provider: p, unit: call, price: 1}":      "prices.yaml:1: prices[0] has no currency",
		"- {provider: p, unit: call, currency: USD}": "prices.yaml:1: prices[0] has no price",
		"prices: []": "prices.yaml:1: prices is a mapping: write it as a list",
		"\n- {provider: p, unit: call, price: 1, currency: USD, owner: o}": `prices.yaml:2: unknown field "owner" in prices[0]`,
		"": "prices.yaml:1: the file is empty",
	} {
		if _, err := config.ParsePrices("prices.yaml", []byte(text)); onejob.CodeOf(err) != onejob.CodeMisconfigured || !strings.HasPrefix(err.Error(), words) {
			t.Errorf("%q: %v", text, err)
		}
	}
	if _, err := config.LoadPrices(filepath.Join(t.TempDir(), "absent.yaml")); onejob.CodeOf(err) != onejob.CodeMisconfigured || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("%v", err)
	}
}

func TestDocumentedPricesAreRead(t *testing.T) {
	t.Parallel()
	_, block, _ := strings.Cut(mustRead(t, "..", "docs", "money.md"), "\n```yaml\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	c := mustParse(t, "providers: {gpt: {type: openai, model: gpt-5.2}}\n"+block)
	if len(c.Prices) != 3 || c.Prices[2].ValidFrom.IsZero() {
		t.Errorf("prices %+v", c.Prices)
	}
}

func TestRequestsKnowTheContractsOfTheirKinds(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	catalog := c.Catalog()
	sum := catalog.Kinds["sum"]
	if sum.Contract == nil || sum.Contract.SHA256 != c.Contracts()["sum"].SHA256 || !sum.Hold || sum.Suspend.Violations != 3 || catalog.Kinds["ticket"].Contract != nil {
		t.Errorf("kinds %+v", catalog.Kinds)
	}
	adapters, err := c.Adapters()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range adapters {
		if known := catalog.Providers[p.Name].Adapter; known == "" || known != p.AdapterVersion() {
			t.Errorf("provider %s: requests know the adapter %q, its version is %q", p.Name, known, p.AdapterVersion())
		}
	}
}

func TestDefaultsStandForWhatIsLeftOut(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "providers: {p: {type: http, url: 'https://p.example'}}\nkinds: {ticket: {contract: none}}\n")
	p := c.Providers[0]
	if p.Timeout != 10*time.Second || p.ListenFor != 10*time.Minute || p.Idempotency != nil || p.Lookup != nil {
		t.Errorf("provider %+v", p)
	}
	if c.Worker.HeartbeatTimeout != 30*time.Second || c.Worker.Drain != 30*time.Second || !reflect.DeepEqual(c.Webhooks, config.Webhooks{Timeout: 10 * time.Second}) {
		t.Errorf("worker %+v, webhooks %+v", c.Worker, c.Webhooks)
	}
	if !c.Kinds["ticket"].SideEffects {
		t.Error("a kind that says nothing has no side effects: two of its attempts could run beside each other")
	}
}

func TestCatalogOffersWhatTheFileNames(t *testing.T) {
	t.Parallel()
	catalog := mustParse(t, mustRead(t, "testdata", "full.yaml")).Catalog()
	request := onejob.Request{Owner: "acme", Key: "k", Kind: "ticket", Provider: "primary", Fallbacks: []string{"fallback", "plain"}, Input: []byte(`{}`)}
	job, err := onejob.NewJob(request, catalog)
	if err != nil || job.Timeout != 20*time.Second || job.ListenFor != time.Hour {
		t.Errorf("job %+v: %v", job, err)
	}
	request.HedgeAfter = onejob.Duration(time.Second)
	if _, err := onejob.NewJob(request, catalog); onejob.CodeOf(err) != onejob.CodeInvalidRequest {
		t.Errorf("a kind with side effects is hedged: %v", err)
	}
	request.Kind = "summary"
	if _, err := onejob.NewJob(request, catalog); err != nil {
		t.Errorf("a kind without side effects: %v", err)
	}
	if catalog.Limits.Depth != 64 {
		t.Errorf("limits %+v", catalog.Limits)
	}
}

func TestPrintingAConfigurationShowsNoSecret(t *testing.T) {
	t.Parallel()
	c := mustParse(t, mustRead(t, "testdata", "full.yaml"))
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		if line := fmt.Sprintf(verb, c.Providers[0]); strings.Contains(line, "s3cret") || !strings.Contains(line, "Authorization") {
			t.Errorf("%s prints %s", verb, line)
		}
		if line := fmt.Sprintf(verb, c.Providers[3]); strings.Contains(line, "s3cret") {
			t.Errorf("%s prints %s", verb, line)
		}
		if line := fmt.Sprintf(verb, c.Webhooks); strings.Contains(line, "whsec_") {
			t.Errorf("%s prints %s", verb, line)
		}
	}
}

func TestPathComesFromTheEnvironment(t *testing.T) {
	t.Setenv("ONEJOB_CONFIG", "")
	if got := config.Path(); got != "onejob.yaml" {
		t.Errorf("path %q", got)
	}
	t.Setenv("ONEJOB_CONFIG", "other.yaml")
	if got := config.Path(); got != "other.yaml" {
		t.Errorf("path %q", got)
	}
}

func TestLoadReadsTheProcessEnvironment(t *testing.T) {
	t.Setenv("ONEJOB_TEST_URL", "https://p.example")
	path := filepath.Join(t.TempDir(), "onejob.yaml")
	if err := os.WriteFile(path, []byte("providers: {p: {type: http, url: '${env:ONEJOB_TEST_URL}'}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := config.Load(path)
	if err != nil || c.Providers[0].URL != "https://p.example" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestLoadSaysWhichFileIsMissing(t *testing.T) {
	t.Parallel()
	_, err := config.Load(filepath.Join(t.TempDir(), "absent.yaml"))
	if onejob.CodeOf(err) != onejob.CodeMisconfigured || !strings.Contains(err.Error(), "absent.yaml does not exist") || !strings.Contains(err.Error(), "ONEJOB_CONFIG") {
		t.Errorf("%v", err)
	}
	if _, err := config.Load(t.TempDir()); onejob.CodeOf(err) != onejob.CodeMisconfigured {
		t.Errorf("a folder: %v", err)
	}
}
