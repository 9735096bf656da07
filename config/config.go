// Package config reads onejob.yaml: the providers, the kinds of job, the prices, the
// limits and how the worker and the HTTP door behave.
//
// It promises that what it returns can be used as it stands: every member is known,
// of its type and within its bounds, and every reference to the environment is
// resolved. Everything else is one [onejob.ErrMisconfigured] that names the file, the
// line, the value and the remedy. It is the authority on the format of the file;
// schema.json describes the same format to editors.
//
// Secrets stand in the environment, never in the file: ${env:NAME} in a header or a
// URL is replaced by the variable.
//
// It imports the domain, contract, provider and its adapters, internal/yamlfile, and
// nothing else of this module.
package config

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/provider"
)

// Config is what a file says.
type Config struct {
	Providers []Provider // in the order of the file
	Kinds     map[string]Kind
	Prices    []onejob.Price
	Limits    onejob.Limits // zero: the default, see [onejob.Limits.OrDefault]
	Worker    Worker
	Webhooks  Webhooks
	Door      Door
}

// Kind is a kind of job.
type Kind struct {
	SideEffects bool               // an attempt changes something outside
	Contract    *contract.Contract // nil: none
	Hold        bool               // with no certified provider left a job waits; false: it fails
	Suspend     onejob.Suspension  // zero: the default
}

// Worker is how a worker behaves.
type Worker struct {
	HeartbeatTimeout time.Duration // silence of this length means that a worker is dead
	Drain            time.Duration // what calls in flight get to end in when the worker stops
	CircuitFailures  int           // calls in a row that were not served, after which a provider is not called for a while; 0: the worker's default
	CircuitOpenFor   time.Duration // that while, at first; 0: the worker's default
	CallbackURL      string        // base URL at which providers reach the worker; empty: they do not
}

// The defaults of times that the file leaves out.
const (
	DefaultTimeout          = 10 * time.Second
	DefaultListenFor        = 10 * time.Minute
	DefaultHeartbeatTimeout = 30 * time.Second
	DefaultDrain            = 30 * time.Second
)

// Path returns where the configuration is: ONEJOB_CONFIG, or onejob.yaml in the
// working directory.
func Path() string {
	if path := os.Getenv("ONEJOB_CONFIG"); path != "" {
		return path
	}
	return "onejob.yaml"
}

// Load reads the file at path, with references to the process's environment. It
// returns an [onejob.ErrMisconfigured].
func Load(path string) (*Config, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "%s does not exist: write it (examples/onejob.yaml is a start) or name another file in ONEJOB_CONFIG", path)
	}
	if err != nil {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "cannot read the configuration: %w", err)
	}
	return Parse(path, text, os.LookupEnv)
}

// Catalog returns what the configuration offers to requests.
func (c *Config) Catalog() onejob.Catalog {
	catalog := onejob.Catalog{Kinds: map[string]onejob.Kind{}, Providers: map[string]onejob.ProviderDefaults{}, Limits: c.Limits}
	for name, kind := range c.Kinds {
		offered := onejob.Kind{SideEffects: kind.SideEffects, Hold: kind.Hold, Suspend: kind.Suspend}
		if kind.Contract != nil {
			offered.Contract = kind.Contract.Known()
		}
		catalog.Kinds[name] = offered
	}
	for _, p := range c.Providers {
		catalog.Providers[p.Name] = onejob.ProviderDefaults{Timeout: p.Timeout, ListenFor: p.ListenFor, Model: p.Model, Limited: p.Limits != provider.Limits{}, Adapter: p.adapterVersion()}
	}
	return catalog
}

// Contracts returns the contracts of the kinds that have one, by kind.
func (c *Config) Contracts() map[string]*contract.Contract {
	contracts := map[string]*contract.Contract{}
	for name, kind := range c.Kinds {
		if kind.Contract != nil {
			contracts[name] = kind.Contract
		}
	}
	return contracts
}

func (c *Config) provider(name string) (Provider, bool) {
	i := slices.IndexFunc(c.Providers, func(p Provider) bool { return p.Name == name })
	if i < 0 {
		return Provider{}, false
	}
	return c.Providers[i], true
}
