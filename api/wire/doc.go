// Package wire reads what clients of the HTTP door send, and words what vendors' clients are
// answered. It is pure, and small, so that it can be fuzzed: it knows no server and no database.
//
// Whatever the bytes are, they are a request or an error of one line: a [KeyError] for the header, an
// [onejob.ErrInvalidRequest] for a body.
//
// It imports the domain, and nothing else of this module.
package wire
