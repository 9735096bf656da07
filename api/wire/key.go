package wire

import (
	"fmt"
	"strings"

	"github.com/dunglas/httpsfv"

	"github.com/onejob/onejob"
)

// KeyHeader is the header that names an intention.
const KeyHeader = "Idempotency-Key"

// KeyError says what is wrong with the header, in one line.
type KeyError struct {
	Missing bool // it is not there
	Line    string
}

func (e *KeyError) Error() string { return e.Line }

func badKey(format string, args ...any) error {
	return &KeyError{Line: fmt.Sprintf(format, args...)}
}

// Key returns the key that the values of the header name, or a [KeyError]. The draft of the IETF
// (draft-ietf-httpapi-idempotency-key-header-07) wants a String of RFC 9651, in quotes; what clients
// send is mostly bare. Both are the same key. A header that stands twice is refused even where both
// are equal: a proxy that adds its own would otherwise decide which intention it is.
func Key(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", &KeyError{true, "send the header " + KeyHeader + " with a key of your own for this one intention, a UUID for instance, and the same key with every retry"}
	case len(values) > 1:
		return "", badKey("%s stands %d times: send one", KeyHeader, len(values))
	}
	key, err := readKey(strings.Trim(values[0], " \t"))
	if err != nil {
		return "", err
	}
	if err := onejob.CheckName("key", key, onejob.MaxKeyBytes); err != nil {
		return "", badKey("%s", err)
	}
	return key, nil
}

// readKey reads a key as a String or bare.
func readKey(value string) (string, error) {
	if !strings.HasPrefix(value, `"`) {
		if strings.ContainsAny(value, `,"`) {
			return "", badKey("%s has a comma or a quote in a bare key: send one key, in quotes if it holds a comma", KeyHeader)
		}
		return value, nil
	}
	item, err := httpsfv.UnmarshalItem([]string{value})
	if err != nil {
		return "", badKey("%s is no string of RFC 9651: put one key in double quotes, with \\ before \" and \\, and only printable ASCII", KeyHeader)
	}
	key, ok := item.Value.(string)
	if !ok {
		return "", badKey("%s is no string: put the key in double quotes or send it bare", KeyHeader)
	}
	return key, nil
}
