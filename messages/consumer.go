package messages

import (
	"cmp"
	"context"
	"time"

	"github.com/onejob/onejob"
)

// From says which messages a new consumer hears first.
type From int

const (
	FromBeginning From = iota // all that are kept
	FromNow                   // those that are written from now on
)

// maxNameBytes bounds groups and topics, as the tables do.
const maxNameBytes = 100

// Consumer reacts to messages. Its group is its name for ever: claims are kept under it.
// Group and topics are 1 to 100 bytes by the rules of [onejob.CheckName].
type Consumer struct {
	Group  string
	Topics []string // what it hears; a topic that is left out later stays subscribed
	From   From     // counts for a topic when it is heard first

	Batch    int           // default 500; messages in one transaction
	MaxTries int           // default 10; then the message is dead
	Lease    time.Duration // default 1 min; what a batch may take, and when a try that never ended is made again
	Loops    int           // default 1; batches at once in one worker

	// Backoff returns the wait after so many failed tries; default [Backoff].
	Backoff func(tries int) time.Duration

	// Lock, where given, takes what must be locked before the batch's claims are.
	Lock func(ctx context.Context, tx Tx, batch []Message) error

	// Apply makes the batch's effect, within the transaction and nowhere else: what is done
	// outside of it is done again after a failure. The batch is in the order of its keys. If
	// it fails or panics nothing of it is kept, and its messages are applied one by one.
	Apply func(ctx context.Context, tx Tx, batch []Message) error
}

// OrDefault returns the consumer with every choice made.
func (c Consumer) OrDefault() Consumer {
	c.Batch = cmp.Or(c.Batch, 500)
	c.MaxTries = cmp.Or(c.MaxTries, 10)
	c.Lease = cmp.Or(c.Lease, time.Minute)
	c.Loops = cmp.Or(c.Loops, 1)
	if c.Backoff == nil {
		c.Backoff = Backoff
	}
	return c
}

// Check says what the consumer lacks.
func (c Consumer) Check() error {
	switch {
	case c.Group == "":
		return onejob.Errorf(onejob.CodeMisconfigured, "a consumer of %v has no group: name it, and keep the name", c.Topics)
	case len(c.Topics) == 0:
		return onejob.Errorf(onejob.CodeMisconfigured, "consumer %s hears no topic: name those that its messages have", c.Group)
	case c.checkNames() != nil:
		return onejob.Errorf(onejob.CodeMisconfigured, "a consumer cannot be subscribed: %w", c.checkNames())
	case c.Apply == nil:
		return onejob.Errorf(onejob.CodeMisconfigured, "consumer %s applies nothing: give it Apply", c.Group)
	case c.Batch < 0 || c.MaxTries < 0 || c.Lease < 0 || c.Loops < 0:
		return onejob.Errorf(onejob.CodeMisconfigured, "consumer %s: a batch of %d, %d tries, a lease of %s or %d loops is none: use numbers above zero, or 0 for the default",
			c.Group, c.Batch, c.MaxTries, c.Lease, c.Loops)
	}
	return nil
}

// checkNames says which name the tables would refuse.
func (c Consumer) checkNames() error {
	err := onejob.CheckName("group", c.Group, maxNameBytes)
	for _, topic := range c.Topics {
		err = cmp.Or(err, onejob.CheckName("topic", topic, maxNameBytes))
	}
	return err
}

const (
	firstBackoff   = time.Second
	longestBackoff = time.Hour
)

// Backoff doubles from one second to one hour.
func Backoff(tries int) time.Duration {
	doubled := firstBackoff << min(max(tries-1, 0), 20)
	return min(doubled, longestBackoff)
}
