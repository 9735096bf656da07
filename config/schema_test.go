package config_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
)

func mustCompileSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func mustReadYAML(t *testing.T, text string) any {
	t.Helper()
	var value any
	if err := yaml.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	return value
}

func TestSchemaAcceptsWhatTheParserAccepts(t *testing.T) {
	t.Parallel()
	schema := mustCompileSchema(t)
	for name, text := range map[string]string{
		"full":    mustRead(t, "testdata", "full.yaml"),
		"example": mustRead(t, filepath.Join("..", "examples", "onejob.yaml")),
		"sparse":  "providers: {p: {type: http, url: 'https://p.example'}}\nkinds: {ticket: {contract: none}}\n",
	} {
		t.Run(name, func(t *testing.T) {
			if err := schema.Validate(mustReadYAML(t, text)); err != nil {
				t.Errorf("%v", err)
			}
			mustParse(t, text)
		})
	}
}

func TestSchemaRefusesWhatTheParserRefuses(t *testing.T) {
	t.Parallel()
	schema := mustCompileSchema(t)
	for why, text := range map[string]string{
		"typo in a section":        "providerz: {}",
		"typo in a provider":       withProvider("timout: 10s"),
		"typo in idempotency":      withProvider("idempotency: {header: A, windo: 1h}"),
		"typo in lookup":           withProvider("lookup: {url: 'https://p.example/{ref}', intervall: 1s}"),
		"typo in a kind":           "kinds: {a: {sideeffects: none}}",
		"typo in a price":          price("provider: primary, model: m, unit: input, price: '1', curency: USD"),
		"typo in the worker":       "worker: {drian: 1s}",
		"typo in the limits":       "limits: {dept: 1}",
		"typo in the webhooks":     "webhooks: {time_out: 1s}",
		"webhooks' secret, open":   "webhooks: {callback_secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw}",
		"typo in the door":         "door: {openay: {}}",
		"vendor's door, no kind":   "door: {openai: {provider: v}}",
		"issuer without audience":  "door: {oidc: {issuer: 'https://login.example'}}",
		"provider without url":     "providers: {p: {type: http}}",
		"provider of another type": "providers: {p: {type: grpc, url: 'https://p.example'}}",
		"vendor without a model":   vendor("openai", "unpriced: allow"),
		"vendor's cancel":          vendor("openai", "model: m", "unpriced: allow", "cancel: {url: 'https://p.example/{ref}'}"),
		"vendor's look-up's url":   vendor("openai", "model: m", "unpriced: allow", "api: responses", "background: true", "lookup: {url: 'https://p.example/{ref}'}"),
		"vendor's key in the open": vendor("openai", "model: m", "unpriced: allow", "api_key: sk-1"),
		"anthropic's background":   vendor("anthropic", "model: m", "unpriced: allow", "background: true"),
		"anthropic's chat":         vendor("anthropic", "model: m", "unpriced: allow", "api: chat"),
		"http's api":               withProvider("api: chat"),
		"duration without unit":    withProvider("timeout: 10"),
		"certain time-out":         withProvider("certain: {no_effect: [408]}"),
		"certain success":          withProvider("certain: {refused: [200]}"),
		"reference to a file":      withProvider("proxy: 'http://${file:x}'"),
		"price in exponents":       price("provider: primary, model: m, unit: input, price: '2e-6', currency: USD"),
		"price of 13 digits":       price("provider: primary, model: m, unit: input, price: '0.0000000000001', currency: USD"),
		"charge in exponents":      price("provider: primary, model: m, unit: input, price: '1', charge: '2e-6', currency: USD"),
		"price from a day on":      price("provider: primary, model: m, unit: input, price: '1', currency: USD, valid_from: '2026-12-01'"),
		"no currency":              price("provider: primary, model: m, unit: input, price: '1', currency: XXX"),
		"another currency":         price("provider: primary, model: m, unit: input, price: '1', currency: usd"),
		"lookup without ref":       withProvider("lookup: {url: 'https://p.example'}"),
		"no depth":                 "limits: {depth: 0}",
	} {
		t.Run(why, func(t *testing.T) {
			if err := schema.Validate(mustReadYAML(t, text)); err == nil {
				t.Error("the schema accepts it")
			}
			refusal(t, text)
		})
	}
}

// TestFullExampleUsesEveryMember keeps schema and parser together: a member of the
// schema that the parser does not know cannot be in the full file, which it accepts.
func TestFullExampleUsesEveryMember(t *testing.T) {
	t.Parallel()
	full := mustRead(t, "testdata", "full.yaml")
	for _, name := range propertyNames(mustReadYAML(t, mustRead(t, "schema.json"))) {
		if !strings.Contains(full, name+":") {
			t.Errorf("testdata/full.yaml does not use %s", name)
		}
	}
}

// propertyNames collects the members that a schema describes.
func propertyNames(schema any) (names []string) {
	switch s := schema.(type) {
	case []any:
		for _, item := range s {
			names = append(names, propertyNames(item)...)
		}
	case map[string]any:
		for keyword, value := range s {
			if properties, ok := value.(map[string]any); ok && keyword == "properties" {
				for name := range properties {
					names = append(names, name)
				}
			}
			names = append(names, propertyNames(value)...)
		}
	}
	return names
}
