package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/onejob/onejob/faults/clicks"
)

// DoorReport is what a benchmark found out about the HTTP door. Times are milliseconds.
type DoorReport struct {
	Conditions Conditions     `json:"conditions"`
	Doors      []*DoorFigures `json:"doors"`
	Ratios     []Ratio        `json:"ratios"` // of the door to the bare handler
	Kill       *KillReport    `json:"kill,omitempty"`
	AuditClean bool           `json:"audit_clean"`
	Audit      string         `json:"audit,omitempty"` // what it found

	samples []doorSample
}

// doorSample is one load.
type doorSample struct {
	system            system
	load              load
	seen              clicks.Report
	acceptedPerSecond float64
	donePerSecond     float64 // jobs, up to the end of the last
}

// DoorFigures are those of one system under one load, over all rounds.
type DoorFigures struct {
	System    system                 `json:"system"`
	Load      load                   `json:"load"`
	PerSecond Spread                 `json:"accepted_per_s"`
	Latency   map[string]DoorLatency `json:"latency"` // by what was asked
	Requests  int                    `json:"requests"`
	Errors    map[int]int            `json:"errors"` // answers by status
	Silent    int                    `json:"silent"` // requests without an answer
}

// DoorLatency is over the requests of all rounds.
type DoorLatency struct {
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
}

// KillReport is of the load in which an instance was killed.
type KillReport struct {
	Seconds   float64     `json:"seconds"`
	Accepted  int         `json:"accepted"`
	Resent    int         `json:"resent"` // clicks that a later try got accepted
	Silent    int         `json:"silent"`
	Errors    map[int]int `json:"errors"`
	SubmitP99 float64     `json:"submit_p99"` // with the tries before the last
}

func newDoorReport(c Conditions) *DoorReport { return &DoorReport{Conditions: c} }

func (r *DoorReport) of(name system, l load) []doorSample {
	return slices.DeleteFunc(slices.Clone(r.samples), func(s doorSample) bool { return s.system != name || s.load != l })
}

// jobsPerSecond is at what rate jobs were done at saturation.
func (r *DoorReport) jobsPerSecond() float64 {
	var all []float64
	for _, s := range r.of(systemOnejob, saturated) {
		all = append(all, s.donePerSecond)
	}
	return median(all)
}

func (r *DoorReport) conclude() {
	for _, l := range []load{saturated, half} {
		for _, name := range []system{systemFloor, systemOnejob} {
			r.Doors = append(r.Doors, figuresOf(name, l, r.of(name, l)))
		}
	}
	accepted := func(s doorSample) float64 { return s.acceptedPerSecond }
	submit := func(q float64) func(doorSample) float64 {
		return func(s doorSample) float64 { return quantile(s.seen.Took[clicks.Submit], q) }
	}
	r.Ratios = []Ratio{
		{Name: "accepted/s at saturation, door : bare handler", Rounds: r.perRound(saturated, accepted)},
		{Name: "submit p50 at half load, door : bare handler", Rounds: r.perRound(half, submit(0.5))},
		{Name: "submit p99 at half load, door : bare handler", Rounds: r.perRound(half, submit(0.99))},
	}
}

func (r *DoorReport) perRound(l load, figure func(doorSample) float64) Spread {
	ours, theirs := r.of(systemOnejob, l), r.of(systemFloor, l)
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		ratios = append(ratios, figure(ours[i])/figure(theirs[i]))
	}
	return spreadOf(ratios)
}

func figuresOf(name system, l load, samples []doorSample) *DoorFigures {
	f := &DoorFigures{System: name, Load: l, Latency: map[string]DoorLatency{}, Errors: map[int]int{}}
	took, rates := map[string][]float64{}, []float64{}
	for _, s := range samples {
		rates = append(rates, s.acceptedPerSecond)
		f.Silent += s.seen.Silent
		for status, n := range s.seen.Errors {
			f.Errors[status] += n
		}
		for what, ms := range s.seen.Took {
			took[what] = append(took[what], ms...)
			f.Requests += len(ms)
		}
	}
	f.PerSecond = spreadOf(rates)
	for what, ms := range took {
		f.Latency[what] = DoorLatency{quantile(ms, 0.5), quantile(ms, 0.99)}
	}
	return f
}

// verdict is an error when something is not as it must be.
func (r *DoorReport) verdict() error {
	if !r.AuditClean {
		return errors.New("the audit after the load is not clean")
	}
	return nil
}

// print writes the report as a table for people.
func (r *DoorReport) print(w io.Writer) error {
	c := r.Conditions
	fmt.Fprintf(w, "%d instances of the door, %d clicks × %d rounds from %d clients, provider %g ms · Postgres %s, fsync %s · Temporal %s\n", instances, c.Jobs, c.Rounds, c.Submitters, c.ProviderMS, c.Postgres, c.Fsync, c.Temporal)
	fmt.Fprintf(w, "%d cores (%s), load before %s · jobs done at saturation %.1f/s\n\n", c.Cores, c.System, orNotKnown(c.Load), r.jobsPerSecond())
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\taccepted/s\tsubmit p50 / p99 ms\tagain p50 / p99\tread p50 / p99\trequests\terrors\tsilent")
	for _, f := range r.Doors {
		title := "bare handler"
		if f.System == systemOnejob {
			title = "door"
		}
		fmt.Fprintf(table, "%s, %s\t%.1f (%.1f–%.1f)\t%s\t%s\t%s\t%d\t%s\t%d\n", title, f.Load, f.PerSecond.Median, f.PerSecond.Least, f.PerSecond.Most,
			f.latency(clicks.Submit), f.latency(clicks.Again), f.latency(clicks.Read), f.Requests, errorsOf(f.Errors), f.Silent)
	}
	fmt.Fprintln(table)
	fmt.Fprintln(table, "ratio (median of rounds, least–most)\t")
	for _, q := range r.Ratios {
		fmt.Fprintf(table, "%s\t%.2f (%.2f–%.2f)\n", q.Name, q.Rounds.Median, q.Rounds.Least, q.Rounds.Most)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if k := r.Kill; k != nil {
		fmt.Fprintf(w, "\none instance killed in %.0f s of half load: %d clicks accepted and none lost, %d of them sent again, %d requests without an answer, errors %s, submit p99 %.0f ms\n",
			k.Seconds, k.Accepted, k.Resent, k.Silent, errorsOf(k.Errors), k.SubmitP99)
	}
	found := "clean"
	if !r.AuditClean {
		found = "NOT CLEAN\n" + r.Audit
	}
	_, err := fmt.Fprintf(w, "audit: %s\n", found)
	return err
}

func (f *DoorFigures) latency(what string) string {
	l, ok := f.Latency[what]
	if !ok {
		return "–"
	}
	return pair(l.P50, l.P99)
}

func errorsOf(byStatus map[int]int) string {
	n := 0
	for _, count := range byStatus {
		n += count
	}
	if n == 0 {
		return "0"
	}
	return fmt.Sprintf("%d %v", n, byStatus)
}
