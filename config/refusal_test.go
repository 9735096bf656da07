package config_test

import (
	"strings"
	"testing"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
)

// withProvider is a file with one provider, to which lines are added from line 5 on.
func withProvider(lines ...string) string {
	return "providers:\n  primary:\n    type: http\n    url: https://p.example\n    " + strings.Join(lines, "\n    ") + "\n"
}

// vendor is a file with one provider of the type, to which lines are added from line 4 on.
func vendor(adapter string, lines ...string) string {
	return "providers:\n  v:\n    type: " + adapter + "\n    " + strings.Join(lines, "\n    ") + "\n"
}

func price(members string) string {
	return "providers: {primary: {type: http, url: 'https://p.example', model: m}}\nprices:\n  - {" + members + "}\n"
}

func TestEveryRefusalNamesLineValueAndRemedy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, text string
		line      string
		words     []string
	}{
		{"unknown field", withProvider("timout: 10s"), "5", []string{`unknown field "timout"`, "providers.primary", "did you mean timeout?"}},
		{"unknown field, other case", withProvider("Timeout: 10s"), "5", []string{`"Timeout"`, "did you mean timeout?"}},
		{"unknown field, nothing like it", withProvider("colour: red"), "5", []string{`"colour"`, "use one of callback, cancel, certain"}},
		{"unknown section", "\n\nproviderz: {}", "3", []string{`unknown field "providerz" in the file`, "did you mean providers?"}},
		{"unknown field of the worker", "worker:\n  drian: 1s", "2", []string{`"drian"`, "did you mean drain?"}},
		{"consumers are not there yet", "consumers: {}", "1", []string{`"consumers"`}},
		{"a name of a megabyte", strings.Repeat("x", 1<<20) + ": 1", "1", []string{"unknown field"}},
		{"provider twice", "providers:\n  a: {type: http, url: 'https://a.example'}\n  a: {}", "3", []string{`"a" stands twice`, "line 2", "remove one"}},
		{"field twice", withProvider("timeout: 1s", "timeout: 2s"), "6", []string{`"timeout" stands twice`, "line 5"}},
		{"header twice in two spellings", withProvider("headers:", "  X-Team: a", "  x-team: b"), "7", []string{"headers.x-team", "stands twice"}},
		{"two documents", "kinds: {}\n---\nkinds: {}\n", "2", []string{"second document", "keep one"}},
		{"empty", "", "1", []string{"empty", "providers and kinds"}},
		{"comment only", "# nothing\n", "1", []string{"empty"}},
		{"a list", "- a", "1", []string{"the file is a list", "name: value"}},
		{"not yaml", "kinds: {}\nproviders: {a: [}\n", "2", []string{"not yaml"}},
		{"tabs", "providers:\n\tprimary: {}", "2", []string{"not yaml"}},
		{"name that is a list", "kinds: {[a]: {}}", "1", []string{"a name in kinds is a list"}},
		{"provider is text", "providers:\n  primary: http", "2", []string{`providers.primary is the text "http"`}},
		{"provider of a type that does not exist", "providers:\n  p: {type: grpc}", "2", []string{`"grpc"`, "http or openai or anthropic"}},
		{"provider without type", "providers:\n  p: {url: 'https://p.example'}", "2", []string{"providers.p has no type", "type: http"}},
		{"provider without url", "providers:\n  p: {type: http}", "2", []string{"providers.p has no url"}},
		{"provider with a blank in its name", "providers:\n  'a b': {}", "2", []string{`"a b"`, "without white space"}},
		{"kind without a name", "kinds:\n  '': {}", "2", []string{`""`, "1 to 100 bytes"}},
		{"url without a scheme", withProvider("proxy: proxy.example:3128"), "5", []string{"proxy.example:3128", "absolute URL", "http://host"}},
		{"url by file", "providers:\n  p:\n    url: file:///etc/passwd", "3", []string{"file:///etc/passwd", "https://host"}},
		{"url that is a number", "providers:\n  p:\n    url: 7", "3", []string{"the number 7", "in quotes"}},
		{"url with a password", "providers:\n  p:\n    url: https://me:hunter2@p.example", "3", []string{"password", "${env:NAME}"}},
		{"duration without unit", withProvider("timeout: 10"), "5", []string{"timeout is the number 10", "10s"}},
		{"duration in words", withProvider("timeout: ten"), "5", []string{`"ten"`, "10s"}},
		{"no time at all", withProvider("timeout: 0s"), "5", []string{"0s", "from 1ms"}},
		{"negative time", withProvider("listen_for: -1s"), "5", []string{"-1s", "720h"}},
		{"timeout over a day", withProvider("timeout: 25h"), "5", []string{"25h", "24h"}},
		{"listening shorter than the timeout", withProvider("timeout: 1h"), "2", []string{"listen_for 10m0s", "timeout 1h0m0s", "at least as long"}},
		{"heartbeat of no time", "worker: {heartbeat_timeout: 0s}", "1", []string{"heartbeat_timeout", "100ms"}},
		{"certain time-out", withProvider("certain: {no_effect: [408]}"), "5", []string{"no_effect[0] is 408", "time-out", "remove it"}},
		{"certain gateway time-out", withProvider("certain:", "  refused:", "    - 500", "    - 504"), "8", []string{"refused[1] is 504", "time-out"}},
		{"certain time-out of a proxy network", withProvider("certain: {refused: [524]}"), "5", []string{"524"}},
		{"certain success", withProvider("certain: {no_effect: [200]}"), "5", []string{"200", "400 to 599"}},
		{"certain redirect", withProvider("certain: {no_effect: [302]}"), "5", []string{"302", "400 to 599"}},
		{"certain twice", withProvider("certain: {no_effect: [500], refused: [500]}"), "5", []string{"500", "name it once"}},
		{"certain time-out by code", withProvider("certain: {refused: [timeout]}"), "5", []string{"refused[0]", `"timeout"`, "time-out"}},
		{"certain code twice", withProvider("certain: {no_effect: [E-1], refused: [E-1]}"), "5", []string{"E-1", "name it once"}},
		{"certain of no kind", withProvider("certain: {no_effect: [true]}"), "5", []string{"true", "400 to 599"}},
		{"certain without a list", withProvider("certain: {no_effect: 500}"), "5", []string{"the number 500", "as a list"}},
		{"unpriced by another word", withProvider("unpriced: yes please"), "5", []string{`"yes please"`, "use allow"}},
		{"idempotency without header", withProvider("idempotency: {window: 1h}"), "5", []string{"has no header", "Idempotency-Key"}},
		{"idempotency header that is none", withProvider("idempotency: {header: 'a b'}"), "5", []string{`"a b"`, "HTTP header"}},
		{"idempotency header under headers too", withProvider("idempotency: {header: x-key}", "headers: {X-Key: a}"), "2", []string{"X-Key", "remove it there"}},
		{"lookup without ref", withProvider("lookup: {url: 'https://p.example'}"), "5", []string{"{ref}"}},
		{"lookup by the attempt alone", withProvider("lookup: {url: 'https://p.example/{attempt}'}"), "5", []string{"same for several calls", "{job} and {attempt}"}},
		{"lookup by the job alone", withProvider("lookup: {url: 'https://p.example/{job}'}"), "5", []string{"same for several calls", "{job} and {attempt}"}},
		{"lookup without url", withProvider("lookup: {interval: 1s}"), "5", []string{"no url", "{ref}"}},
		{"lookup by another name", withProvider("lookup: {url: 'https://p.example/{id}'}"), "5", []string{"{id}", "{attempt}, {job}, {key}, {ref}"}},
		{"lookup with a name as host", withProvider("lookup: {url: 'https://{ref}.p.example/x'}"), "5", []string{"host", "{ref}"}},
		{"lookup with a user", withProvider("lookup: {url: 'https://me@p.example/{ref}'}"), "5", []string{"user", "headers are sent"}},
		{"lookup with a state of its own", withProvider("lookup: {url: 'https://p.example/{ref}', states: {done: fine}}"), "5", []string{"states.done", `"fine"`, "succeeded"}},
		{"lookup that never settles", withProvider("lookup: {url: 'https://p.example/{ref}', not_found_after: 0s}"), "5", []string{"not_found_after", "0s", "1s"}},
		{"callback without secret", withProvider("callback: {}"), "5", []string{"callback", "no secret", "${env:NAME}"}},
		{"callback secret in clear text", withProvider("callback: {secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}"), "5", []string{"clear text", "${env:NAME}"}},
		{"callback secret of another kind", withProvider("callback: {secret: '${env:PRIMARY_TOKEN}'}"), "5", []string{"Standard Webhooks", "whsec_"}},
		{"unknown field of webhooks", "webhooks:\n  allow_privat: true", "2", []string{"allow_privat", "did you mean allow_private?"}},
		{"webhooks' secret in clear text", "webhooks: {callback_secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}", "1", []string{"webhooks.callback_secret", "clear text", "${env:NAME}"}},
		{"webhooks' secret of another kind", "webhooks: {callback_secret: '${env:PRIMARY_TOKEN}'}", "1", []string{"Standard Webhooks", "whsec_"}},
		{"webhooks' secret of blanks", "webhooks: {callback_secret: '${env:BLANKS}'}", "1", []string{"no secret", "export"}},
		{"webhooks' timeout over a minute", "webhooks: {timeout: 61s}", "1", []string{"1m1s", "1m0s"}},
		{"unknown field of the door", "door:\n  rat: {burst: 1}", "2", []string{"rat", "did you mean rate?"}},
		{"door's rate of nothing", "door: {rate: {per_second: 0}}", "1", []string{"door.rate.per_second", "above 0"}},
		{"door's proxy that is no address", "door: {proxies: [balancer]}", "1", []string{"door.proxies", "balancer", "10.0.0.0/8"}},
		{"door's failures of nothing", "door: {failures: {burst: 0}}", "1", []string{"door.failures.burst"}},
		{"door's issuer without an audience", "door: {oidc: {issuer: 'https://login.example'}}", "1", []string{"door.oidc", "lacks issuer or audience"}},
		{"door's issuer that is no URL", "door: {oidc: {issuer: login, audience: a}}", "1", []string{"login", "absolute URL"}},
		{"vendor's door without a kind", "door: {openai: {provider: v}}", "1", []string{"door.openai", "lacks kind or provider"}},
		{"vendor's door of another kind", vendor("openai", "model: m", "unpriced: allow") + "door: {openai: {kind: chat, provider: v}}", "6", []string{"door.openai", `"chat"`, "add it"}},
		{"vendor's door of a kind with a contract", vendor("openai", "model: m", "unpriced: allow") + "kinds: {sum: {side_effects: none, contract: testdata/sum.yaml}}\ndoor: {openai: {kind: sum, provider: v}}", "7", []string{"door.openai", `"sum"`, "contract: none"}},
		{"vendor's door of another vendor", vendor("openai", "model: m", "unpriced: allow") + "kinds: {chat: {side_effects: external, contract: none}}\ndoor: {anthropic: {kind: chat, provider: v}}", "7", []string{"door.anthropic", `"v"`, "type: anthropic"}},
		{"vendor's door of another API", vendor("openai", "model: m", "unpriced: allow", "api: responses") + "kinds: {chat: {side_effects: external, contract: none}}\ndoor: {openai: {kind: chat, provider: v}}", "8", []string{"door.openai", "api: chat"}},
		{"vendor's door of a missing fallback", vendor("openai", "model: m", "unpriced: allow") + "kinds: {chat: {side_effects: external, contract: none}}\ndoor: {openai: {kind: chat, provider: v, fallbacks: [w]}}", "7", []string{`"w"`, "use one of (v)"}},
		{"webhooks to private addresses, perhaps", "webhooks: {allow_private: maybe}", "1", []string{"maybe", "true or false"}},
		{"cancel without url", withProvider("cancel: {method: DELETE}"), "5", []string{"no url", "{ref}"}},
		{"cancel by reading", withProvider("cancel: {url: 'https://p.example/{ref}', method: GET}"), "5", []string{`"GET"`, "DELETE"}},
		{"more re-asks than sense", withProvider("idempotency: {header: A, reasks: 1000}"), "5", []string{"1000", "to 100"}},
		{"lookup that slows down backwards", withProvider("lookup: {url: 'https://p.example/{ref}', interval: 2m}"), "5", []string{"max_interval 1m0s", "interval 2m0s"}},
		{"no request at once", withProvider("limits: {concurrent: 0}"), "5", []string{"the number 0", "from 1"}},
		{"no request per second", withProvider("limits: {per_second: 0}"), "5", []string{"the number 0", "above 0"}},
		{"no number of requests", withProvider("limits: {per_second: .nan}"), "5", []string{"nan", "above 0"}},
		{"limit with a fraction", "limits: {depth: 1.5}", "1", []string{"1.5", "whole number"}},
		{"limit beyond an int", "limits: {input_bytes: 99999999999999999999}", "1", []string{"whole number"}},
		{"kind that does not say", "kinds: {a: {side_effects: none}}", "1", []string{"kinds.a", "has no contract", "contract: FILE", "contract: none"}},
		{"kind that says nothing", "kinds:\n  a:\n", "2", []string{"kinds.a", "contract: none"}},
		{"contract that is not there", "kinds: {a: {contract: gone.yaml}}", "1", []string{"kinds.a.contract", "gone.yaml", "does not exist"}},
		{"contract that is broken", "kinds: {a: {contract: testdata/full.yaml}}", "1", []string{"kinds.a.contract", "testdata/full.yaml", "more)", "onejob contract lint testdata/full.yaml"}},
		{"contract of another kind", "kinds: {a: {side_effects: none, contract: testdata/sum.yaml}}", "1", []string{"testdata/sum.yaml", `"sum"`, `"a"`}},
		{"contract of other side effects", "kinds: {sum: {contract: testdata/sum.yaml}}", "1", []string{"testdata/sum.yaml", "side_effects: none", "external"}},
		{"waiting for no certificate", "kinds: {a: {contract: none, uncertified: wait}}", "1", []string{"kinds.a.uncertified", "no contract"}},
		{"suspending no certificate", "kinds: {a: {contract: none, suspend: {violations: 1}}}", "1", []string{"kinds.a.suspend", "no contract"}},
		{"uncertified by another word", "kinds: {a: {contract: none, uncertified: maybe}}", "1", []string{`"maybe"`, "fail or wait"}},
		{"no violations", "kinds: {sum: {side_effects: none, contract: testdata/sum.yaml, suspend: {violations: 0}}}", "1", []string{"suspend.violations"}},
		{"side effects by another word", "kinds: {a: {side_effects: some}}", "1", []string{`"some"`, "none or external"}},
		{"price of nobody", price("provider: other, model: m, unit: input, price: '1', currency: USD"), "3", []string{`"other"`, "use one of primary"}},
		{"price of another model", price("provider: primary, model: n, unit: input, price: '1', currency: USD"), "3", []string{`"n"`, `"m"`, "make them the same"}},
		{"price without unit", price("provider: primary, model: m, price: '1', currency: USD"), "3", []string{"prices[0] has no unit"}},
		{"price by another unit", price("provider: primary, unit: word"), "3", []string{`"word"`, "cached_input"}},
		{"price in exponents", price("provider: primary, price: 2e-6"), "3", []string{"2e-6", "0.000002"}},
		{"negative price", price("provider: primary, price: -1"), "3", []string{"-1", "exact decimal"}},
		{"price in another money", price("provider: primary, currency: dollars"), "3", []string{`"dollars"`, "USD"}},
		{"price beyond 12 digits", price("provider: primary, price: '0.0000000000001'"), "3", []string{"prices[0].price", "0.0000000000001", "12 behind the point"}},
		{"price of a thousand digits", price("provider: primary, price: '" + strings.Repeat("9", 1000) + "'"), "3", []string{"prices[0].price", "12 digits before"}},
		{"charge below zero", price("provider: primary, charge: '-1'"), "3", []string{"prices[0].charge", "-1", "exact decimal"}},
		{"price in no money", price("provider: primary, currency: XXX"), "3", []string{`"XXX"`, "USD"}},
		{"price from a day on", price("provider: primary, valid_from: 2026-12-01"), "3", []string{"prices[0].valid_from", "2026-12-01", "T00:00:00Z"}},
		{"price from a nanosecond on", price("provider: primary, valid_from: '2026-12-01T00:00:00.000000001Z'"), "3", []string{"at most 6 digits"}},
		{"prices of one model in two currencies", price("provider: primary, model: m, unit: input, price: 1, currency: USD}\n  - {provider: primary, model: m, unit: output, price: 1, currency: EUR"), "4", []string{"prices[1]", "EUR", "USD", "one currency"}},
		{"price twice from one time on", price("provider: primary, model: m, unit: call, price: 1, currency: USD, valid_from: '2026-12-01T00:00:00Z'}\n  - {provider: primary, model: m, unit: call, price: 2, currency: USD, valid_from: '2026-12-01T01:00:00+01:00'"), "4", []string{"second price", "valid_from"}},
		{"price twice", price("provider: primary, model: m, unit: call, price: 1, currency: USD}\n  - {provider: primary, model: m, unit: call, price: 2, currency: USD"), "4", []string{"second price", "call"}},
		{"vendor without a model", vendor("openai"), "2", []string{"providers.v cannot be used", "no model"}},
		{"vendor's key in clear text", vendor("openai", "model: m", "api_key: sk-hunter2"), "5", []string{"api_key", "clear text", "${env:NAME}"}},
		{"vendor's api of another", vendor("anthropic", "model: m", "api: chat"), "5", []string{`"chat"`, "messages or batch"}},
		{"vendor's look-up with a url", vendor("openai", "model: m", "lookup: {url: 'https://p.example/{ref}'}"), "5", []string{`"url"`, "interval"}},
		{"vendor that is not looked up", vendor("openai", "model: m", "unpriced: allow", "lookup: {interval: 1s}"), "2", []string{"lookup", "background: true", "api: batch"}},
		{"vendor's cancel", vendor("openai", "cancel: {url: 'https://p.example/{ref}'}"), "4", []string{`"cancel"`}},
		{"vendor in words", vendor("openai", "stream: maybe"), "4", []string{"stream", `"maybe"`, "true or false"}},
		{"anthropic in the background", vendor("anthropic", "background: true"), "4", []string{`"background"`}},
		{"chat in the background", vendor("openai", "model: m", "background: true"), "2", []string{"api: responses"}},
		{"batch that streams", vendor("anthropic", "model: m", "api: batch", "stream: true"), "2", []string{"cannot stream"}},
		{"anthropic's url with v1", vendor("anthropic", "model: m", "url: https://p.example/v1"), "2", []string{"/v1", "leave it out"}},
		{"a tokenizer that nobody knows", vendor("openai", "tokenizer: llama"), "4", []string{"tokenizer", `"llama"`, "like gpt-4o"}},
		{"no context", vendor("openai", "context: 0"), "4", []string{"context", "0"}},
		{"ends twice", vendor("openai", "accept: [stop, stop]"), "4", []string{"accept[1]", `"stop"`, "name it once"}},
		{"http with an api", withProvider("api: chat"), "5", []string{`"api"`}},
		{"model without a price", withProvider("model: m"), "2", []string{`"primary"`, `"m"`, "unpriced: allow"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			mustRefuse(t, c.text, c.line, c.words...)
		})
	}
}

