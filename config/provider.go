package config

import "slices"

// readProviders reads the providers and remembers the line of each.
func (c *Config) readProviders(e element, lines map[string]int) error {
	return e.entries(func(name string, value element) error {
		if err := value.checkName(name); err != nil {
			return err
		}
		p, err := readProvider(name, value)
		if err != nil {
			return err
		}
		c.Providers = append(c.Providers, p)
		lines[name] = value.node.Line
		return nil
	})
}

func readProvider(name string, e element) (Provider, error) {
	p := Provider{Name: name, Headers: Headers{}, Timeout: DefaultTimeout, ListenFor: DefaultListenFor}
	if err := e.members(p.members()); err != nil {
		return p, err
	}
	return p, p.check(e)
}

// members are what every provider may have.
func (p *Provider) members() map[string]member {
	return map[string]member{
		"type":        set(&p.Type, adapterType),
		"url":         set(&p.URL, address("https", "http")),
		"model":       set(&p.Model, text),
		"headers":     set(&p.Headers, headers),
		"timeout":     set(&p.Timeout, duration(shortest, longestTimeout)),
		"listen_for":  set(&p.ListenFor, duration(shortest, longestListening)),
		"idempotency": set(&p.Idempotency, idempotency),
		"lookup":      set(&p.Lookup, lookup),
		"cancel":      set(&p.Cancel, cancel),
		"callback":    set(&p.Callback, callback),
		"limits":      set(&p.Limits, rateLimits),
		"unpriced":    func(e element) error { p.Unpriced = true; _, err := oneOf("allow")(e); return err },
		"certain":     func(e element) error { return readCertain(e, &p.Certain) },
		"proxy":       set(&p.Proxy, address("http", "https", "socks5")),
	}
}

// check looks at what members say together.
func (p Provider) check(e element) error {
	switch {
	case p.Type == "":
		return e.errorf("has no type: add type: http")
	case p.URL == "":
		return e.errorf("has no url: add it")
	case p.ListenFor < p.Timeout:
		return e.errorf("has listen_for %v, shorter than timeout %v: listening goes on after the timeout, make it at least as long", p.ListenFor, p.Timeout)
	}
	if p.Idempotency == nil {
		return nil
	}
	if _, taken := p.Headers[p.Idempotency.Header]; taken {
		return e.errorf("sets the idempotency header %s under headers too: remove it there", p.Idempotency.Header)
	}
	return nil
}

func adapterType(e element) (string, error) {
	s, err := text(e)
	if err == nil && slices.Contains([]string{"openai", "anthropic"}, s) {
		return "", e.errorf("is %s, which this version does not have: use http", quoted(s))
	}
	if err == nil && s != "http" {
		return "", e.errorf("is %s: use http", quoted(s))
	}
	return s, err
}
