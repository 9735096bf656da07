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

// Applied counts what became of a batch.
type Applied struct {
	Done       int // applied, and claimed as done in the same transaction
	Duplicates int // had been done before; nothing was applied
	Failed     int // their try failed; it stays counted
	Dead       int // of those that failed: it was their last try
}

// Add adds another batch's counts.
func (a *Applied) Add(b Applied) {
	a.Done += b.Done
	a.Duplicates += b.Duplicates
	a.Failed += b.Failed
	a.Dead += b.Dead
}
