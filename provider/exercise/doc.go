// Package exercise runs one suite over every adapter: each row of the table in
// docs/design.md, 'What a provider's answer means', over real connections, with replies
// in the shapes that the vendors document. It holds tests only.
package exercise
