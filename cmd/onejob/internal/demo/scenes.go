package demo

import (
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/api/workflowservice/v1"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/workflows"
)

const (
	doubleClickKey   = "double-click"
	doubleClickInput = `{"text": "Where is my parcel?"}`
)

func (s *scene) doubleClick() {
	s.say("A user clicks, nothing happens, and clicks on: %d submits of one key at once, from %d processes.", clickProcesses*clicksEach, clickProcesses)
	answers := s.clicks(onejob.Request{Owner: s.owner("demo"), Key: doubleClickKey, Kind: "ticket", Provider: "primary", Input: []byte(doubleClickInput)})
	jobs, created := map[string]string{}, 0
	for _, a := range answers {
		jobs[a.JobID] = a.WorkflowID
		if a.Created {
			created++
		}
	}
	s.claim("submits that were answered", len(answers), clickProcesses*clicksEach)
	s.claim("jobs among the answers", len(jobs), 1)
	s.claim("answers that created it", created, 1)
	for jobID, workflowID := range jobs {
		s.say("job %s: %s", doubleClickKey, jobID)
		if link := s.link(workflowID); link != "" {
			s.say("  %s", link)
		}
		s.claim("its status", s.wait(jobID).Status, onejob.StatusSucceeded)
		s.claim("rows under the key", row[int](s, `SELECT count(*)::int FROM jobs WHERE owner_id = $1 AND idempotency_key = $2`, s.owner("demo"), doubleClickKey), 1)
		s.until("temporal lists the workflow", func() bool { return s.searched(byID(workflowID)) > 0 })
		s.claim("workflow runs", s.searched(byID(workflowID)), 1)
		s.claim("executions at the provider", s.executions(jobID), 1)
	}
}

func (s *scene) otherIntent() {
	s.say("The same key, and another input.")
	const job = `SELECT row_to_json(j)::text FROM jobs j WHERE owner_id = $1 AND idempotency_key = $2`
	workflowID := onejob.WorkflowID(s.owner("demo"), doubleClickKey)
	before, events := row[string](s, job, s.owner("demo"), doubleClickKey), s.events(workflowID)
	r := s.onejob("start", "--owner", s.owner("demo"), "--key", doubleClickKey, "--kind", "ticket", "--provider", "primary", "--input", `{"text": "Cancel my order."}`)
	s.say("%s", r.stderr)
	s.claim("exit code", r.code, 3)
	s.claim("the row is unchanged", row[string](s, job, s.owner("demo"), doubleClickKey) == before, true)
	s.claim("events added to the workflow", s.events(workflowID)-events, int64(0))
}

// silent submits a job whose provider executes it and does not answer, and waits until
// it is unknown.
func (s *scene) silent(key string, more ...string) (j onejob.Submitted, attempt int) {
	j = s.submit(key, `{"text": "Where is my parcel?", "simulate": {"only": "primary", "silence": true}}`, append([]string{"--timeout", "500ms"}, more...)...)
	return j, s.unknown(j.JobID)
}

func (s *scene) lateAnswer() {
	s.say("The provider does the work and says nothing.")
	j, attempt := s.silent("silent")
	s.claim("the row says", s.status(j.JobID), "unknown")
	s.until("the workflow knows", func() bool { return s.queried(j.WorkflowID) == onejob.StatusUnknown })
	s.claim("the workflow says", s.queried(j.WorkflowID), onejob.StatusUnknown)
	unknown := byID(j.WorkflowID) + ` AND OnejobStatus = "unknown"`
	s.until("temporal lists it", func() bool { return s.searched(unknown) == 1 })
	s.claim(`workflows found by OnejobStatus="unknown"`, s.searched(unknown), 1)
	s.refuseButton(j)
	s.say("At last the provider answers.")
	s.release(j.JobID)
	done := s.wait(j.JobID)
	s.claim("the job's status", done.Status, onejob.StatusSucceeded)
	s.claim("completed by attempt", done.CompletedBy, attempt)
	s.claim("executions at the provider", s.executions(j.JobID), 1)
}

func (s *scene) lostReply() {
	s.say("The provider does the work, and its reply is lost on the way. Nobody does anything.")
	j := s.submit("lost-reply", `{"text": "Where is my parcel?", "simulate": {"execute_then_drop": true}}`, "--provider", "askable")
	done := s.wait(j.JobID)
	s.claim("the job's status", done.Status, onejob.StatusSucceeded)
	s.claim("attempts", len(done.Attempts), 1)
	s.claim("the provider was asked what became of it", s.counts(j.JobID).LookUps > 0, true)
	s.claim("requests to the provider", s.counts(j.JobID).Requests, 1)
	s.claim("executions at the provider", s.executions(j.JobID), 1)
	s.claim("decisions by people", row[int](s, `SELECT count(*)::int FROM decisions WHERE job_id = $1`, j.JobID), 0)
}

// refuseButton presses the fallback button while an attempt is unknown.
func (s *scene) refuseButton(j onejob.Submitted) {
	const onFallback = `SELECT count(*)::int FROM attempts WHERE job_id = $1 AND provider = 'fallback'`
	r := s.onejob("job", "attempt", j.JobID, "--provider", "fallback")
	s.say("The fallback button: %s", r.stderr)
	s.claim("exit code", r.code, 6)
	s.claim("attempts on the fallback", row[int](s, onFallback, j.JobID), 0)
}

