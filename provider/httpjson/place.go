package httpjson

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onejob/onejob/provider"
)

// place is where a provider is asked about one call: a URL with names of the call in
// braces, {ref}, {key}, {job} and {attempt}.
type place string

var named = regexp.MustCompile(`\{(\w*)\}`)

var placeNames = []string{"ref", "key", "job", "attempt"}

// check refuses a place that is none, or the same one for every call.
func (p place) check(what string) error {
	names := named.FindAllStringSubmatch(string(p), -1)
	for _, match := range names {
		if !slices.Contains(placeNames, match[1]) {
			return fmt.Errorf("its %s url holds {%s}: use {ref}, {key}, {job} or {attempt}", what, match[1])
		}
	}
	u, err := url.Parse(string(p))
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("its %s url is not one: write it as https://host/path/{ref}", what)
	case strings.ContainsAny(u.Host, "{}"):
		return fmt.Errorf("its %s url has a name in its host: put it behind", what)
	case u.User != nil:
		return fmt.Errorf("its %s url holds a user: leave it out, the headers are sent there too", what)
	case len(names) == 0:
		return fmt.Errorf("its %s url is the same for every call: write {ref}, {key} or {job} where the call's name belongs", what)
	}
	return nil
}

// of returns the URL for the call in question, false if it lacks a name.
func (p place) of(q provider.Question) (string, bool) {
	path, query, hasQuery := strings.Cut(string(p), "?")
	filled, whole := fill(path, q, pathSegment)
	if hasQuery {
		var filledQuery string
		var wholeQuery bool
		filledQuery, wholeQuery = fill(query, q, url.QueryEscape)
		filled, whole = filled+"?"+filledQuery, whole && wholeQuery
	}
	return filled, whole
}

func fill(text string, q provider.Question, escape func(string) string) (filled string, whole bool) {
	values := map[string]string{"{ref}": q.Reference, "{key}": q.IdempotencyKey, "{job}": q.JobID, "{attempt}": strconv.Itoa(q.Attempt)}
	whole = true
	filled = named.ReplaceAllStringFunc(text, func(name string) string {
		whole = whole && values[name] != ""
		return escape(values[name])
	})
	return filled, whole
}

// pathSegment escapes a value so that it stays one segment: a reference must not walk to
// another place.
func pathSegment(value string) string {
	if strings.Trim(value, ".") == "" {
		return strings.ReplaceAll(value, ".", "%2E")
	}
	return url.PathEscape(value)
}

// location returns the URL of a reference that is one, such as a Location: at another
// origin than the calls it is not asked, because the credentials are for this one.
func (a *Adapter) location(reference string) (at *url.URL, isOne bool) {
	if !strings.HasPrefix(reference, "/") && !strings.Contains(reference, "://") {
		return nil, false
	}
	at, err := a.line.URL.Parse(reference)
	if err != nil || at.Scheme != a.line.URL.Scheme || at.Host != a.line.URL.Host || at.User != nil {
		return nil, true
	}
	return at, true
}
