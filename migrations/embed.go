// Package migrations holds the schema as numbered SQL files, in the form that tern
// runs: what a file creates stands above its separator, what undoes it below.
package migrations

import "embed"

// Files holds the numbered SQL files.
//
//go:embed *.sql
var Files embed.FS
