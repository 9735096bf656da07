package postgres_test

import (
	"crypto/rand"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/postgres/pgtest"
)

// purse is an owner's budget as the design describes it, without a database: what each of
// its jobs has reserved, what was charged, and the limit.
type purse struct {
	most, reserved, spent int
	jobs                  []*pursed
}

// pursed is a job of the purse. It has one attempt at a time.
type pursed struct {
	job     onejob.Job
	reserve int // what it reserves whenever it is opened
	version int
	attempt *attempt // live, nil: none
	numbers int
	open    bool
	failed  bool
}

func (p *purse) fits(amount int) bool { return p.reserved+p.spent+amount <= p.most }

// close ends the reservation of the job, settled with the charge.
func (p *purse) close(j *pursed, charge int) {
	p.reserved -= j.reserve
	p.spent += charge
	j.open, j.attempt = false, nil
}

// pursePlay is one random history of the jobs of an owner with a budget.
type pursePlay struct {
	rig
	t     *testing.T
	owner string
	purse
}

func TestBudgetIsWhatIsReservedAndWhatWasCharged(t *testing.T) {
	t.Parallel()
	r := newRigAt(t, withParameter(t, pgtest.URL(t), "synchronous_commit", "off")).priced(t)
	end := time.Now().Add(modelTime)
	rapid.Check(t, func(rt *rapid.T) {
		if time.Now().After(end) {
			return
		}
		p := &pursePlay{rig: r, t: t, owner: rand.Text(), purse: purse{most: 4 * reckoned}}
		r.limit(t, p.owner, p.most)
		rt.Repeat(map[string]func(*rapid.T){
			"": p.compare, "submit": p.submit, "submit another": p.submit, "start": p.start, "succeed": p.succeed, "answer nothing": p.failAttempt,
			"fail": p.failJob, "silence": p.silence, "cancel": p.cancel, "reopen": p.reopen, "limit": p.relimit,
		})
	})
	r.mustBeConsistent(t)
}

// pick draws one of the jobs that the condition holds for.
func (p *pursePlay) pick(rt *rapid.T, condition func(*pursed) bool) *pursed {
	var able []*pursed
	for _, j := range p.jobs {
		if condition(j) {
			able = append(able, j)
		}
	}
	if len(able) == 0 {
		rt.Skip("there is no such job")
	}
	return rapid.SampledFrom(able).Draw(rt, "job")
}

func idle(j *pursed) bool { return j.open && j.attempt == nil }
func busy(j *pursed) bool { return j.open && j.attempt != nil }

func (p *pursePlay) submit(rt *rapid.T) {
	var jobs []onejob.Job
	for range rapid.IntRange(1, 3).Draw(rt, "jobs") {
		jobs = append(jobs, newJob(p.t, of(p.owner)))
	}
	if len(p.jobs) > 0 && rapid.Bool().Draw(rt, "with a replay") {
		jobs = append(jobs, p.jobs[0].job)
	}
	registered, err := p.store.InsertJobs(p.t.Context(), jobs...)
	if err != nil {
		rt.Fatal(err)
	}
	for i, job := range jobs {
		if len(p.jobs) > 0 && job.ID == p.jobs[0].job.ID {
			agreeOn(rt, registered[i].Err, nil)
			continue
		}
		if !p.fits(reckoned) {
			agreeOn(rt, registered[i].Err, onejob.ErrBudgetExceeded)
			continue
		}
		agreeOn(rt, registered[i].Err, nil)
		p.reserved += reckoned
		p.jobs = append(p.jobs, &pursed{job: job, reserve: reckoned, open: true})
	}
}

func (p *pursePlay) start(rt *rapid.T) {
	j := p.pick(rt, idle)
	s := startOf(j.job, j.numbers+1, 0)
	started, err := p.store.StartAttemptIfNoneLives(p.t.Context(), s)
	agree(rt, "start", started.Mine, true, err)
	j.numbers++
	j.attempt = &attempt{job: j.job, number: j.numbers, token: s.Execution}
}

func (p *pursePlay) silence(rt *rapid.T) {
	a := p.pick(rt, busy).attempt
	if _, err := p.store.MarkUnknownIfLive(p.t.Context(), a.job.ID, a.number, postgres.Silence{Reason: onejob.ReasonTimeout}); err != nil {
		rt.Fatal(err)
	}
}

func (p *pursePlay) succeed(rt *rapid.T) {
	j := p.pick(rt, busy)
	tokens := rapid.IntRange(0, 8).Draw(rt, "tokens")
	p.record(p.t, *j.attempt, using(j.attempt.success(`1`), tokens))
	for range rapid.IntRange(1, 2).Draw(rt, "times") {
		c, err := p.store.CompleteJobIfOpen(p.t.Context(), j.job.ID, j.attempt.number)
		agree(rt, "won", c.Won, true, err)
	}
	p.close(j, 2*tokens)
}

func (p *pursePlay) failAttempt(rt *rapid.T) {
	j := p.pick(rt, busy)
	p.record(p.t, *j.attempt, using(j.attempt.failure(), 5))
	j.attempt = nil
}

func (p *pursePlay) failJob(rt *rapid.T) {
	j := p.pick(rt, func(j *pursed) bool { return idle(j) && j.numbers > 0 })
	progress, err := p.store.FailJobIfNothingLives(p.t.Context(), j.job.ID, j.version)
	if err == nil && progress.Requested != "" { // it was opened again and asked for an attempt that has not started
		return
	}
	agree(rt, "fail", progress.Status, onejob.StatusFailed, err)
	p.close(j, 0)
	j.failed = true
}

func (p *pursePlay) cancel(rt *rapid.T) {
	j := p.pick(rt, func(j *pursed) bool { return j.open })
	if _, err := p.store.CancelJobIfOpen(p.t.Context(), j.job.ID, decision()); err != nil {
		rt.Fatal(err)
	}
	p.close(j, 0)
}

func (p *pursePlay) reopen(rt *rapid.T) {
	j := p.pick(rt, func(j *pursed) bool { return j.failed })
	_, err := p.store.RequestAttemptIfNoneLives(p.t.Context(), j.job.ID, "primary", decision())
	if !p.fits(j.reserve) {
		agreeOn(rt, err, onejob.ErrBudgetExceeded)
		return
	}
	agreeOn(rt, err, nil)
	p.reserved += j.reserve
	j.open, j.failed = true, false
	j.version++
}

func (p *pursePlay) relimit(rt *rapid.T) {
	p.most = rapid.IntRange(0, 10*reckoned).Draw(rt, "limit")
	p.limit(p.t, p.owner, p.most)
}

func (p *pursePlay) compare(rt *rapid.T) {
	var reserved, spent int
	err := p.hand.QueryRow(p.t.Context(), `SELECT reserved, spent FROM budgets WHERE owner_id = $1`, p.owner).Scan(&reserved, &spent)
	if err != nil || reserved != p.reserved || spent != p.spent {
		rt.Fatalf("the budget has reserved %d and spent %d (%v), the model %d and %d", reserved, spent, err, p.reserved, p.spent)
	}
}
