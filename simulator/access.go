package simulator

import (
	"errors"
	"net/http"
	"strings"
)

var (
	errBadKey       = errors.New("incorrect API key provided: " + badKey)
	errUnknownModel = errors.New("the model does not exist, or you have no access to it")
)

// badKey is the API key that every provider refuses.
const badKey = "bad"

func hasBadKey(r *http.Request) bool {
	return r.Header.Get("Authorization") == "Bearer "+badKey || r.Header.Get("X-Api-Key") == badKey
}

// unknownModel says whether a model is one of those that no provider has: all others
// are known to every one.
func unknownModel(id string) bool { return strings.HasPrefix(id, "unknown") }

// authorised refuses requests with the bad key in the words of the format.
func authorised(f format, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if hasBadKey(r) {
			refuse(w, f, http.StatusUnauthorized, errBadKey)
			return
		}
		next(w, r)
	}
}
