package config

import (
	"slices"
	"strings"
	"time"
)

// readProviders reads the providers and remembers the line of each.
func (c *Config) readProviders(e element, lines map[string]int) error {
	return e.entries(func(name string, value element) error {
		if err := value.checkName(name); err != nil {
			return err
		}
		p, err := readHTTP(name, value)
		if err != nil {
			return err
		}
		c.HTTP = append(c.HTTP, p)
		lines[name] = value.node.Line
		return nil
	})
}

func readHTTP(name string, e element) (HTTPProvider, error) {
	p := HTTPProvider{Name: name, Headers: Headers{}, Timeout: DefaultTimeout, ListenFor: DefaultListenFor}
	var adapter string
	err := e.members(map[string]member{
		"type":        set(&adapter, adapterType),
		"url":         set(&p.URL, address("https", "http")),
		"model":       set(&p.Model, text),
		"headers":     set(&p.Headers, headers),
		"timeout":     set(&p.Timeout, duration(shortest, longestTimeout)),
		"listen_for":  set(&p.ListenFor, duration(shortest, longestListening)),
		"idempotency": set(&p.Idempotency, idempotency),
		"lookup":      set(&p.Lookup, lookup),
		"limits":      set(&p.Limits, rateLimits),
		"unpriced":    func(e element) error { p.Unpriced = true; _, err := oneOf("allow")(e); return err },
		"certain":     p.readCertain,
		"proxy":       set(&p.Proxy, address("http", "https", "socks5")),
	})
	if err != nil {
		return p, err
	}
	return p, p.check(e, adapter)
}

// check looks at what members say together.
func (p HTTPProvider) check(e element, adapter string) error {
	switch {
	case adapter == "":
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

func idempotency(e element) (*Idempotency, error) {
	var i Idempotency
	err := e.members(map[string]member{
		"header": set(&i.Header, headerName),
		"window": set(&i.Window, duration(time.Second, longestListening)),
	})
	if err == nil && i.Header == "" {
		err = e.errorf("has no header: add header: Idempotency-Key, or what the provider calls it")
	}
	return &i, err
}

func lookup(e element) (*Lookup, error) {
	l := Lookup{Interval: time.Second, MaxInterval: time.Minute}
	err := e.members(map[string]member{
		"url":          set(&l.URL, address("https", "http")),
		"interval":     set(&l.Interval, duration(10*time.Millisecond, longestInterval)),
		"max_interval": set(&l.MaxInterval, duration(10*time.Millisecond, longestInterval)),
	})
	switch {
	case err != nil:
		return nil, err
	case !strings.Contains(l.URL, "{ref}"):
		return nil, e.errorf("has no url with {ref}: write it like https://host/runs/{ref}")
	case l.MaxInterval < l.Interval:
		return nil, e.errorf("has max_interval %v, shorter than interval %v: make it at least as long", l.MaxInterval, l.Interval)
	}
	e.unused()
	return &l, nil
}

func rateLimits(e element) (RateLimits, error) {
	var l RateLimits
	err := e.members(map[string]member{
		"concurrent": set(&l.Concurrent, whole(1, 100_000)),
		"per_second": set(&l.PerSecond, rate),
	})
	if err == nil {
		e.unused()
	}
	return l, err
}

// readCertain reads which statuses of the provider are certain: to have had no effect,
// or to be a refusal that may be tried again.
func (p *HTTPProvider) readCertain(e element) error {
	return e.members(map[string]member{
		"no_effect": func(e element) error { return p.readStatuses(e, &p.NoEffect) },
		"refused":   func(e element) error { return p.readStatuses(e, &p.Refused) },
	})
}

func (p *HTTPProvider) readStatuses(e element, into *[]int) error {
	return e.list(func(item element) error {
		n, err := status(item)
		if err != nil {
			return err
		}
		if slices.Contains(p.NoEffect, n) || slices.Contains(p.Refused, n) {
			return item.errorf("declares status %d a second time: name it once", n)
		}
		*into = append(*into, n)
		return nil
	})
}
