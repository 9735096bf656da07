package verdict

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longestHint bounds a provider's Retry-After.
const longestHint = 24 * time.Hour

// RetryAfter returns the wait that the answer asks for (RFC 9110, 10.2.3): seconds or
// a date, 0 if there is none, it is past or not readable, at most 24 hours. A date is
// read against the answer's own Date, so that only one clock counts.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	text := strings.TrimSpace(header.Get("Retry-After"))
	if text != "" && strings.Trim(text, "0123456789") == "" {
		return inSeconds(text)
	}
	until, err := http.ParseTime(text)
	if err != nil {
		return 0
	}
	if sent, err := http.ParseTime(header.Get("Date")); err == nil {
		now = sent
	}
	return min(max(0, until.Sub(now)), longestHint)
}

func inSeconds(digits string) time.Duration {
	seconds, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || seconds > int64(longestHint/time.Second) {
		return longestHint // more digits than an integer has
	}
	return time.Duration(seconds) * time.Second
}
