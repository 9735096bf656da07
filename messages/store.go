package messages

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// Store keeps messages and claims. It fails with [onejob.ErrServerUnreachable] when the
// database does not answer, or had to roll back: the same call may be repeated.
type Store interface {
	// Subscribe makes the group hear the topics. It waits for writers of messages under way
	// if it is not subscribed yet, so that none is missed.
	Subscribe(ctx context.Context, group string, topics []string, from From) error

	// TakeBatch hands out due messages of the consumer's group and counts a try of each,
	// committed before it returns. One that was tried before is handed out alone.
	TakeBatch(ctx context.Context, c Consumer) (Taken, error)

	// ApplyBatch applies those messages that are not done, once, together with their claims.
	// If that fails each is tried in a transaction of its own while the lease lasts, and those
	// that fail then are put off, or are dead after their last try. The rest comes due.
	ApplyBatch(ctx context.Context, c Consumer, batch []Message) (Applied, error)

	// Listen calls wake at once for all groups, which is empty, and for each group that
	// messages were written for, until ctx ends or the connection fails. It returns
	// [ErrCannotListen] where no connection can hear of them.
	Listen(ctx context.Context, wake func(group string)) error
}

// ErrCannotListen says that something between here and the database keeps notifications
// away, such as a pooler that hands each transaction to another session.
var ErrCannotListen = errors.New("notifications cannot be heard")

// Backlog is how far behind a group is.
type Backlog struct {
	Group   string        `json:"group"`
	Topics  []string      `json:"topics"` // what it hears
	Pending int           `json:"pending"`
	Dead    int           `json:"dead"`
	Oldest  time.Duration `json:"-"` // the age of the oldest message that is pending; 0: none is
}

// DeadLetter is a message whose tries are used up, all in one group: others may have it done.
type DeadLetter struct {
	Group     string          `json:"group"`
	Key       string          `json:"key"`
	Owner     string          `json:"owner"`
	Topic     string          `json:"topic"`
	Tries     int             `json:"tries"`
	LastError string          `json:"last_error"`
	CreatedAt time.Time       `json:"created_at"` // of the message
	Payload   json.RawMessage `json:"payload"`
}
