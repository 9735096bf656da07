package main

import (
	"context"
	"slices"
)

// commits are the transactions committed so far, or between two moments.
type commits struct {
	ours     float64 // on onejob's database
	temporal float64 // on Temporal's two
	err      error   // of reading them
}

// readCommits reads what Postgres counted. A session reports its commits when it ends,
// and else a second to ten later.
func (s *site) readCommits(ctx context.Context) (c commits) {
	rows, err := s.conn.Query(ctx, `SELECT datname, xact_commit FROM pg_stat_database WHERE datname = ANY ($1)`, s.databases)
	if err != nil {
		return commits{err: err}
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		var n float64
		if err := rows.Scan(&name, &n); err != nil {
			return commits{err: err}
		}
		if slices.Contains(s.temporalDB, name) {
			c.temporal += n
		} else {
			c.ours += n
		}
	}
	c.err = rows.Err()
	return c
}
