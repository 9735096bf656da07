package main

import (
	"fmt"
	"io"
)

// MessageReport is what a benchmark found out about messages.
type MessageReport struct {
	Conditions Conditions    `json:"conditions"`
	Groups     []GroupReport `json:"groups"`
	Backlog    BacklogReport `json:"backlog"`
	Lag        LagReport     `json:"lag"`
}

// GroupReport compares a consumer with its statements run bare.
type GroupReport struct {
	Group     string  `json:"group"`
	Batch     int     `json:"batch"`
	PerSecond Spread  `json:"messages_per_s"`
	Bare      Spread  `json:"bare_messages_per_s"`
	Ratio     Spread  `json:"ratio"` // within each round
	Target    float64 `json:"target_least"`
}

// BacklogReport is of two runners that share a backlog. Memory is of this process, which
// holds both.
type BacklogReport struct {
	Messages  int     `json:"messages"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"messages_per_s"`
	HeapMB    float64 `json:"most_heap_mb"`
	RSSMB     float64 `json:"most_rss_mb,omitempty"`
	Exact     bool    `json:"exact"` // the summary equals the ledger, and no message was tried twice
}

// LagReport is the time from a message's insert to its effect, both by the database's clock,
// with two runners and the three summaries.
type LagReport struct {
	Rate  int     `json:"messages_per_s"`
	Count int     `json:"effects"`
	P50   float64 `json:"p50_ms"`
	P99   float64 `json:"p99_ms"`
}

func (r MessageReport) print(w io.Writer) error {
	c := r.Conditions
	fmt.Fprintf(w, "Postgres %s, fsync %s · %d cores (%s), load before %s\n\n", c.Postgres, c.Fsync, c.Cores, c.System, orNotKnown(c.Load))
	for _, g := range r.Groups {
		fmt.Fprintf(w, "%-15s %6.0f messages/s in batches of %d, its statements bare %6.0f: %.2f (%.2f–%.2f), target ≥ %.1f\n",
			g.Group, g.PerSecond.Median, g.Batch, g.Bare.Median, g.Ratio.Median, g.Ratio.Least, g.Ratio.Most, g.Target)
	}
	fmt.Fprintf(w, "%-15s %6.0f ms at the median, %.0f ms at p99, from insert to effect, at %d messages/s for three groups\n", "lag", r.Lag.P50, r.Lag.P99, r.Lag.Rate)
	b := r.Backlog
	_, err := fmt.Fprintf(w, "%-15s %d messages by two runners in %.0f s (%.0f/s); heap at most %.0f MB, process %.0f MB; exact: %v\n",
		"backlog", b.Messages, b.Seconds, b.PerSecond, b.HeapMB, b.RSSMB, b.Exact)
	return err
}
