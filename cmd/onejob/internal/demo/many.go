package demo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"sync"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/simulator"
)

// clicks has processes submit the request at once, as often as can be, and returns the
// answers.
func (s *scene) clicks(r onejob.Request) (answers []onejob.Submitted) {
	request, err := json.Marshal(r)
	if err != nil {
		s.err = err
		return nil
	}
	clickers := make([]*clicker, clickProcesses)
	for i := range clickers {
		if clickers[i], err = s.startClicker(request); err != nil {
			s.err = err
		}
	}
	var running sync.WaitGroup
	for _, c := range clickers {
		if c != nil {
			running.Go(c.click)
		}
	}
	running.Wait()
	for _, c := range clickers {
		if c != nil {
			s.err = errors.Join(s.err, c.err)
			answers = append(answers, c.answers...)
		}
	}
	return answers
}

// clicker is a process that submits one request many times at once.
type clicker struct {
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stdout  *bufio.Reader
	stderr  bytes.Buffer
	answers []onejob.Submitted
	err     error
}

// startClicker returns a clicker that is about to click.
func (s *scene) startClicker(request []byte) (*clicker, error) {
	c := &clicker{cmd: exec.CommandContext(s.ctx, s.Binary, "demo", "clicks", fmt.Sprint(clicksEach))}
	c.cmd.Stderr = &c.stderr
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a process that clicks: %w", err)
	}
	c.stdout = bufio.NewReader(stdout)
	if _, err := c.stdin.Write(append(request, '\n')); err != nil {
		return c, c.ended(err)
	}
	if _, err := c.stdout.ReadString('\n'); err != nil { // it is ready
		return c, c.ended(err)
	}
	return c, nil
}

// click lets it go, and reads its answers to the end.
func (c *clicker) click() {
	if err := c.stdin.Close(); err != nil {
		c.err = c.ended(err)
		return
	}
	answers := json.NewDecoder(c.stdout)
	for {
		var answer onejob.Submitted
		err := answers.Decode(&answer)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			c.err = c.ended(err)
			return
		}
		c.answers = append(c.answers, answer)
	}
	if err := c.cmd.Wait(); err != nil {
		c.err = fmt.Errorf("a process that clicks: %w: %s", err, c.stderr.String())
	}
}

// ended ends the process and returns why.
func (c *clicker) ended(err error) error {
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait()
	return fmt.Errorf("a process that clicks: %w: %s", err, c.stderr.String())
}

// bulkLine is what `onejob start --file --wait` prints of a line, as far as it matters.
type bulkLine struct {
	Line    int           `json:"line"`
	JobID   string        `json:"job_id"`
	Status  onejob.Status `json:"status"`
	Created bool          `json:"created"`
}

func (s *scene) bulk() {
	jobs, err := s.ownJobs(func(*onejob.Request) {})
	if err != nil {
		s.err = err
		return
	}
	path, lines := s.write("jobs.jsonl", jobs), bytes.Count(jobs, []byte("\n"))
	s.say("%d requests of the examples: tickets, invoices, addresses, in many scripts.", lines)
	first := s.submitFile(path, "--wait")
	s.claim("lines answered", len(first), lines)
	s.claim("jobs created", countIf(first, func(l bulkLine) bool { return l.Created }), lines)
	s.claim("jobs that succeeded", countIf(first, func(l bulkLine) bool { return l.Status == onejob.StatusSucceeded }), lines)
	s.claim("executions at the provider", s.executionsOf(first), lines)
	s.say("The same file once more.")
	second := s.submitFile(path, "--wait")
	s.claim("jobs created", countIf(second, func(l bulkLine) bool { return l.Created }), 0)
	s.claim("lines answered with the job of the first time", countIf(second, func(l bulkLine) bool {
		return l.Line <= len(first) && first[l.Line-1].JobID == l.JobID && l.Status == onejob.StatusSucceeded
	}), lines)
	s.claim("executions at the provider", s.executionsOf(second), lines)
}

// ownJobs returns the requests with owners of this story, as change makes them.
func (s *scene) ownJobs(change func(*onejob.Request)) ([]byte, error) {
	var own bytes.Buffer
	encoder := json.NewEncoder(&own)
	encoder.SetEscapeHTML(false)
	for line := range bytes.Lines(s.Jobs) {
		request, err := onejob.DecodeRequest(line)
		if err != nil {
			return nil, err
		}
		request.Owner = s.owner(request.Owner)
		change(&request)
		if err := encoder.Encode(request); err != nil {
			return nil, err
		}
	}
	return own.Bytes(), nil
}

