package provider

import (
	"cmp"
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/onejob/onejob"
)

// Bounds of a detail, in bytes. What is read of a text is bounded as well, so that an
// answer of many megabytes costs no more than a short one.
const (
	mostDetail     = 4 << 10
	mostDetailRead = 64 << 10
	leastSecret    = 4 // shorter values hide nothing and would blank out prose
)

const mask = "***"

// Secrets are the values that a detail must not show. The zero value knows none and
// still masks what looks like a credential.
type Secrets struct{ known *strings.Replacer }

// NewSecrets returns the secrets in the values: each value, its parts between white
// space, what a Basic credential encodes, all also as they read in a URL. Values
// shorter than 4 bytes are left alone.
func NewSecrets(values ...string) Secrets {
	var spellings []string
	for _, value := range values {
		for _, part := range append(strings.Fields(value), value) {
			spellings = append(spellings, part, url.QueryEscape(part), url.PathEscape(part))
			spellings = append(spellings, decoded(part)...)
		}
	}
	spellings = slices.DeleteFunc(spellings, func(s string) bool { return len(s) < leastSecret || s == "Bearer" || s == "Basic" })
	slices.SortStableFunc(spellings, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	var pairs []string
	for _, s := range spellings {
		pairs = append(pairs, s, mask)
	}
	return Secrets{known: strings.NewReplacer(pairs...)}
}

// decoded returns the user and the password that a Basic credential encodes.
func decoded(part string) []string {
	text, err := base64.StdEncoding.DecodeString(part)
	if err != nil || !utf8.Valid(text) {
		return nil
	}
	user, password, ok := strings.Cut(string(text), ":")
	if !ok {
		return nil
	}
	return []string{string(text), user, password}
}

// Clean returns text as a detail: one line of valid UTF-8, at most 4 KiB, with the
// secrets masked, and so whatever looks like a credential, user and query of a URL
// among it.
func (s Secrets) Clean(text string) string {
	line := oneLine(text[:min(len(text), mostDetailRead)])
	if s.known != nil {
		line = s.known.Replace(line)
	}
	line = urls.ReplaceAllStringFunc(line, bareURL)
	line = credentials.ReplaceAllString(line, "${1} "+mask)
	line = named.ReplaceAllString(line, "${1}${2}"+mask)
	line = tokens.ReplaceAllString(line, mask)
	return onejob.Shorten(line, mostDetail)
}

var (
	urls        = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	credentials = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[\w.~+/=-]{4,}`)
	named       = regexp.MustCompile(`(?i)\b([\w-]*(?:api[_-]?key|secret|password|passwd|authorization|signature|credential|token))\b(["']?\s*[:=]\s*["']?)[^\s"'&,;]+`)
	tokens      = regexp.MustCompile(`\b(?:(?:sk|pk|rk|ghp|xox[abp])[-_][\w-]{8,}|eyJ[\w-]{8,}\.[\w-]+\.[\w-]*)`)
)

// bareURL drops the user and the query of a URL, as far as it can be read as one.
func bareURL(text string) string {
	scheme, rest, _ := strings.Cut(text, "://")
	rest, query, hasQuery := strings.Cut(rest, "?")
	end := strings.IndexAny(rest+"/", "/#")
	host := rest[:end]
	if at := strings.LastIndex(host, "@"); at >= 0 {
		host = host[at+1:]
	}
	bare := scheme + "://" + host + rest[end:]
	if hasQuery && query != "" {
		bare += "?" + mask
	}
	return bare
}

func oneLine(text string) string {
	printable := func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Zl, r) || unicode.Is(unicode.Zp, r) {
			return ' '
		}
		return r
	}
	return strings.Join(strings.Fields(strings.Map(printable, strings.ToValidUTF8(text, "\uFFFD"))), " ")
}
