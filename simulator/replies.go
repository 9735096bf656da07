package simulator

import (
	"crypto/sha256"
	"errors"
	"slices"
	"sync"
)

// Errors of a key that was seen before.
var (
	errInProgress = errors.New("a request with this key is being executed")
	errKeyReused  = errors.New("the key belongs to another request body")

	errTooManyReplies = errors.New("too many replies are kept: reset the simulator")
)

// replies keeps what was answered under each key, of all keys or of the newest.
type replies struct {
	most int // keys; 0: no bound but that on bytes

	mu    sync.Mutex
	byKey map[scopedKey]*kept
	order []scopedKey // of the replies kept, the oldest first
	bytes int         // of the bodies kept
}

// scopedKey is a key of one provider: another one does not know it.
type scopedKey struct{ provider, key string }

type kept struct {
	body  [sha256.Size]byte // of the request
	reply *reply            // nil: being executed
}

func newReplies(most int) *replies { return &replies{most: most, byKey: map[scopedKey]*kept{}} }

func (c call) scopedKey() scopedKey { return scopedKey{c.provider, c.key} }

// begin reserves the call's key, or returns the reply that it already has, or the error
// that stands against executing it.
func (r *replies) begin(c call) (*reply, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.byKey[c.scopedKey()]
	switch {
	case before == nil && r.bytes >= mostKeptBytes:
		return nil, errTooManyReplies
	case before == nil:
		r.byKey[c.scopedKey()] = &kept{body: c.digest}
		return nil, nil
	case before.body != c.digest:
		return nil, errKeyReused
	case before.reply == nil:
		return nil, errInProgress
	}
	return before.reply, nil
}

// keep stores the reply of a call that was executed or accepted, and forgets the oldest
// beyond the most.
func (r *replies) keep(c call, answer reply) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.byKey[c.scopedKey()].reply = &answer
	r.bytes += len(answer.body)
	if r.order = append(r.order, c.scopedKey()); r.most > 0 && len(r.order) > r.most {
		r.drop(0)
	}
}

// free frees the key of a call that was not executed.
func (r *replies) free(c call) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if before := r.byKey[c.scopedKey()]; before != nil && before.reply == nil {
		delete(r.byKey, c.scopedKey())
	}
}

// forget forgets the replies kept under the key (empty: under every key), and returns
// how many there were.
func (r *replies) forget(key string) (count int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for n := len(r.order) - 1; n >= 0; n-- {
		if key == "" || r.order[n].key == key {
			r.drop(n)
			count++
		}
	}
	return count
}

// drop forgets the n-th reply. The caller holds the lock.
func (r *replies) drop(n int) {
	scoped := r.order[n]
	r.bytes -= len(r.byKey[scoped].reply.body)
	delete(r.byKey, scoped)
	r.order = slices.Delete(r.order, n, n+1)
}
