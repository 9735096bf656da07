package main

import (
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
)

var titles = map[system]string{systemFloor: "SQL floor", systemBare: "bare Temporal", systemOnejob: "onejob"}

const notKnown = "n/a"

// print writes the report as tables for people.
func (r *Report) print(w io.Writer) error {
	c := r.Conditions
	fmt.Fprintf(w, "%d jobs × %d rounds, provider %g ms · Postgres %s, fsync %s · Temporal %s\n", c.Jobs, c.Rounds, c.ProviderMS, c.Postgres, c.Fsync, c.Temporal)
	fmt.Fprintf(w, "%d cores (%s), load before %s · %d submitters · half load %.1f jobs/s\n\n", c.Cores, c.System, orNotKnown(c.Load), c.Submitters, r.HalfLoad)
	table := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	r.rows(func(title string, cell func(*Figures) string) {
		fmt.Fprint(table, title)
		for _, f := range r.Systems {
			fmt.Fprint(table, "\t", cell(f))
		}
		fmt.Fprintln(table)
	})
	fmt.Fprintln(table)
	fmt.Fprintln(table, "ratio (median of rounds, least–most)\t\ttarget\t")
	for _, q := range r.Ratios {
		fmt.Fprintf(table, "%s\t%.2f (%.2f–%.2f)\t%s\n", q.Name, q.Rounds.Median, q.Rounds.Least, q.Rounds.Most, q.target())
	}
	return table.Flush()
}

func (r *Report) rows(row func(title string, cell func(*Figures) string)) {
	row("", func(f *Figures) string { return titles[f.System] })
	row("jobs/s at saturation (least–most)", func(f *Figures) string {
		return fmt.Sprintf("%.1f (%.1f–%.1f)", f.PerSecond.Median, f.PerSecond.Least, f.PerSecond.Most)
	})
	for _, l := range []load{saturated, half} {
		row("submit p50 / p99 ms, "+string(l), func(f *Figures) string {
			return pair(f.Latency[l].SubmitP50, f.Latency[l].SubmitP99)
		})
		row("submit to result p50 / p99 ms, "+string(l), func(f *Figures) string {
			return pair(f.Latency[l].ResultP50, f.Latency[l].ResultP99)
		})
	}
	for _, name := range []string{processWorker, processClient, processPostgres, processTemporal, processProvider} {
		row("CPU ms per job, "+name, func(f *Figures) string { return number(f.CPU[name], 2) })
	}
	row("history events", func(f *Figures) string {
		if f.History == nil {
			return "–"
		}
		return strconv.FormatInt(f.History.Events, 10)
	})
	row("history bytes", func(f *Figures) string {
		if f.History == nil {
			return "–"
		}
		return strconv.FormatInt(f.History.Bytes, 10)
	})
	row("our Postgres transactions per job", func(f *Figures) string { return number(f.Ours, 2) })
	row("Temporal's Postgres transactions per job", func(f *Figures) string { return number(f.OfTemporal, 1) })
}

func (q Ratio) target() string {
	verdict := "reached"
	if q.Missed {
		verdict = "MISSED"
	}
	switch {
	case q.Least > 0:
		return fmt.Sprintf("at least %g: %s", q.Least, verdict)
	case q.Below > 0:
		return fmt.Sprintf("below %g: %s", q.Below, verdict)
	}
	return ""
}

func pair(a, b float64) string { return fmt.Sprintf("%.1f / %.1f", a, b) }

func number(value *float64, digits int) string {
	if value == nil {
		return notKnown
	}
	return strconv.FormatFloat(*value, 'f', digits, 64)
}

func orNotKnown(s string) string {
	if s == "" {
		return notKnown
	}
	return s
}
