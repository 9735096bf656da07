package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/simulator"
	"github.com/onejob/onejob/workflows"
)

const (
	scenePatience = 2 * time.Minute
	poll          = 25 * time.Millisecond
)

// scene is one part of the story. Its first error sticks: what comes after it does
// nothing, so that the story reads as it is told.
type scene struct {
	*Stage
	ctx context.Context
	err error
}

// play plays a scene. An interrupt is its error, whatever it cut short.
func (s *Stage) play(ctx context.Context, play func(*scene)) error {
	patience, cancel := context.WithTimeout(ctx, scenePatience)
	defer cancel()
	sc := &scene{Stage: s, ctx: patience}
	play(sc)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return sc.err
}

// say tells what happens.
func (s *scene) say(format string, args ...any) {
	if s.err == nil {
		fmt.Fprintf(s.Out, "   "+format+"\n", args...)
	}
}

// claim checks that got is what was claimed.
func (s *scene) claim(what string, got, want any) {
	if s.err != nil {
		return
	}
	if got != want {
		s.say("✗ %s: %v, not %v", what, got, want)
		s.err = fmt.Errorf("the claim %q does not hold: it is %v, not %v", what, got, want)
		return
	}
	s.claims++
	s.say("✓ %s: %v", what, got)
}

// until waits for what a condition says will happen.
func (s *scene) until(what string, happened func() bool) {
	ticker := time.NewTicker(poll)
	defer ticker.Stop()
	for s.err == nil && !happened() && s.err == nil {
		select {
		case <-s.ctx.Done():
			s.err = fmt.Errorf("waited in vain until %s: %w", what, s.ctx.Err())
		case <-ticker.C:
		}
	}
}

// ran is what became of a command.
type ran struct {
	code   int
	stdout []byte
	stderr string
}

// onejob runs a command line in a process of its own.
func (s *scene) onejob(args ...string) (r ran) {
	if s.err != nil {
		return ran{}
	}
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(s.ctx, s.Binary, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok && ended.Exited() {
		err = nil
	}
	if err != nil {
		s.err = fmt.Errorf("run onejob %s: %w", strings.Join(args, " "), err)
		return ran{}
	}
	return ran{code: cmd.ProcessState.ExitCode(), stdout: stdout.Bytes(), stderr: strings.TrimSpace(stderr.String())}
}

// submit submits a job by the command line.
func (s *scene) submit(key, input string, more ...string) (j onejob.Submitted) {
	r := s.onejob(append([]string{"start", "--owner", s.owner("demo"), "--key", key, "--kind", "ticket",
		"--provider", "primary", "--input", input, "--output", "json"}, more...)...) // of a flag given twice the last one counts
	s.decode(r, &j)
	s.say("job %s: %s", key, j.JobID)
	if link := s.link(j.WorkflowID); link != "" {
		s.say("  %s", link)
	}
	return j
}

// wait waits for the job's outcome.
func (s *scene) wait(jobID string) (v onejob.View) {
	s.decode(s.onejob("job", "wait", jobID, "--output", "json"), &v)
	return v
}

func (s *scene) decode(r ran, v any) {
	if s.err == nil && r.code != 0 {
		s.err = fmt.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if s.err == nil {
		s.err = json.Unmarshal(r.stdout, v)
	}
}

// link is the job's page in the Web UI.
func (s *Stage) link(workflowID string) string {
	if s.WebUI == "" {
		return ""
	}
	return fmt.Sprintf("%s/namespaces/%s/workflows/%s", s.WebUI, url.PathEscape(s.Namespace), url.PathEscape(workflowID))
}

// row returns the one value of a query.
func row[T any](s *scene, sql string, args ...any) (value T) {
	if s.err == nil {
		if err := s.rows.QueryRow(s.ctx, sql, args...).Scan(&value); err != nil {
			s.err = fmt.Errorf("ask postgres: %w", err)
		}
	}
	return value
}

func (s *scene) status(jobID string) string {
	return row[string](s, `SELECT status FROM jobs WHERE id = $1`, jobID)
}

// unknown waits until an attempt of the job is unknown and returns its number.
func (s *scene) unknown(jobID string) (number int) {
	s.until("the attempt is unknown", func() bool {
		number = row[int](s, `SELECT coalesce(max(number), 0) FROM attempts WHERE job_id = $1 AND state = 'unknown'`, jobID)
		return number > 0
	})
	return number
}

// winner returns whose result the job has.
func (s *scene) winner(v onejob.View) string {
	return row[string](s, `SELECT provider FROM attempts WHERE job_id = $1 AND number = $2`, v.JobID, v.CompletedBy)
}

// attempt returns the state of the job's attempt of that number.
func (s *scene) attempt(jobID string, number int) string {
	return row[string](s, `SELECT state FROM attempts WHERE job_id = $1 AND number = $2`, jobID, number)
}

// executions returns how often the provider executed the job.
func (s *scene) executions(jobID string) int { return s.counts(jobID).Executions }

// counts returns what the provider counted of the job.
func (s *scene) counts(jobID string) (counts simulator.Counts) {
	if s.err == nil {
		counts, s.err = s.simulator.Executions(s.ctx, simulator.Subject{Job: jobID})
	}
	return counts
}

func (s *scene) awaitExecution(jobID string) {
	if s.err == nil {
		_, s.err = s.simulator.AwaitExecution(s.ctx, simulator.Subject{Job: jobID}, 1)
	}
}

// release lets the provider answer what it holds under the name.
func (s *scene) release(name string) (held int) {
	if s.err == nil {
		held, s.err = s.simulator.Release(s.ctx, name)
	}
	return held
}

// queried returns the status that the job's workflow tells.
func (s *scene) queried(workflowID string) onejob.Status {
	if s.err != nil {
		return ""
	}
	var v onejob.View
	answer, err := s.Temporal.QueryWorkflow(s.ctx, workflowID, "", workflows.QueryJob)
	if err == nil {
		err = answer.Get(&v)
	}
	s.err = err
	return v.Status
}

// searched returns how many workflows Temporal lists for the query.
func (s *scene) searched(query string) int {
	if s.err != nil {
		return 0
	}
	answer, err := s.Temporal.CountWorkflow(s.ctx, countRequest(s.Namespace, query))
	s.err = err
	return int(answer.GetCount())
}

// events returns how long the workflow's history is.
func (s *scene) events(workflowID string) int64 {
	if s.err != nil {
		return 0
	}
	answer, err := s.Temporal.DescribeWorkflow(s.ctx, workflowID, "")
	if err != nil {
		s.err = err
		return 0
	}
	return int64(answer.HistoryLength)
}

func (s *scene) write(name string, text []byte) (path string) {
	path = s.path(name)
	if s.err == nil {
		s.err = os.WriteFile(path, text, 0o644)
	}
	return path
}
