// Package examples holds a configuration, contracts and a file of jobs to start with:
//
//	onejob start --file examples/jobs.jsonl
//
// Its tests keep the files right; onejob demo submits the jobs.
package examples
