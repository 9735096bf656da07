// Package examples holds a configuration and a file of jobs to start with:
//
//	onejob start --file examples/jobs.jsonl
//
// It exports nothing; its tests keep the two files right.
package examples
