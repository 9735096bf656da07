package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
)

const (
	submitters = 64               // goroutines that submit
	warmUpJobs = 100              // of each run, on connections and caches of its own
	halfLoad   = 10 * time.Second // of submits at half load

	// floorTime is how long a floor runs. Temporal does nothing meanwhile, and a Postgres
	// session that does nothing reports its commits after ten seconds at the latest.
	floorTime = 11 * time.Second

	sessionsEnd = 500 * time.Millisecond // of a process that ended, in Postgres
)

// Processes whose CPU is told apart. The floor's only process counts as the worker.
const (
	processWorker   = "worker"
	processClient   = "client"
	processPostgres = "postgres"
	processTemporal = "temporal"
	processProvider = "provider"
)

// load is how hard a run pushes.
type load string

const (
	saturated load = "saturation"
	half      load = "half load"
)

// sample is what one run measured.
type sample struct {
	system    system
	load      load
	jobs      int
	perSecond float64 // see throughput
	submitMS  []float64
	resultMS  []float64 // from the call of submit to the committed result
	cpu       cpuSeconds
	lastID    string // of a workflow
}

// measure runs all the rounds.
func (s *site) measure(ctx context.Context, o options) (*Report, error) {
	m := &measurement{site: s, options: o, report: newReport(s.conditions)}
	progress("warming up")
	if err := m.warmUp(ctx); err != nil {
		return nil, err
	}
	for round := range o.rounds {
		if err := m.round(ctx, round); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	m.report.conclude()
	return m.report, nil
}

// measurement is one benchmark under way.
type measurement struct {
	*site
	options
	report   *Report
	runs     int
	idle     commits // a second, of servers that nobody uses
	halfRate float64 // jobs a second at half load, in this round
}

// warmUp fills the caches of servers and machine, and measures what the servers commit
// by themselves.
func (m *measurement) warmUp(ctx context.Context) error {
	for _, system := range []system{systemOnejob, systemBare} {
		if _, err := m.onTemporal(ctx, system, saturated, task{Jobs: 1}); err != nil {
			return err
		}
	}
	if _, err := m.onFloor(ctx, saturated, task{For: floorTime}); err != nil {
		return err
	}
	before, began := m.readCommits(ctx), time.Now()
	if _, err := m.onFloor(ctx, half, task{For: floorTime, Rate: 1}); err != nil {
		return err
	}
	after := m.readCommits(ctx)
	m.idle.temporal = (after.temporal - before.temporal) / time.Since(began).Seconds()
	return errors.Join(before.err, after.err)
}

// round measures each system once at saturation and once at half load. Rounds take the
// two systems on Temporal in turns, so that neither always finds the larger database.
func (m *measurement) round(ctx context.Context, n int) error {
	if n > 0 {
		m.setHalfRate()
	}
	order := []system{systemOnejob, systemBare}
	if n%2 == 1 {
		order = []system{systemBare, systemOnejob}
	}
	floors := []load{saturated, half}
	for i, system := range order {
		before, began := m.readCommits(ctx), time.Now()
		jobs, err := m.both(ctx, n, system)
		if err != nil {
			return err
		}
		time.Sleep(sessionsEnd)
		after := m.readCommits(ctx)
		floorJobs, err := m.floorOf(ctx, n, floors[i])
		if err != nil {
			return err
		}
		time.Sleep(sessionsEnd)
		settled := m.readCommits(ctx)
		if err := errors.Join(before.err, after.err, settled.err); err != nil {
			return err
		}
		alone := m.idle.temporal * time.Since(began).Seconds()
		m.report.countCommits(system, jobs, after.ours-before.ours, settled.temporal-before.temporal-alone)
		m.report.countCommits(systemFloor, floorJobs, settled.ours-after.ours, 0)
	}
	return nil
}

// floorOf measures the floor, and leaves Temporal's sessions the time to report. It
// returns the number of jobs, those of the warm-up among them.
func (m *measurement) floorOf(ctx context.Context, n int, load load) (jobs int, err error) {
	t := task{For: floorTime}
	if load == half {
		t.Rate = m.halfRate
	}
	sample, err := m.onFloor(ctx, load, t)
	if err != nil {
		return 0, err
	}
	m.tell(n, sample)
	return sample.jobs + warmUpJobs, nil
}

// both measures a system on Temporal at saturation and at half load, and returns the
// number of jobs, those of the warm-ups among them.
func (m *measurement) both(ctx context.Context, n int, system system) (jobs int, err error) {
	sample, err := m.onTemporal(ctx, system, saturated, task{Jobs: m.jobs})
	if err != nil {
		return 0, err
	}
	jobs = sample.jobs
	m.tell(n, sample)
	if system == systemOnejob && n == 0 {
		m.setHalfRate()
	}
	rate := m.halfRate
	sample, err = m.onTemporal(ctx, system, half, task{Jobs: max(1, int(rate*halfLoad.Seconds())), Rate: rate})
	if err != nil {
		return 0, err
	}
	m.tell(n, sample)
	events, bytes, err := m.history(ctx, sample.lastID)
	m.report.countHistory(system, events, bytes)
	return jobs + sample.jobs + 2*warmUpJobs, err
}

// setHalfRate fixes the rate of a round, the same for all: half of onejob's throughput as
// far as it is known.
func (m *measurement) setHalfRate() {
	m.halfRate = m.rate
	if m.rate == 0 {
		m.halfRate = median(m.report.throughputs(systemOnejob)) / 2
	}
}

func (m *measurement) tell(round int, s sample) {
	m.report.add(s)
	progress("round %d of %d: %-6s %-10s %7.1f jobs/s, submit to result p50 %.0f ms", round+1, m.rounds, s.system, s.load, s.perSecond, quantile(s.resultMS, 0.5))
}

// next fills in what each run has of its own.
func (m *measurement) next(t task, system system) task {
	m.runs++
	t.System, t.Postgres, t.Temporal, t.Provider = system, m.url, m.temporal, m.providerAt
	t.Run, t.Submitters, t.WarmUp = fmt.Sprintf("run-%03d", m.runs), submitters, warmUpJobs
	return t
}

// onTemporal measures one run of a system that needs a worker and a client.
func (m *measurement) onTemporal(ctx context.Context, system system, load load, t task) (s sample, err error) {
	t = m.next(t, system)
	worker, err := startRole(ctx, roleWorker, t, nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, worker.end()) }()
	client, err := startRole(ctx, roleClient, t, nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, client.end()) }()
	time.Sleep(time.Second) // the pollers settle

	if _, _, err := goOnTogether(worker, client); err != nil { // warm up
		return s, err
	}
	pids := m.pids(worker.pid, client.pid)
	before := readCPU(pids)
	jobs, seen, err := goOnTogether(worker, client)
	if err != nil {
		return s, err
	}
	time.Sleep(time.Second) // the server closes the last workflows
	s = newSample(system, load, jobs, seen)
	s.cpu = readCPU(pids).since(before)
	return s, nil
}

