package config

import (
	"encoding/base64"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onejob/onejob/provider"
)

// The defaults of the ways out of unknown.
const (
	defaultReAsks      = 3
	defaultInterval    = time.Second
	defaultMaxInterval = time.Minute
)

const mostReAsks = 100

func idempotency(e element) (*Idempotency, error) {
	i := Idempotency{ReAsks: defaultReAsks}
	err := e.members(map[string]member{
		"header": set(&i.Header, headerName),
		"window": set(&i.Window, duration(time.Second, longestListening)),
		"reasks": set(&i.ReAsks, whole(0, mostReAsks)),
	})
	if err == nil && i.Header == "" {
		err = e.errorf("has no header: add header: Idempotency-Key, or what the provider calls it")
	}
	return &i, err
}

func lookup(e element) (*Lookup, error) {
	l := Lookup{Interval: defaultInterval, MaxInterval: defaultMaxInterval}
	members := l.paceMembers()
	members["url"] = set(&l.URL, placeOfCall)
	members["states"] = set(&l.States, states)
	members["result"] = set(&l.Result, text)
	err := e.members(members)
	if err == nil && l.URL == "" {
		err = e.errorf("has no url with {ref}: write it like https://host/runs/{ref}")
	}
	return l.checked(e, err)
}

// vendorLookup is the look-up of a vendor's API, which knows its own URLs.
func vendorLookup(e element) (*Lookup, error) {
	l := Lookup{Interval: defaultInterval, MaxInterval: defaultMaxInterval}
	return l.checked(e, e.members(l.paceMembers()))
}

func (l *Lookup) paceMembers() map[string]member {
	return map[string]member{
		"interval":        set(&l.Interval, duration(10*time.Millisecond, longestInterval)),
		"max_interval":    set(&l.MaxInterval, duration(10*time.Millisecond, longestInterval)),
		"not_found_after": set(&l.NotFoundAfter, duration(time.Second, longestListening)),
	}
}

func (l *Lookup) checked(e element, err error) (*Lookup, error) {
	if err == nil && l.MaxInterval < l.Interval {
		err = e.errorf("has max_interval %v, shorter than interval %v: make it at least as long", l.MaxInterval, l.Interval)
	}
	return l, err
}

// states say what the provider's words for the state of a call mean.
func states(e element) (map[string]string, error) {
	all := map[string]string{}
	err := e.entries(func(word string, value element) (err error) {
		all[word], err = oneOf("queued", "running", "succeeded", "failed", "cancelled")(value)
		return err
	})
	return all, err
}

func cancel(e element) (*Cancel, error) {
	c := Cancel{Method: http.MethodPost}
	err := e.members(map[string]member{
		"url":    set(&c.URL, placeOfCall),
		"method": set(&c.Method, oneOf(http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete)),
	})
	if err == nil && c.URL == "" {
		err = e.errorf("has no url with {ref}: write it like https://host/runs/{ref}/cancel")
	}
	return &c, err
}

// callback says how a provider signs what it calls back with.
func callback(e element) (*Callback, error) {
	var c Callback
	err := e.members(map[string]member{
		"secret": set(&c.Secrets, signingSecrets),
	})
	if err == nil && len(c.Secrets) == 0 {
		err = e.errorf("has no secret: add secret: ${env:NAME}")
	}
	return &c, err
}

// checkSigning refuses secrets in clear text, and those that are none of Standard Webhooks.
func (e element) checkSigning(secrets string) error {
	raw, err := rawText(e)
	if err != nil {
		return err
	}
	if !anyReference.MatchString(raw) {
		return e.errorf("holds a secret in clear text: write ${env:NAME} in its place and export the variable")
	}
	for _, secret := range strings.Fields(secrets) {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || !strings.HasPrefix(secret, "whsec_") || len(key) < leastKeyBytes {
			return e.errorf("is no secret of Standard Webhooks: it is whsec_ and at least %d bytes in base64", leastKeyBytes)
		}
	}
	return nil
}

// leastKeyBytes is what Standard Webhooks asks of a key.
const leastKeyBytes = 24

var callName = regexp.MustCompile(`\{\w*\}`)

// callNames stand for names of a call in a URL, for the provider's, our key, our job and
// our attempt.
var callNames = map[string]bool{"{ref}": true, "{key}": true, "{job}": true, "{attempt}": true}

// placeOfCall is a URL with the name of a call in it.
func placeOfCall(e element) (string, error) {
	s, err := address("https", "http")(e)
	if err != nil {
		return "", err
	}
	host, _, _ := strings.Cut(s[strings.Index(s, "://")+3:], "/")
	names := callName.FindAllString(s, -1)
	unknown := slices.IndexFunc(names, func(name string) bool { return !callNames[name] })
	switch {
	case strings.ContainsAny(host, "{@"):
		return "", e.errorf("has a user or a call's name in its host: the headers are sent there too, and {ref} belongs behind the host")
	case unknown >= 0:
		return "", e.errorf("holds %s: use %s", quoted(names[unknown]), strings.Join(slices.Sorted(maps.Keys(callNames)), ", "))
	case unknown >= 0:
		return "", e.errorf("holds %s: use %s", quoted(names[unknown]), strings.Join(slices.Sorted(maps.Keys(callNames)), ", "))
	case !slices.Contains(names, "{ref}") && !slices.Contains(names, "{key}") && !(slices.Contains(names, "{job}") && slices.Contains(names, "{attempt}")):
		return "", e.errorf("is the same for several calls: write {ref}, {key}, or {job} and {attempt}, where the call's name belongs")
	}
	return s, nil
}

func rateLimits(e element) (provider.Limits, error) {
	var l provider.Limits
	err := e.members(map[string]member{
		"concurrent": set(&l.Concurrent, whole(1, 100_000)),
		"per_second": set(&l.PerSecond, rate),
	})
	return l, err
}
