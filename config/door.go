package config

import (
	"net/netip"
	"slices"
	"strings"
)

// Door is how the HTTP door behaves.
type Door struct {
	PerSecond  float64 // requests of one token; 0: the door's default
	Burst      int     // of them at once; 0: the door's default
	Failures   Failures
	Proxies    []netip.Prefix // whose X-Forwarded-For is believed
	OIDC       *OIDC          // nil: onejob's own tokens only
	DeriveKeys bool           // a vendor's request without a key gets one from its content
	OpenAI     *VendorDoor
	Anthropic  *VendorDoor
}

// Failures is how often an address may ask without a valid token.
type Failures struct {
	PerSecond float64 // 0: the door's default
	Burst     int     // of them at once; 0: the door's default
}

// OIDC is an OpenID issuer whose tokens are believed.
type OIDC struct {
	Issuer     string
	Audience   string
	KeysURL    string // empty: by discovery
	OwnerClaim string // empty: sub
	RoleClaim  string // empty: everybody is a user
}

// VendorDoor says which job a request in a vendor's format is. A nil one: it is not taken.
type VendorDoor struct {
	Kind      string
	Provider  string
	Fallbacks []string
	Models    map[string]string // the provider of a model that has another one
}

// DefaultDoorBurst is how many requests a token has at once where only its rate is configured.
const DefaultDoorBurst = 100

func (c *Config) readDoor(e element) error {
	return e.members(map[string]member{
		"rate":        limit(&c.Door.PerSecond, &c.Door.Burst),
		"failures":    limit(&c.Door.Failures.PerSecond, &c.Door.Failures.Burst),
		"proxies":     networks(&c.Door.Proxies),
		"oidc":        set(&c.Door.OIDC, issuer),
		"derive_keys": set(&c.Door.DeriveKeys, flag),
		"openai":      set(&c.Door.OpenAI, vendorDoor),
		"anthropic":   set(&c.Door.Anthropic, vendorDoor),
	})
}

// limit reads a rate.
func limit(perSecond *float64, burst *int) member {
	return func(e element) error {
		return e.members(map[string]member{"per_second": set(perSecond, rate), "burst": set(burst, whole(1, 1_000_000))})
	}
}

// networks reads a list of addresses and networks.
func networks(into *[]netip.Prefix) member {
	return func(e element) error {
		return e.list(func(e element) error {
			s, err := text(e)
			if err != nil {
				return err
			}
			network, err := netip.ParsePrefix(s)
			if address, single := netip.ParseAddr(s); single == nil {
				network, err = address.Prefix(address.BitLen())
			}
			if err != nil {
				return e.errorf("is %s: use an address like 10.0.0.1 or a network like 10.0.0.0/8", quoted(s))
			}
			*into = append(*into, network.Masked())
			return nil
		})
	}
}

func issuer(e element) (*OIDC, error) {
	o := &OIDC{}
	if err := e.members(map[string]member{
		"issuer":      set(&o.Issuer, address("https", "http")),
		"audience":    set(&o.Audience, text),
		"jwks_url":    set(&o.KeysURL, address("https", "http")),
		"owner_claim": set(&o.OwnerClaim, text),
		"role_claim":  set(&o.RoleClaim, text),
	}); err != nil {
		return nil, err
	}
	if o.Issuer == "" || o.Audience == "" {
		return nil, e.errorf("lacks issuer or audience: a token is believed only for both")
	}
	return o, nil
}

func vendorDoor(e element) (*VendorDoor, error) {
	d := &VendorDoor{Models: map[string]string{}}
	if err := e.members(map[string]member{
		"kind":     set(&d.Kind, text),
		"provider": set(&d.Provider, text),
		"fallbacks": func(e element) error {
			return e.list(func(e element) error {
				name, err := text(e)
				d.Fallbacks = append(d.Fallbacks, name)
				return err
			})
		},
		"models": func(e element) error {
			return e.entries(func(model string, e element) (err error) {
				d.Models[model], err = text(e)
				return err
			})
		},
	}); err != nil {
		return nil, err
	}
	if d.Kind == "" || d.Provider == "" {
		return nil, e.errorf("lacks kind or provider: say which job such a request is")
	}
	return d, nil
}

// checkDoor refuses a vendor's door whose kind is not there, or whose providers do not answer in
// the vendor's format. The line is the door's.
func (c *Config) checkDoor(f *file, line int) error {
	for _, v := range []struct {
		name, api string
		door      *VendorDoor
	}{{"openai", "chat", c.Door.OpenAI}, {"anthropic", "messages", c.Door.Anthropic}} {
		if v.door == nil {
			continue
		}
		if kind, ok := c.Kinds[v.door.Kind]; !ok {
			return f.errorf(line, "door.%s has kind %s, which is not under kinds: add it", v.name, quoted(v.door.Kind))
		} else if kind.Contract != nil {
			return f.errorf(line, "door.%s has kind %s, whose contract writes the prompt: use a kind with contract: none, for callers write theirs", v.name, quoted(v.door.Kind))
		}
		names := slices.Concat([]string{v.door.Provider}, v.door.Fallbacks)
		for _, name := range v.door.Models {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			p, ok := c.provider(name)
			if !ok || p.Type != v.name || p.Vendor.API != v.api {
				return f.errorf(line, "door.%s uses provider %s, which has not type: %s and api: %s: use one of (%s)", v.name, quoted(name), v.name, v.api, c.providersOf(v.name, v.api))
			}
		}
	}
	return nil
}

func (c *Config) providersOf(vendor, api string) string {
	var names []string
	for _, p := range c.Providers {
		if p.Type == vendor && p.Vendor.API == api {
			names = append(names, p.Name)
		}
	}
	return strings.Join(names, ", ")
}
