package examples

import _ "embed"

// Jobs is the file jobs.jsonl: one request a line.
//
//go:embed jobs.jsonl
var Jobs []byte
