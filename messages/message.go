package messages

import (
	"encoding/json"
	"time"
)

// Message says that something happened.
type Message struct {
	Key       string          // unique; derives from the id of what made it
	Owner     string          // whom it is about
	Topic     string          // the key begins with it
	Payload   json.RawMessage // exactly as it was written
	CreatedAt time.Time       // by the database's clock
	Tries     int             // of the group that takes it, this one included
}

// Taken is what a group was handed.
type Taken struct {
	Batch []Message // to apply, in the order of their keys
	Dead  []string  // keys of messages whose last try never ended
}

// Applied counts what became of a batch.
type Applied struct {
	Done       int    // applied, and marked so in the same transaction
	Duplicates int    // had been done before; nothing was applied
	Failed     int    // their try failed; it stays counted
	Dead       int    // of those that failed: it was their last try
	Reason     string // why one of them failed
}

// Add adds another batch's counts.
func (a *Applied) Add(b Applied) {
	a.Done += b.Done
	a.Duplicates += b.Duplicates
	a.Failed += b.Failed
	a.Dead += b.Dead
	if b.Reason != "" {
		a.Reason = b.Reason
	}
}