// mixed is what a bad day at the provider looks like: a third of the calls goes wrong.
var mixed = simulator.Plan{
	Seed: 7, LostReply: 0.08, Late: 0.06, LateBy: simulator.Duration(1500 * time.Millisecond), Accept: 0.06, RunFor: simulator.Duration(500 * time.Millisecond),
	Status: map[int]float64{429: 0.04, 500: 0.05, 503: 0.04}, Latency: simulator.Duration(20 * time.Millisecond),
}

func (s *scene) mixedFaults() {
	jobs, err := s.ownJobs(func(r *onejob.Request) {
		r.Key, r.Provider, r.Fallbacks, r.Timeout, r.MaxAttempts = "mixed-"+r.Key, "askable", nil, onejob.Duration(time.Second), 20
	})
	if err != nil {
		s.err = err
		return
	}
	s.plan(mixed)
	path, lines := s.write("mixed.jsonl", jobs), bytes.Count(jobs, []byte("\n"))
	s.say("%d jobs; a third of the calls meets a lost reply, a late one, 429, 500, 503 or an answer behind a reference.", lines)
	s.submitFile(path)
	s.say("In the middle of it the worker is killed, and another one starts.")
	if s.err == nil {
		s.worker.kill()
		s.err = s.startWorker()
	}
	ended := s.submitFile(path, "--wait")
	s.plan(simulator.Plan{})
	s.claim("jobs that succeeded, without a hand laid on them", countIf(ended, func(l bulkLine) bool { return l.Status == onejob.StatusSucceeded }), lines)
	s.claim("executions at the provider, for as many results", s.executionsOf(ended), lines)
}

func (s *scene) plan(p simulator.Plan) {
	if s.err == nil {
		s.err = s.simulator.SetPlan(s.ctx, p)
	}
}

// submitFile submits the file. The progress is for who watches.
func (s *scene) submitFile(path string, more ...string) (lines []bulkLine) {
	if s.err != nil {
		return nil
	}
	cmd := exec.CommandContext(s.ctx, s.Binary, append([]string{"start", "--file", path}, more...)...)
	cmd.Stderr = s.Log
	stdout, err := cmd.Output()
	if err != nil {
		s.err = fmt.Errorf("onejob start --file: %w", err)
		return nil
	}
	for text := range bytes.Lines(stdout) {
		var line bulkLine
		if s.err = json.Unmarshal(text, &line); s.err != nil {
			return nil
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *scene) executionsOf(lines []bulkLine) (executions int) {
	for _, line := range lines {
		executions += s.executions(line.JobID)
	}
	return executions
}

func countIf(lines []bulkLine, holds func(bulkLine) bool) (n int) {
	for _, line := range lines {
		if holds(line) {
			n++
		}
	}
	return n
}

// reckoning compares all that was decided with all that was executed.
func (s *scene) reckoning() {
	if s.err != nil {
		return
	}
	totals, err := s.simulator.Totals(s.ctx)
	s.err = err
	s.say("%d jobs", row[int](s, `SELECT count(*)::int FROM jobs`))
	s.claim("jobs without an outcome", row[int](s, `SELECT count(*)::int FROM jobs WHERE status NOT IN ('succeeded', 'failed', 'cancelled')`), 0)
	s.claim("jobs with more than one result", row[int](s, `SELECT count(*)::int FROM (SELECT FROM attempts WHERE state = 'succeeded' AND discarded_at IS NULL GROUP BY job_id HAVING count(*) > 1) more`), 0)
	if never := row[int](s, `SELECT count(*)::int FROM attempts WHERE reason = 'never_started'`); never > 0 {
		s.say("%d attempts were handed to a worker that never ran them, and were fenced", never)
	}
	s.claim("executions, for as many attempts and certifying calls that were not refused or lost before they were sent", totals.Executions,
		row[int](s, `SELECT count(*)::int FROM attempts WHERE coalesce(reason, '') NOT IN ('never_started', 'not_sent', 'refused', 'not_found', 'not_certified')`)+
			row[int](s, `SELECT count(*)::int FROM certification_calls`))
	s.claim("executions repeated within an attempt", totals.Repeated, 0)
}
