// Package examples holds a configuration and a file of jobs to start with:
//
//	onejob start --file examples/jobs.jsonl
//
// Its tests keep the two files right; onejob demo submits the jobs.
package examples