// refusal returns the error line for a text that must be refused.
func refusal(t *testing.T, text string) string {
	t.Helper()
	_, err := config.Parse("onejob.yaml", []byte(text), environment)
	if onejob.CodeOf(err) != onejob.CodeMisconfigured {
		t.Fatalf("want a misconfiguration, got %v", err)
	}
	return err.Error()
}

func mustRefuse(t *testing.T, text, line string, words ...string) {
	t.Helper()
	message := refusal(t, text)
	if !strings.HasPrefix(message, "onejob.yaml:"+line+": ") {
		t.Errorf("%.300q is not about line %s", message, line)
	}
	if strings.ContainsAny(message, "\n\r") || len(message) > 500 {
		t.Errorf("not one short line: %.300q", message)
	}
	if strings.Contains(message, "s3cret") || strings.Contains(message, "hunter2") {
		t.Errorf("%q tells a secret", message)
	}
	for _, word := range words {
		if !strings.Contains(message, word) {
			t.Errorf("%.300q does not mention %q", message, word)
		}
	}
}

func TestSecretsComeByReferenceOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, header string
		words       []string
	}{
		{"token", "Authorization: Bearer hunter2", []string{"headers.Authorization", "clear text", "${env:NAME}"}},
		{"other spelling", "authorization: hunter2", []string{"clear text"}},
		{"proxy", "Proxy-Authorization: Basic hunter2", []string{"clear text"}},
		{"key of a service", "X-Api-Key: hunter2", []string{"clear text"}},
		{"cookie", "Cookie: session=hunter2", []string{"clear text"}},
		{"missing variable", "Authorization: 'Bearer ${env:ABSENT}'", []string{"providers.primary.headers.Authorization", "ABSENT", "not set", "export it"}},
		{"empty variable", "Authorization: '${env:EMPTY}'", []string{"EMPTY", "export it"}},
		{"variable with a line break", "X-Team: '${env:BROKEN}'", []string{"BROKEN", "control character"}},
		{"reference to something else", "X-Team: '${file:/etc/passwd}'", []string{"${file:/etc/passwd}", "${env:NAME}"}},
		{"reference without end", "X-Team: 'a ${env:PRIMARY_TOKEN'", []string{"${env:PRIMARY_TOKEN", "not a reference"}},
		{"reference without name", "X-Team: '${env:}'", []string{"${env:}", "not a reference"}},
		{"header of ours", "Onejob-Job: x", []string{"set by onejob itself"}},
		{"key of an attempt", "idempotency-key: always-the-same", []string{"set by onejob itself"}},
		{"header of the transport", "content-length: '5'", []string{"set by onejob itself"}},
		{"header that is none", "'X Team': x", []string{"HTTP header"}},
		{"header that is a number", "X-Version: 2", []string{"the number 2", "in quotes"}},
	} {
		t.Run(c.why, func(t *testing.T) { mustRefuse(t, withProvider("headers:", "  "+c.header), "6", c.words...) })
	}
}

