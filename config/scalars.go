package config

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob"
)

// text is a text without references; see expanded.
func text(e element) (string, error) {
	s, err := rawText(e)
	if err == nil && strings.Contains(s, "${") {
		return "", e.errorf("holds ${: references are read in url, proxy and headers only, write the value itself")
	}
	return s, err
}

func rawText(e element) (string, error) { return e.Text() }

// oneOf is a text out of the given ones.
func oneOf(values ...string) func(element) (string, error) {
	return func(e element) (string, error) {
		s, err := text(e)
		if err == nil && !slices.Contains(values, s) {
			return "", e.errorf("is %s: use %s", quoted(s), strings.Join(values, " or "))
		}
		return s, err
	}
}

// checkName checks a name that requests use.
func (e element) checkName(name string) error {
	if name == "" || len(name) > 100 || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return e.file.errorf(e.Node.Line, "name %s cannot be used: give 1 to 100 bytes without white space", quoted(name))
	}
	return nil
}

// duration is a time in whole milliseconds from shortest to longest.
func duration(shortest, longest time.Duration) func(element) (time.Duration, error) {
	return func(e element) (time.Duration, error) { return e.Duration(shortest, longest) }
}

// whole is a whole number from least to most.
func whole(least, most int) func(element) (int, error) {
	return func(e element) (int, error) { return e.Whole(least, most) }
}

// rate is a number above zero.
func rate(e element) (r float64, err error) {
	node := e.resolved()
	if tag := node.ShortTag(); tag != "!!int" && tag != "!!float" || node.Decode(&r) != nil || !(r > 0 && r <= 1e6) {
		return 0, e.errorf("is %s: use a number above 0, up to 1000000", typeName(node))
	}
	return r, nil
}

// decimal is an exact decimal, read from its digits.
func decimal(e element) (onejob.Amount, error) { return e.Decimal() }

func currency(e element) (string, error) {
	if _, err := text(e); err != nil {
		return "", err
	}
	return e.Currency()
}

// instant is a moment as RFC 3339 writes it, in whole microseconds: what Postgres keeps.
func instant(e element) (time.Time, error) {
	node := e.resolved()
	t, err := time.Parse(time.RFC3339, node.Value)
	if node.Kind != yaml.ScalarNode || err != nil || t.Nanosecond()%1000 != 0 {
		return time.Time{}, e.errorf("is %s: write a time like 2026-12-01T00:00:00Z, with at most 6 digits behind the second", typeName(node))
	}
	return t.UTC(), nil
}

// status is an HTTP status that may be declared certain: an error that is an answer. A
// time-out, ours or a gateway's, says nothing about what happened behind it.
func status(e element) (int, error) {
	n, err := whole(400, 599)(e)
	if err == nil && slices.Contains(timeouts, n) {
		return 0, e.errorf("is %d, a time-out: it cannot be certain, remove it", n)
	}
	return n, err
}

// timeouts are the statuses by which servers and gateways report one, the last three
// of them outside RFC 9110.
var timeouts = []int{http.StatusRequestTimeout, http.StatusGatewayTimeout, 524, 598, 599}

var headerToken = regexp.MustCompile("^[!#$%&'*+.^_|~0-9A-Za-z`-]+$")

func headerName(e element) (string, error) {
	s, err := text(e)
	if err == nil && !headerToken.MatchString(s) {
		return "", e.errorf("is %s: use the name of an HTTP header", quoted(s))
	}
	return http.CanonicalHeaderKey(s), err
}

// address is an absolute URL of one of the schemes, with its references resolved.
func address(schemes ...string) func(element) (string, error) {
	return func(e element) (string, error) {
		raw, err := rawText(e)
		if err != nil {
			return "", err
		}
		resolved, err := expanded(e)
		if err != nil {
			return "", err
		}
		u, err := url.Parse(resolved)
		if err != nil || u.Host == "" || !slices.Contains(schemes, u.Scheme) {
			return "", e.errorf("is %s, not an absolute URL: write it like %s://host/path", quoted(raw), schemes[0])
		}
		if _, secret := u.User.Password(); secret && !strings.Contains(raw, "${") {
			return "", e.errorf("holds a password: write ${env:NAME} in its place and export the variable")
		}
		return resolved, nil
	}
}

// flag is true or false.
func flag(e element) (bool, error) { return e.Flag() }
