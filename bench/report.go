package main

import (
	"maps"
	"slices"
)

// Report is what a benchmark found out. Times are milliseconds; what is not known is left
// out.
type Report struct {
	Conditions Conditions `json:"conditions"`
	Systems    []*Figures `json:"systems"`
	HalfLoad   float64    `json:"half_load_jobs_per_s"`
	Ratios     []Ratio    `json:"ratios"`

	samples []sample
	commits map[system]*counted
}

// Figures are those of one system, over all rounds.
type Figures struct {
	System     system              `json:"system"`
	PerSecond  Spread              `json:"jobs_per_s"` // at saturation
	Latency    map[load]Latency    `json:"latency"`
	CPU        map[string]*float64 `json:"cpu_ms_per_job"` // by process, at saturation
	History    *History            `json:"history,omitempty"`
	Ours       *float64            `json:"own_transactions_per_job,omitempty"`
	OfTemporal *float64            `json:"temporal_transactions_per_job,omitempty"`
}

// Spread is the median of the rounds, with the least and the most.
type Spread struct {
	Median float64 `json:"median"`
	Least  float64 `json:"least"`
	Most   float64 `json:"most"`
}

// Latency is over the jobs of all rounds.
type Latency struct {
	SubmitP50 float64 `json:"submit_p50"`
	SubmitP99 float64 `json:"submit_p99"`
	ResultP50 float64 `json:"result_p50"` // from the call of submit to the committed result
	ResultP99 float64 `json:"result_p99"`
}

// History is that of one workflow.
type History struct {
	Events int64 `json:"events"`
	Bytes  int64 `json:"bytes"`
}

// Ratio compares onejob with a floor.
type Ratio struct {
	Name   string  `json:"name"`
	Rounds Spread  `json:"rounds"` // within each round
	Least  float64 `json:"target_least,omitempty"`
	Below  float64 `json:"target_below,omitempty"`
	Missed bool    `json:"missed"`
}

// Targets, from the project's issue: of throughput beside a bare workflow, and of the
// time from submit to result at half load.
const (
	targetThroughput = 1.2
	targetLatency    = 1.0
)

type counted struct{ jobs, ours, temporal float64 }

func newReport(c Conditions) *Report {
	r := &Report{Conditions: c, commits: map[system]*counted{}}
	for _, name := range []system{systemFloor, systemBare, systemOnejob} {
		r.Systems = append(r.Systems, &Figures{System: name})
		r.commits[name] = &counted{}
	}
	return r
}

func (r *Report) system(name system) *Figures {
	return r.Systems[slices.IndexFunc(r.Systems, func(f *Figures) bool { return f.System == name })]
}

func (r *Report) add(s sample) { r.samples = append(r.samples, s) }

func (r *Report) countCommits(name system, jobs int, ours, temporal float64) {
	c := r.commits[name]
	c.jobs, c.ours, c.temporal = c.jobs+float64(jobs), c.ours+ours, c.temporal+temporal
}

func (r *Report) countHistory(name system, events, bytes int64) {
	r.system(name).History = &History{Events: events, Bytes: bytes}
}

// of returns the samples of a system under a load, in the order of the rounds.
func (r *Report) of(name system, l load) []sample {
	return slices.DeleteFunc(slices.Clone(r.samples), func(s sample) bool { return s.system != name || s.load != l })
}

func (r *Report) throughputs(name system) (perSecond []float64) {
	for _, s := range r.of(name, saturated) {
		perSecond = append(perSecond, s.perSecond)
	}
	return perSecond
}

// conclude computes the figures from the samples.
func (r *Report) conclude() {
	for _, f := range r.Systems {
		f.PerSecond = spreadOf(r.throughputs(f.System))
		f.Latency = map[load]Latency{saturated: latencyOf(r.of(f.System, saturated)), half: latencyOf(r.of(f.System, half))}
		f.CPU = cpuPerJob(r.of(f.System, saturated))
		r.concludeCommits(f)
	}
	halves := r.of(systemOnejob, half)
	for _, s := range halves {
		r.HalfLoad += s.perSecond / float64(len(halves))
	}
	r.Ratios = []Ratio{
		{Name: "throughput, onejob : bare Temporal", Least: targetThroughput, Rounds: r.perRound(systemBare, saturated, throughputOf)},
		{Name: "p50 submit to result at half load, onejob : bare Temporal", Below: targetLatency, Rounds: r.perRound(systemBare, half, middleResultOf)},
		{Name: "throughput, onejob : SQL floor", Rounds: r.perRound(systemFloor, saturated, throughputOf)},
		{Name: "p50 submit to result at half load, onejob : SQL floor", Rounds: r.perRound(systemFloor, half, middleResultOf)},
	}
	for i := range r.Ratios {
		r.Ratios[i].judge()
	}
}

func (r *Report) concludeCommits(f *Figures) {
	c := r.commits[f.System]
	if c.jobs == 0 {
		return
	}
	if f.System != systemBare {
		f.Ours = new(c.ours / c.jobs)
	}
	if c.temporal > 0 {
		f.OfTemporal = new(c.temporal / c.jobs)
	}
}

func (q *Ratio) judge() {
	q.Missed = q.Least > 0 && q.Rounds.Median < q.Least || q.Below > 0 && q.Rounds.Median >= q.Below
}

// perRound divides onejob's figure by the other system's of the same round.
func (r *Report) perRound(other system, l load, figure func(sample) float64) Spread {
	ours, theirs := r.of(systemOnejob, l), r.of(other, l)
	var ratios []float64
	for i := range min(len(ours), len(theirs)) {
		ratios = append(ratios, figure(ours[i])/figure(theirs[i]))
	}
	return spreadOf(ratios)
}

func throughputOf(s sample) float64   { return s.perSecond }
func middleResultOf(s sample) float64 { return quantile(s.resultMS, 0.5) }

func latencyOf(samples []sample) Latency {
	var submit, result []float64
	for _, s := range samples {
		submit, result = append(submit, s.submitMS...), append(result, s.resultMS...)
	}
	return Latency{
		SubmitP50: quantile(submit, 0.5), SubmitP99: quantile(submit, 0.99),
		ResultP50: quantile(result, 0.5), ResultP99: quantile(result, 0.99),
	}
}

func cpuPerJob(samples []sample) map[string]*float64 {
	jobs, sums := 0.0, map[string]float64{}
	for _, s := range samples {
		jobs += float64(s.jobs)
		for name, seconds := range s.cpu {
			sums[name] += seconds
		}
	}
	perJob := map[string]*float64{}
	for name := range maps.Keys(sums) {
		perJob[name] = new(sums[name] * 1000 / jobs)
	}
	return perJob
}

// quantile returns the value that a share q of the values does not exceed; 0 of none.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

// median returns the middle value, or what is half-way between the two.
func median(values []float64) float64 {
	n := len(values)
	if n == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	return Spread{Median: median(values), Least: slices.Min(values), Most: slices.Max(values)}
}