func TestReferencesAreReadWhereSecretsBelongOnly(t *testing.T) {
	t.Parallel()
	mustRefuse(t, withProvider("model: ${env:PRIMARY_TOKEN}"), "5", "url, proxy and headers only")
	mustRefuse(t, "providers:\n  p:\n    url: ${env:ABSENT}", "3", "providers.p.url", "ABSENT")
	mustRefuse(t, "providers:\n  p:\n    url: ${env:NO_URL}", "3", "${env:NO_URL}", "absolute URL")
	c := mustParse(t, withProvider("proxy: http://me:${env:PRIMARY_TOKEN}@proxy.example"))
	if c.Providers[0].Proxy != "http://me:s3cret@proxy.example" {
		t.Errorf("proxy %q", c.Providers[0].Proxy)
	}
}

func TestAVariableIsNotReadAgainForReferences(t *testing.T) {
	t.Parallel()
	env := func(string) (string, bool) { return "${env:OTHER}", true }
	c, err := config.Parse("onejob.yaml", []byte(withProvider("headers: {X-Team: '${env:A}'}")), env)
	if err != nil || c.Providers[0].Headers["X-Team"] != "${env:OTHER}" {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestAnAnchorMayBeUsedAgain(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "providers:\n  a: &a {type: http, url: 'https://p.example', timeout: 3s}\n  b: *a\n")
	if len(c.Providers) != 2 || c.Providers[1].Name != "b" || c.Providers[1].Timeout != c.Providers[0].Timeout {
		t.Errorf("providers %+v", c.Providers)
	}
	mustRefuse(t, "kinds: &k\n  a: *k\n", "2", `"a"`)
}

func FuzzParse(f *testing.F) {
	f.Add(withProvider("timout: 10s"))
	f.Add(withProvider("headers: {Authorization: 'Bearer ${env:PRIMARY_TOKEN}'}", "certain: {no_effect: [409]}"))
	f.Add(vendor("openai", "model: m", "unpriced: allow", "api: responses", "background: true"))
	f.Add(vendor("anthropic", "model: m", "unpriced: allow", "api: batch", "api_key: ${env:PRIMARY_TOKEN}"))
	f.Add("kinds: &k\n  a: *k\n")
	f.Add("a: {<<: {b: c}}\n---\n")
	f.Add("\ufeffkinds: {[a]: !!binary x}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := config.Parse("onejob.yaml", []byte(text), environment)
		if err == nil {
			if _, err := c.Adapters(); err != nil {
				t.Errorf("the parser takes what the adapter refuses: %v", err)
			}
			return
		}
		message := err.Error()
		if onejob.CodeOf(err) != onejob.CodeMisconfigured || !strings.HasPrefix(message, "onejob.yaml:") || strings.ContainsAny(message, "\n\r") || len(message) > 2000 {
			t.Errorf("%.300q (code %q)", message, onejob.CodeOf(err))
		}
	})
}
