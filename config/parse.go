package config

import (
	"slices"
	"strings"
	"time"

	"github.com/onejob/onejob"
)

// The bounds of times; those of a provider are the bounds of a request's own.
const (
	shortest         = time.Millisecond
	longestTimeout   = 24 * time.Hour
	longestListening = 30 * 24 * time.Hour
	longestInterval  = 24 * time.Hour
	longestDrain     = time.Hour
)

// The bounds of a circuit.
const (
	mostFailures = 1_000_000
	longestOpen  = 10 * time.Minute
)

// The bounds of limits. The most levels are what the JSON reader can recurse into.
const (
	mostBytes = 1 << 30
	mostDepth = 5000
)

// Parse reads the text of a file. Name stands in front of every error; lookupEnv
// resolves references, as [os.LookupEnv] does. It returns an [onejob.ErrMisconfigured].
func Parse(name string, text []byte, lookupEnv func(string) (string, bool)) (*Config, error) {
	f := &file{name: name, lookupEnv: lookupEnv}
	top, err := f.document(text)
	if err != nil {
		return nil, err
	}
	c := &Config{Kinds: map[string]Kind{}, Worker: Worker{HeartbeatTimeout: DefaultHeartbeatTimeout, Drain: DefaultDrain}, Webhooks: Webhooks{Timeout: DefaultWebhookTimeout}}
	lines := map[string]int{}
	var prices []pricedElement
	doorLine := 0
	err = top.members(map[string]member{
		"providers": func(e element) error { return c.readProviders(e, lines) },
		"kinds":     c.readKinds,
		"prices":    set(&prices, readPrices),
		"worker":    c.readWorker,
		"limits":    c.readLimits,
		"webhooks":  c.readWebhooks,
		"door": func(e element) error {
			doorLine = e.Node.Line
			return c.readDoor(e)
		},
	})
	if err != nil {
		return nil, err
	}
	if err := c.takePrices(prices); err != nil {
		return nil, err
	}
	if err := c.checkPriced(f, lines); err != nil {
		return nil, err
	}
	if err := c.checkDoor(f, doorLine); err != nil {
		return nil, err
	}
	return c, nil
}

func (c *Config) readWorker(e element) error {
	return e.members(map[string]member{
		"heartbeat_timeout": set(&c.Worker.HeartbeatTimeout, duration(100*time.Millisecond, longestDrain)),
		"drain":             set(&c.Worker.Drain, duration(time.Millisecond, longestDrain)),
		"callback_url":      set(&c.Worker.CallbackURL, address("https", "http")),
		"circuit": func(e element) error {
			return e.members(map[string]member{
				"failures": set(&c.Worker.CircuitFailures, whole(1, mostFailures)),
				"open_for": set(&c.Worker.CircuitOpenFor, duration(100*time.Millisecond, longestOpen)),
			})
		},
	})
}

func (c *Config) readLimits(e element) error {
	return e.members(map[string]member{
		"input_bytes":  set(&c.Limits.InputBytes, whole(1, mostBytes)),
		"result_bytes": set(&c.Limits.ResultBytes, whole(1, mostBytes)),
		"depth":        set(&c.Limits.Depth, whole(1, mostDepth)),
	})
}

// checkPriced refuses a model without a price. The lines are those of the providers.
func (c *Config) checkPriced(f *file, lines map[string]int) error {
	for _, p := range c.Providers {
		priced := slices.ContainsFunc(c.Prices, func(q onejob.Price) bool { return q.Provider == p.Name })
		if p.Model != "" && !priced && !p.Unpriced {
			return f.errorf(lines[p.Name], "provider %s has model %s and no price: add one under prices or say unpriced: allow", quoted(p.Name), quoted(p.Model))
		}
	}
	return nil
}

func (c *Config) providerNames() string {
	var names []string
	for _, p := range c.Providers {
		names = append(names, p.Name)
	}
	if len(names) == 0 {
		return "(none)"
	}
	return strings.Join(names, ", ")
}
