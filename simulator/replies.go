package simulator

import (
	"crypto/sha256"
	"errors"
	"sync"
)

// Errors of a key that was seen before.
var (
	errInProgress = errors.New("a request with this key is being executed")
	errKeyReused  = errors.New("the key belongs to another request body")

	errTooManyReplies = errors.New("too many replies are kept: reset the simulator")
)

// replies keeps what was answered under each key.
type replies struct {
	mu    sync.Mutex
	byKey map[string]*kept
	bytes int // of the bodies kept
}

type kept struct {
	body  [sha256.Size]byte // of the request
	reply *reply            // nil: being executed
}

func newReplies() *replies { return &replies{byKey: map[string]*kept{}} }

// begin reserves the call's key, or returns the reply that it already has, or the error
// that stands against executing it.
func (r *replies) begin(c call) (*reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byKey[c.key]
	switch {
	case before == nil && r.bytes >= mostKeptBytes:
		return nil, errTooManyReplies
	case before == nil:
		r.byKey[c.key] = &kept{body: c.digest}
		return nil, nil
	case before.body != c.digest:
		return nil, errKeyReused
	case before.reply == nil:
		return nil, errInProgress
	}
	return before.reply, nil
}

// keep stores the reply of an executed call.
func (r *replies) keep(c call, answer reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey[c.key].reply = &answer
	r.bytes += len(answer.body)
}

// forget frees the key of a call that was not executed.
func (r *replies) forget(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.byKey[c.key]; before != nil && before.reply == nil {
		delete(r.byKey, c.key)
	}
}
