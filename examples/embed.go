package examples

import _ "embed"

// Jobs is the file jobs.jsonl: one request a line.
//
//go:embed jobs.jsonl
var Jobs []byte

// InvoiceContract is the contract for invoices.
//
//go:embed contracts/invoice.yaml
var InvoiceContract []byte

// InvoiceReplies are good replies to its cases, by their names.
//
//go:embed contracts/replies/invoice.json
var InvoiceReplies []byte
