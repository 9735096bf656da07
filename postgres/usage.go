package postgres

import (
	"context"
	"fmt"
	"strings"

	"github.com/onejob/onejob/messages"
)

// Consumers returns the consumers whose effect is in the database alone.
func Consumers() []messages.Consumer {
	consumers := []messages.Consumer{referralCredit}
	for _, s := range summaries {
		consumers = append(consumers, s.consumer())
	}
	return consumers
}

// bookedTopics are those of the messages that tell of an entry with usage.
var bookedTopics = []string{"attempt.cost", "certification.cost", "job.charge", "ledger.reversal"}

// consumer adds what messages tell of to the summary. What it adds is read from the ledger,
// by the view that the rebuild reads.
func (s summary) consumer() messages.Consumer {
	add := s.add()
	return messages.Consumer{
		Group: s.table, Topics: bookedTopics, Lock: lockUsageDays,
		Apply: func(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
			_, err := tx.Exec(ctx, add, planned, keysOf(batch))
			return err
		},
	}
}

// add returns the statement that adds the entries of the messages $1. Rows are written in the
// order of their key, so that two of these never wait for each other crosswise.
func (s summary) add() string {
	var sums []string
	for measure := range strings.SplitSeq(measures, ", ") {
		sums = append(sums, fmt.Sprintf("%[1]s = u.%[1]s + excluded.%[1]s", measure))
	}
	key := "owner_id, day, currency" + s.by
	return fmt.Sprintf(`
		INSERT INTO %[1]s AS u (%[2]s, %[3]s)
		SELECT %[2]s, %[4]s FROM usage_entries WHERE message_key = ANY ($1) GROUP BY %[2]s ORDER BY %[2]s
		ON CONFLICT (%[2]s) DO UPDATE SET %[5]s`, s.table, key, measures, measureSums, strings.Join(sums, ", "))
}

// usageDayKey is the advisory lock of a day of the summaries: shared by consumers, held alone
// by the rebuild. It is the same whatever the session's DateStyle is.
const usageDayKey = `hashtextextended('onejob usage ' || to_char(day, 'YYYY-MM-DD'), 0)`

// lockUsageDays keeps the rebuild out of the days that the batch adds to, one day after the
// other.
func lockUsageDays(ctx context.Context, tx messages.Tx, batch []messages.Message) error {
	_, err := tx.Exec(ctx, `
		SELECT pg_advisory_xact_lock_shared(`+usageDayKey+`)
		FROM (SELECT DISTINCT day FROM ledger WHERE source = ANY ($1) ORDER BY day) days`, planned, keysOf(batch))
	return err
}
