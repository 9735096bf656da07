package onejob

import (
	"bytes"
	"errors"
	"io"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// CheckJSON returns an [ErrInvalidRequest] unless text is one JSON value of RFC 8259
// with nothing behind it: valid UTF-8, no unpaired surrogate, nested at most maxDepth
// deep. A member may stand twice in an object: an answer that does so was paid for all
// the same. What names the value in the error's line.
func CheckJSON(what string, text []byte, maxDepth int) error {
	return checkTokens(what, text, maxDepth, jsontext.AllowDuplicateNames(true))
}

// CanonicalJSON returns the one spelling that all texts of the same JSON value
// share: members in byte order of their names, no white space, strings unescaped as
// far as JSON allows, numbers as exact decimals. It fails as [CheckJSON] does, and if a
// member stands twice.
func CanonicalJSON(what string, text []byte, maxDepth int) ([]byte, error) {
	if err := checkTokens(what, text, maxDepth); err != nil {
		return nil, err
	}
	canonical, err := appendCanonical(nil, jsontext.NewDecoder(bytes.NewReader(text)))
	if err != nil {
		return nil, jsonError(what, err)
	}
	return canonical, nil
}

// checkTokens reads text to its end, so that reading it again may recurse.
func checkTokens(what string, text []byte, maxDepth int, options ...jsontext.Options) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return Errorf(CodeInvalidRequest, "%s is empty: give a JSON value", what)
	}
	d := jsontext.NewDecoder(bytes.NewReader(text), options...)
	for first := true; first || d.StackDepth() > 0; first = false {
		if _, err := d.ReadToken(); err != nil {
			return jsonError(what, err)
		}
		if d.StackDepth() > maxDepth {
			return Errorf(CodeInvalidRequest, "%s is nested deeper than %d levels: flatten it", what, maxDepth)
		}
	}
	if _, err := d.ReadToken(); !errors.Is(err, io.EOF) {
		return Errorf(CodeInvalidRequest, "%s has something behind its JSON value at byte %d: send one value", what, d.InputOffset())
	}
	return nil
}

// mostSyntaxBytes bounds what a syntax error says: it quotes names of any length.
const mostSyntaxBytes = 200

func jsonError(what string, err error) error {
	if CodeOf(err) != "" {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return Errorf(CodeInvalidRequest, "%s is not JSON: it ends in the middle", what)
	}
	return Errorf(CodeInvalidRequest, "%s is not JSON: %s", what, Shorten(strings.TrimPrefix(err.Error(), "jsontext: "), mostSyntaxBytes))
}

func appendCanonical(dst []byte, d *jsontext.Decoder) ([]byte, error) {
	switch d.PeekKind() {
	case '{':
		return appendObject(dst, d)
	case '[':
		return appendArray(dst, d)
	}
	token, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch token.Kind() {
	case '0':
		return appendNumber(dst, token.String())
	case '"':
		return jsontext.AppendQuote(dst, token.String())
	}
	return append(dst, token.String()...), nil
}

func appendArray(dst []byte, d *jsontext.Decoder) (_ []byte, err error) {
	if _, err = d.ReadToken(); err != nil {
		return nil, err
	}
	dst = append(dst, '[')
	for d.PeekKind() != ']' {
		if dst, err = appendCanonical(dst, d); err != nil {
			return nil, err
		}
		dst = append(dst, ',')
	}
	_, err = d.ReadToken()
	return append(bytes.TrimSuffix(dst, []byte(",")), ']'), err
}

func appendObject(dst []byte, d *jsontext.Decoder) (_ []byte, err error) {
	if _, err = d.ReadToken(); err != nil {
		return nil, err
	}
	dst = append(dst, '{')
	var members []member
	for first := len(dst); d.PeekKind() != '}'; dst = append(dst, ',') {
		m := member{start: len(dst) - first}
		if dst, m.name, err = appendMember(dst, d); err != nil {
			return nil, err
		}
		m.end = len(dst) - first
		members = append(members, m)
	}
	if len(members) > 0 {
		dst = dst[:len(dst)-1]
		sortMembers(dst[len(dst)-members[len(members)-1].end:], members)
	}
	_, err = d.ReadToken()
	return append(dst, '}'), err
}

// member is where a member of an object stands among the object's members.
type member struct {
	name       string
	start, end int
}

func appendMember(dst []byte, d *jsontext.Decoder) (_ []byte, name string, err error) {
	token, err := d.ReadToken()
	if err != nil {
		return nil, "", err
	}
	name = token.String()
	if dst, err = jsontext.AppendQuote(dst, name); err != nil {
		return nil, "", err
	}
	dst, err = appendCanonical(append(dst, ':'), d)
	return dst, name, err
}

// sortMembers brings the members' text into the order of their names. Members that are
// in order already, as in most objects, are not copied.
func sortMembers(text []byte, members []member) {
	byName := func(a, b member) int { return strings.Compare(a.name, b.name) }
	if slices.IsSortedFunc(members, byName) {
		return
	}
	slices.SortFunc(members, byName)
	sorted := make([]byte, 0, len(text)+1)
	for _, m := range members {
		sorted = append(append(sorted, text[m.start:m.end]...), ',')
	}
	copy(text, sorted)
}

// appendNumber writes a number as [-]<digits>e<exponent>, the digits without zeros
// at either end, or as 0. Two numbers get the same text exactly if they are equal;
// nothing is rounded, whatever the length.
func appendNumber(dst []byte, number string) ([]byte, error) {
	digits, negative := strings.CutPrefix(number, "-")
	exponent := new(big.Int)
	if i := strings.IndexAny(digits, "eE"); i >= 0 {
		if len(digits)-i > maxExponentDigits {
			return nil, Errorf(CodeInvalidRequest, "the exponent of number %s is out of range: use at most %d digits", abbreviated(number), maxExponentDigits-2)
		}
		exponent.SetString(strings.TrimPrefix(digits[i+1:], "+"), 10)
		digits = digits[:i]
	}
	if whole, fraction, ok := strings.Cut(digits, "."); ok {
		digits = whole + fraction
		exponent.Sub(exponent, big.NewInt(int64(len(fraction))))
	}
	digits = strings.TrimLeft(digits, "0")
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return append(dst, '0'), nil
	}
	exponent.Add(exponent, big.NewInt(int64(len(digits)-len(significant))))
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, significant...), 'e')
	return exponent.Append(dst, 10), nil
}

// maxExponentDigits bounds an exponent with its letter and sign, so that nobody can
// make us compute with a number of a million digits.
const maxExponentDigits = 20