func (s *scene) givenUp() {
	s.say("Again no answer. This time somebody gives the attempt up, in Temporal's Web UI or so.")
	j, attempt := s.silent("given-up", "--fallback", "fallback")
	if s.err == nil {
		s.err = s.Temporal.SignalWorkflow(s.ctx, j.WorkflowID, "", workflows.SignalCancelAttempt,
			workflows.AttemptDecision{Attempt: attempt, Reason: "no answer in the demo", By: "the demo"})
	}
	s.until("the fallback has won", func() bool { return s.status(j.JobID) == "succeeded" })
	s.say("The fallback has won. Now the first provider answers after all.")
	s.release(j.JobID)
	s.loses(j, attempt)
}

// loses checks that the loser's result was dropped and the winner's kept.
func (s *scene) loses(j onejob.Submitted, loser int) {
	const discarded = `SELECT count(*)::int FROM discarded_results d JOIN attempts a ON a.id = d.attempt_id WHERE a.job_id = $1 AND a.number = $2 AND d.bytes > 0`
	s.until("the late result was discarded", func() bool { return row[int](s, discarded, j.JobID, loser) == 1 })
	done := s.wait(j.JobID)
	s.claim("the job's status", done.Status, onejob.StatusSucceeded)
	s.claim("completed by", s.winner(done), "fallback")
	s.claim("the first attempt", s.attempt(j.JobID, loser), "cancelled")
	s.claim("results discarded", row[int](s, discarded, j.JobID, loser), 1)
	s.claim("places in the database with the winner's payload", s.places(payload("fallback", j.JobID, done.CompletedBy)), 1)
	s.claim("places in the database with the loser's payload", s.places(payload("primary", j.JobID, loser)), 0)
	s.claim("executions at the provider, one for each attempt", s.executions(j.JobID), 2)
}

// payload is how an answer of the simulated provider begins.
func payload(provider, jobID string, attempt int) string {
	return fmt.Sprintf(`{"provider":%q,"job":%q,"attempt":%d`, provider, jobID, attempt)
}

// places returns in how many rows of all tables the text stands, however it is quoted.
func (s *scene) places(text string) (places int) {
	tables := row[[]string](s, `SELECT array_agg(quote_ident(table_name)) FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`)
	for _, table := range tables {
		places += row[int](s, `SELECT count(*)::int FROM `+table+` t WHERE position($1 IN replace(row_to_json(t)::text, '\"', '"')) > 0`, text)
	}
	return places
}

func (s *scene) killedWorker() {
	s.say("The provider has done the work; before it answers, the worker is killed.")
	j := s.submit("killed", `{"text": "Refund 20 EUR.", "simulate": {"hold_after": "killed"}}`)
	s.awaitExecution(j.JobID)
	if s.err == nil {
		s.worker.kill()
		s.err = s.startWorker()
	}
	s.say("Another worker starts, and Temporal misses the heartbeats of the first.")
	attempt := s.unknown(j.JobID)
	s.claim("the attempt, which is not failed", s.attempt(j.JobID, attempt), "unknown")
	s.claim("the job", s.status(j.JobID), "unknown")
	s.claim("executions at the provider", s.executions(j.JobID), 1)
	s.say("An operator asks the provider, and tells.")
	s.decode(s.onejob("attempt", "resolve", j.JobID, strconv.Itoa(attempt), "--as", "succeeded", "--result", `{"refunded": "20.00 EUR"}`,
		"--by", "the demo", "--reason", "the provider's dashboard shows it", "--output", "json"), &onejob.View{})
	done := s.wait(j.JobID)
	s.claim("the job's status", done.Status, onejob.StatusSucceeded)
	s.claim("its result", row[string](s, `SELECT result::text FROM jobs WHERE id = $1`, j.JobID), `{"refunded": "20.00 EUR"}`)
	s.claim("executions at the provider", s.executions(j.JobID), 1)
	s.release("killed")
}

func (s *scene) reverseOrder() {
	s.say("A starts first and is slow. It is given up; B starts later and answers at once; then A answers.")
	began := time.Now()
	sinceStart := func() time.Duration { return time.Since(began).Round(10 * time.Millisecond) }
	j := s.submit("reverse", `{"text": "Translate this.", "simulate": {"only": "primary", "hold_after": "reverse"}}`, "--fallback", "fallback", "--timeout", "300ms")
	attempt := s.unknown(j.JobID)
	s.decode(s.onejob("attempt", "cancel", j.JobID, strconv.Itoa(attempt), "--reason", "too slow", "--by", "the demo", "--output", "json"), &onejob.View{})
	s.until("B has won", func() bool { return s.status(j.JobID) == "succeeded" })
	s.say("B has won after %v. A is still at work.", sinceStart())
	s.release("reverse")
	s.say("A has answered after %v.", sinceStart())
	s.loses(j, attempt)
}

func byID(workflowID string) string { return fmt.Sprintf("WorkflowId = %q", workflowID) }

func countRequest(namespace, query string) *workflowservice.CountWorkflowExecutionsRequest {
	return &workflowservice.CountWorkflowExecutionsRequest{Namespace: namespace, Query: query}
}
