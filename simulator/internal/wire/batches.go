package wire

import (
	"bytes"
	"time"
)

// Batch is a message batch. All its requests end alike.
type Batch struct {
	ID        string
	Requests  []string // their custom IDs
	Asked     time.Time
	Cancelled time.Time // zero: nobody cancelled it
	Ended     time.Time // zero: not yet
	End       BatchEnd
	Results   string // URL
}

// BatchEnd is how the requests of a batch end.
type BatchEnd string

// The ends.
const (
	BatchSucceeded BatchEnd = "succeeded"
	BatchErrored   BatchEnd = "errored"
	BatchCanceled  BatchEnd = "canceled"
	BatchExpired   BatchEnd = "expired"
)

// A batch is given up after this time, as the vendor has it.
const batchLife = 24 * time.Hour

// Object words the batch.
func (b Batch) Object() []byte {
	counts := object{"processing": 0, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
	body := object{
		"id": b.ID, "type": "message_batch", "processing_status": b.status(), "request_counts": counts,
		"created_at": stamp(b.Asked), "expires_at": stamp(b.Asked.Add(batchLife)), "ended_at": stamp(b.Ended),
		"cancel_initiated_at": stamp(b.Cancelled), "archived_at": nil, "results_url": nil,
	}
	if b.Ended.IsZero() {
		counts["processing"] = len(b.Requests)
		return marshal(body)
	}
	counts[string(b.End)] = len(b.Requests)
	body["results_url"] = b.Results
	return marshal(body)
}

func (b Batch) status() string {
	switch {
	case !b.Ended.IsZero():
		return "ended"
	case !b.Cancelled.IsZero():
		return "canceling"
	}
	return "in_progress"
}

func stamp(at time.Time) any {
	if at.IsZero() {
		return nil
	}
	return at.UTC().Format(time.RFC3339Nano)
}

// Lines words the results of an ended batch, one line a request.
func (b Batch) Lines(a Answer, e Error) []byte {
	result := object{"type": b.End}
	switch b.End {
	case BatchSucceeded:
		result["message"] = a.message()
	case BatchErrored:
		result["error"] = object{"type": "error", "error": e.anthropic(), "request_id": nil}
	}
	var lines bytes.Buffer
	for _, id := range b.Requests {
		lines.Write(marshal(object{"custom_id": id, "result": result}))
		lines.WriteByte('\n')
	}
	return lines.Bytes()
}
