package verdict

import (
	"strings"
	"unicode/utf8"

	"github.com/onejob/onejob/provider"
)

// FirstReference returns the first of the names that can be one for a call, "" if none
// can: one word of valid UTF-8, at most 2 KiB.
func FirstReference(names ...string) string {
	for _, name := range names {
		if name != "" && len(name) <= provider.MaxReferenceBytes && utf8.ValidString(name) && oneWord(name) {
			return name
		}
	}
	return ""
}

func oneWord(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f })
}
