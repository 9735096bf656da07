package config

import "maps"

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
		lines[name] = value.Node.Line
		return nil
	})
}

func readProvider(name string, e element) (Provider, error) {
	p := Provider{Name: name, Type: e.typeOf(), Headers: Headers{}, Timeout: DefaultTimeout, ListenFor: DefaultListenFor}
	members := p.members()
	switch p.Type {
	case openaiType, anthropicType:
		maps.Copy(members, p.vendorMembers())
	default:
		maps.Copy(members, p.httpMembers())
	}
	if err := e.members(members); err != nil {
		return p, err
	}
	return p, p.check(e)
}

// The types of providers.
const (
	httpType      = "http"
	openaiType    = "openai"
	anthropicType = "anthropic"
)

// typeOf returns the type that a provider says it is of, before its members are read:
// they depend on it.
func (e element) typeOf() (adapter string) {
	node := e.resolved()
	for i := 0; i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == "type" {
			adapter = e.Child(node.Content[i], node.Content[i+1]).Resolved().Value
		}
	}
	return adapter
}

// members are what every provider may have.
func (p *Provider) members() map[string]member {
	return map[string]member{
		"type":        set(&p.Type, oneOf(httpType, openaiType, anthropicType)),
		"url":         set(&p.URL, address("https", "http")),
		"model":       set(&p.Model, text),
		"headers":     set(&p.Headers, headers),
		"timeout":     set(&p.Timeout, duration(shortest, longestTimeout)),
		"listen_for":  set(&p.ListenFor, duration(shortest, longestListening)),
		"idempotency": set(&p.Idempotency, idempotency),
		"limits":      set(&p.Limits, rateLimits),
		"unpriced":    func(e element) error { p.Unpriced = true; _, err := oneOf("allow")(e); return err },
		"certain":     func(e element) error { return readCertain(e, &p.Certain) },
		"proxy":       set(&p.Proxy, address("http", "https", "socks5")),
	}
}

// httpMembers are what a provider of type http may have beside.
func (p *Provider) httpMembers() map[string]member {
	return map[string]member{
		"lookup":   set(&p.Lookup, lookup),
		"cancel":   set(&p.Cancel, cancel),
		"callback": set(&p.Callback, callback),
	}
}

// check looks at what members say together.
func (p Provider) check(e element) error {
	switch {
	case p.Type == "":
		return e.errorf("has no type: add type: http, openai or anthropic")
	case p.URL == "" && p.Type == httpType:
		return e.errorf("has no url: add it")
	case p.ListenFor < p.Timeout:
		return e.errorf("has listen_for %v, shorter than timeout %v: listening goes on after the timeout, make it at least as long", p.ListenFor, p.Timeout)
	}
	if _, taken := p.Headers[p.keyHeader()]; taken {
		return e.errorf("sets the idempotency header %s under headers too: remove it there", p.keyHeader())
	}
	if p.Type != httpType {
		return p.checkVendor(e)
	}
	return nil
}
