package onejob

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Limits of identity, in bytes of UTF-8.
const (
	MaxOwnerBytes      = 200
	MaxKeyBytes        = 255
	maxWorkflowIDBytes = 512
)

// WorkflowID returns the one ID under which the workflow of the job (owner, key)
// runs: job/<owner>/<key>, both percent-encoded byte by byte outside the unreserved
// characters of RFC 3986, or, where that is longer than 512 bytes, job-sha256/ and
// the hex SHA-256 of the encoded pair. Two different pairs never share an ID.
func WorkflowID(owner, key string) string {
	pair := escape(owner) + "/" + escape(key)
	if id := "job/" + pair; len(id) <= maxWorkflowIDBytes {
		return id
	}
	sum := sha256.Sum256([]byte(pair))
	return "job-sha256/" + hex.EncodeToString(sum[:])
}

func escape(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if unreserved(c) {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
	}
	return b.String()
}

func unreserved(c byte) bool {
	return 'A' <= c && c <= 'Z' || 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

// CheckIdentity returns an [ErrInvalidRequest] if the pair cannot identify a job:
// each must be valid UTF-8 of 1 to [MaxOwnerBytes] or [MaxKeyBytes] bytes, without
// control characters, and without white space or zero-width space at either end; an owner
// must not begin with onejob:. Nothing is trimmed or normalised: keys compare as bytes.
func CheckIdentity(owner, key string) error {
	if err := CheckOwner(owner); err != nil {
		return err
	}
	return CheckName("key", key, MaxKeyBytes)
}

// reservedOwners is what the names of owners begin with that are the program's own, such as
// [CertificationOwner]. The database refuses them too.
const reservedOwners = "onejob:"

// CheckOwner returns an [ErrInvalidRequest] unless somebody may be called so: the rules of
// [CheckName] hold, and the name does not begin with onejob:, which is reserved.
func CheckOwner(owner string) error {
	if err := CheckName("owner", owner, MaxOwnerBytes); err != nil {
		return err
	}
	if strings.HasPrefix(owner, reservedOwners) {
		return Errorf(CodeInvalidRequest, "owner %s begins with %s, which is reserved: use another name", abbreviated(owner), reservedOwners)
	}
	return nil
}

// CheckName returns an [ErrInvalidRequest] unless s can name something: 1 to maxBytes
// bytes by the rules of [CheckIdentity]. Field names the value in the error's line.
func CheckName(field, s string, maxBytes int) error {
	invalid := func(problem, remedy string) error {
		return Errorf(CodeInvalidRequest, "%s %s %s: %s", field, abbreviated(s), problem, remedy)
	}
	switch {
	case s == "":
		return Errorf(CodeInvalidRequest, "%s is empty: give 1 to %d bytes of text", field, maxBytes)
	case len(s) > maxBytes:
		return invalid(fmt.Sprintf("has %d bytes", len(s)), fmt.Sprintf("use at most %d, a hash of the long form for instance", maxBytes))
	case !utf8.ValidString(s):
		return invalid("is not valid UTF-8", "encode it as UTF-8")
	case strings.ContainsFunc(s, unicode.IsControl):
		return invalid("holds a control character", "remove it")
	case strings.TrimFunc(s, isBlank) != s:
		return invalid("starts or ends with white space", "trim it")
	}
	return nil
}

// isBlank holds for Unicode White_Space and the zero-width spaces, which a person cannot
// see. The zero-width joiners are letters' company and may end a word.
func isBlank(r rune) bool { return r == '\u200B' || r == '\uFEFF' || unicode.IsSpace(r) }

// abbreviated quotes s for an error line, cut to a length that fits one.
func abbreviated(s string) string {
	const most = 60
	if len(s) <= most {
		return fmt.Sprintf("%q", s)
	}
	return fmt.Sprintf("%q…", beginning(s, most))
}

// Shorten cuts s, with an ellipsis, if it is longer than most bytes. It cuts between
// characters.
func Shorten(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return beginning(s, max(0, most-len("…"))) + "…"
}

// beginning returns at most the first most bytes of s, in whole characters.
func beginning(s string, most int) string {
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}