func goOnTogether(worker, client *process) (jobs []jobTimes, seen map[string]sighting, err error) {
	if err := errors.Join(worker.goOn(), client.goOn()); err != nil {
		return nil, nil, err
	}
	return jobs, seen, errors.Join(client.answer(&jobs), worker.answer(&seen))
}

// onFloor measures one run of the statements alone.
func (m *measurement) onFloor(ctx context.Context, load load, t task) (s sample, err error) {
	floor, err := startRole(ctx, roleFloor, m.next(t, systemFloor), nil)
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, floor.end()) }()
	pids := m.pids(floor.pid, 0)
	delete(pids, processClient)
	delete(pids, processTemporal)
	var jobs []jobTimes
	if err := errors.Join(floor.goOn(), floor.answer(&jobs)); err != nil { // warm up
		return s, err
	}
	before := readCPU(pids)
	if err := errors.Join(floor.goOn(), floor.answer(&jobs)); err != nil {
		return s, err
	}
	s = newSample(systemFloor, load, jobs, nil)
	s.cpu = readCPU(pids).since(before)
	return s, nil
}

func (m *measurement) pids(worker, client int) map[string]int {
	pids := map[string]int{
		processWorker: worker, processClient: client, processProvider: m.provider.pid,
		processPostgres: m.postmaster(), processTemporal: 0,
	}
	if m.keeper != nil {
		pids[processTemporal] = m.keeper.pid
	}
	return pids
}

// postmaster is the process of Postgres; 0 if it is not known, on another machine for
// instance.
func (s *site) postmaster() int {
	if !s.postgres.External() {
		return s.postgres.PID()
	}
	pid := parentOf(int(s.conn.PgConn().PID()))
	if pid <= 1 {
		return 0
	}
	return pid
}

// newSample joins what the client and the worker saw of each job.
func newSample(system system, load load, jobs []jobTimes, seen map[string]sighting) sample {
	s := sample{system: system, load: load, jobs: len(jobs)}
	var starts, ends []int64
	for _, job := range jobs {
		end := job.Result
		if at, ok := seen[job.ID]; ok {
			job.Result, end = at.Result, at.Closed
		}
		s.submitMS = append(s.submitMS, float64(job.Ack-job.Submit)/1e6)
		s.resultMS = append(s.resultMS, float64(job.Result-job.Submit)/1e6)
		s.lastID = job.ID
		starts, ends = append(starts, job.Submit), append(ends, end)
	}
	s.perSecond = throughput(starts, ends)
	return s
}

// throughput is the rate at which the first nine tenths of the jobs were done, to the
// end of their workflows. The rest is left to p99: on a busy machine a workflow task is
// now and then handed out and never run, its job waits the ten seconds after which
// Temporal hands it out again, and a rate up to the very last job would measure that.
func throughput(starts, ends []int64) float64 {
	if len(ends) == 0 {
		return 0
	}
	slices.Sort(ends)
	done := max(1, len(ends)*9/10)
	seconds := float64(ends[done-1]-slices.Min(starts)) / 1e9
	if seconds <= 0 {
		return 0
	}
	return float64(done) / seconds
}

// history returns the number of events and the bytes of a workflow's history.
func (m *measurement) history(ctx context.Context, workflowID string) (events, bytes int64, err error) {
	c, err := dial(m.temporal)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	described, err := c.DescribeWorkflow(ctx, workflowID, "")
	if err != nil {
		return 0, 0, err
	}
	info := described.RawResponse.WorkflowExecutionInfo
	if info.Status != enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED {
		return 0, 0, fmt.Errorf("workflow %s is %s, not completed", workflowID, info.Status)
	}
	return info.HistoryLength, info.HistorySizeBytes, nil
}
