package config

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// String shows the names only.
func (h Headers) String() string {
	return strings.Join(slices.Sorted(maps.Keys(h)), ", ")
}

// GoString shows the names only.
func (h Headers) GoString() string { return fmt.Sprintf("config.Headers(%s)", h) }

var (
	reference     = regexp.MustCompile(`\$\{env:([A-Za-z_][A-Za-z0-9_]*)\}`)
	anyReference  = regexp.MustCompile(`\$\{[^}]*\}?`)
	credentialish = regexp.MustCompile(`(?i)authorization|cookie|token|secret|password|api-?key`)
)

// expanded is a text with every ${env:NAME} replaced by the variable.
func expanded(e element) (string, error) {
	raw, err := rawText(e)
	if err != nil {
		return "", err
	}
	resolved := anyReference.ReplaceAllStringFunc(raw, func(found string) string {
		value, problem := e.variable(found)
		if problem != nil && err == nil {
			err = problem
		}
		return value
	})
	return resolved, err
}

// variable returns the value of one reference. It is never part of an error.
func (e element) variable(found string) (string, error) {
	match := reference.FindStringSubmatch(found)
	if match == nil || match[0] != found {
		return "", e.errorf("holds %s, not a reference: write ${env:NAME}", quoted(found))
	}
	value, ok := e.file.lookupEnv(match[1])
	if !ok || value == "" {
		return "", e.errorf("needs the environment variable %s, which is not set: export it", match[1])
	}
	if strings.ContainsFunc(value, unicode.IsControl) {
		return "", e.errorf("needs the environment variable %s, which holds a control character: export it without, a line break at its end for instance", match[1])
	}
	return value, nil
}

// headers are the headers of a provider.
func headers(e element) (Headers, error) {
	all := Headers{}
	err := e.entries(func(name string, value element) error {
		canonical := http.CanonicalHeaderKey(name)
		if err := value.checkHeader(name, canonical); err != nil {
			return err
		}
		if _, twice := all[canonical]; twice {
			return value.errorf("stands twice, in another spelling: remove one")
		}
		resolved, err := expanded(value)
		all[canonical] = resolved
		return err
	})
	return all, err
}

// checkHeader refuses what a file may not set, and secrets in clear text.
func (e element) checkHeader(name, canonical string) error {
	if !headerToken.MatchString(name) {
		return e.errorf("is not the name of an HTTP header: correct it")
	}
	if slices.Contains(ownHeaders, canonical) || strings.HasPrefix(canonical, "Onejob-") {
		return e.errorf("is set by onejob itself: remove it")
	}
	raw, err := rawText(e)
	if err == nil && credentialish.MatchString(canonical) && !reference.MatchString(raw) {
		return e.errorf("holds a secret in clear text: write ${env:NAME} in its place and export the variable")
	}
	return err
}

// ownHeaders belong to the adapter or the transport.
var ownHeaders = []string{"Idempotency-Key", "X-Idempotency-Key", "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Te", "Trailer", "Upgrade", "Expect"}
