package onejob

import (
	"crypto/sha256"
	"encoding/hex"
)

// maxSourceBytes is what the key of a message may have.
const maxSourceBytes = 500

// EntrySource returns the source of the ledger entry that an owner's idempotency key
// makes, which is the key of its message too: topic:<owner>/<key>, both encoded as in a
// [WorkflowID], or, where that is longer than 500 bytes, topic:sha256- and the hex SHA-256
// of the encoded pair. Two different pairs never share a source: only a pair has a slash.
func EntrySource(topic, owner, key string) string {
	pair := escape(owner) + "/" + escape(key)
	if source := topic + ":" + pair; len(source) <= maxSourceBytes {
		return source
	}
	sum := sha256.Sum256([]byte(pair))
	return topic + ":sha256-" + hex.EncodeToString(sum[:])
}
