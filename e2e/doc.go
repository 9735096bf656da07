// Package e2e drives the whole system on real Temporal and real Postgres, with the
// simulated provider in a process of its own, and proves what it promises. It has no
// code but tests; system_test.go is the stage they play on.
package e2e
