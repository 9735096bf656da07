package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/faults/clicks"
	"github.com/onejob/onejob/postgres"
)

const (
	instances = 2                // of the door, and of its floor
	doorOwner = "bench-door"     // of all clicks
	drain     = 10 * time.Minute // for the jobs of one run

	floorClicks = 5 * time.Second // of a floor at saturation, which is done with a door's clicks in no time
)

// runDoors measures the door and writes the report.
func runDoors(ctx context.Context, o options, w io.Writer) (err error) {
	s, err := openSite(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	b, err := newDoorBench(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close(ctx)) }()
	report, err := b.measure(ctx, o)
	if err != nil {
		return err
	}
	if o.output == "json" {
		err = writeIndented(w, report)
	} else {
		err = report.print(w)
	}
	return errors.Join(err, report.verdict())
}

// doorBench is two instances of `onejob serve`, a worker, and two of the floor.
type doorBench struct {
	*site
	command string // path of the built onejob
	config  string // path
	token   string
	conn    *pgx.Conn // to onejob's database
	worker  *clicks.Instance
	doors   []*clicks.Instance
	floors  []*process
	at      []string // the floors' addresses
	loads   int
}

func newDoorBench(ctx context.Context, s *site) (b *doorBench, err error) {
	b = &doorBench{site: s, command: filepath.Join(s.dir, "onejob"), config: filepath.Join(s.dir, "onejob.yaml")}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close(ctx))
		}
	}()
	progress("building onejob")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.command, "github.com/onejob/onejob/cmd/onejob")
	if output, err := build.CombinedOutput(); err != nil {
		return b, fmt.Errorf("build onejob: %w: %s", err, output)
	}
	text := fmt.Sprintf(`
providers: {bench: {type: http, url: %q, model: m-bench, timeout: 30s, listen_for: 1m, idempotency: {header: Idempotency-Key}}}
kinds: {bench: {side_effects: external, contract: none}}
prices: [{provider: bench, model: m-bench, unit: call, price: "0.001", currency: USD}]
door: {rate: {per_second: 1000000, burst: 1000000}}
`, s.providerAt)
	if err := os.WriteFile(b.config, []byte(text), 0o600); err != nil {
		return b, err
	}
	if b.conn, err = pgx.Connect(ctx, s.url); err != nil {
		return b, err
	}
	if _, err := b.conn.Exec(ctx, handlerTable); err != nil {
		return b, err
	}
	if b.token, err = b.newOwner(ctx); err != nil {
		return b, err
	}
	return b, b.start(ctx)
}

// newOwner gives the owner of all clicks a budget, so that the audit has money to count, and
// returns a token of its.
func (b *doorBench) newOwner(ctx context.Context) (string, error) {
	store, err := postgres.Open(ctx, b.url)
	if err != nil {
		return "", err
	}
	defer store.Close()
	limit, err := onejob.ParseAmount("1000000")
	if err == nil {
		_, err = store.SetBudget(ctx, postgres.BudgetChange{Owner: doorOwner, Limit: &limit, Currency: "USD"})
	}
	if err != nil {
		return "", err
	}
	secret, token, err := api.NewToken(doorOwner, onejob.RoleUser, "bench", 24*time.Hour)
	if err == nil {
		_, err = store.AddToken(ctx, token)
	}
	return secret, err
}

// start starts the worker, the doors and the floors.
func (b *doorBench) start(ctx context.Context) (err error) {
	if b.worker, err = b.run(ctx, "worker", "--listen", "127.0.0.1:0"); err != nil {
		return err
	}
	for range instances {
		door, err := b.run(ctx, "serve", "--listen", "127.0.0.1:0")
		if err != nil {
			return err
		}
		b.doors = append(b.doors, door)
		var at string
		floor, err := startRole(ctx, roleHandler, task{Postgres: b.url}, &at)
		if err != nil {
			return err
		}
		b.floors, b.at = append(b.floors, floor), append(b.at, at)
	}
	return nil
}

// run starts a onejob command that listens.
func (b *doorBench) run(ctx context.Context, arguments ...string) (*clicks.Instance, error) {
	return clicks.Start(ctx, io.Discard, b.environment(), b.command, arguments...)
}

func (b *doorBench) environment() []string {
	return []string{"DATABASE_URL=" + b.url, "TEMPORAL_ADDRESS=" + b.temporal, "ONEJOB_CONFIG=" + b.config, "ONEJOB_TASK_QUEUE=" + onejobQueue}
}

func (b *doorBench) close(ctx context.Context) (err error) {
	for _, one := range append(b.doors, b.worker) {
		if one != nil {
			one.Kill()
		}
	}
	for _, floor := range b.floors {
		err = errors.Join(err, floor.end())
	}
	if b.conn != nil {
		err = errors.Join(err, b.conn.Close(context.WithoutCancel(ctx)))
	}
	return err
}

// clicks is a load on the doors, or on the floors.
func (b *doorBench) clicks(name system) clicks.Load {
	b.loads++
	l := clicks.Load{
		Token: b.token, Key: fmt.Sprintf("load-%03d-", b.loads), Clients: submitters,
		Body: func(n int) []byte {
			return fmt.Appendf(nil, `{"kind": "bench", "provider": "bench", "input": {"ticket": %d, "subject": "printer on floor 3 prints stripes", "body": "since Monday, every page, both trays"}}`, n)
		},
	}
	if name == systemFloor {
		l.Addresses = b.at
		return l
	}
	for _, door := range b.doors {
		l.Addresses = append(l.Addresses, door.Address)
	}
	return l
}

// measure runs the rounds, and then kills an instance under load.
func (b *doorBench) measure(ctx context.Context, o options) (*DoorReport, error) {
	report := newDoorReport(b.conditions)
	progress("warming up")
	for _, name := range []system{systemFloor, systemOnejob} {
		l := b.clicks(name)
		l.Clicks = warmUpJobs
		if _, _, err := b.load(ctx, name, l); err != nil {
			return nil, err
		}
	}
	for round := range o.rounds {
		if err := b.round(ctx, o, round, report); err != nil {
			return nil, fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	report.conclude()
	if o.kill > 0 {
		if err := b.killUnderLoad(ctx, o, report); err != nil {
			return nil, err
		}
	}
	return report, b.audit(ctx, report)
}

// round measures door and floor at saturation, and both at half of the rate at which the jobs were
// done: a rate at which nothing piles up.
func (b *doorBench) round(ctx context.Context, o options, n int, report *DoorReport) error {
	order := []system{systemOnejob, systemFloor}
	if n%2 == 1 {
		order = []system{systemFloor, systemOnejob}
	}
	for _, name := range order {
		l := b.clicks(name)
		if l.Clicks = o.jobs; name == systemFloor {
			l.Clicks, l.For = 0, floorClicks
		}
		if err := b.sample(ctx, n, o, name, saturated, l, report); err != nil {
			return err
		}
	}
	rate := o.rate
	if rate == 0 {
		rate = report.jobsPerSecond() / 2
	}
	for _, name := range order {
		l := b.clicks(name)
		l.For, l.PerSecond, l.Again = halfLoad, rate, name == systemOnejob
		if err := b.sample(ctx, n, o, name, half, l, report); err != nil {
			return err
		}
	}
	return nil
}

func (b *doorBench) sample(ctx context.Context, n int, o options, name system, load load, l clicks.Load, report *DoorReport) error {
	seen, done, err := b.load(ctx, name, l)
	if err != nil {
		return err
	}
	s := doorSample{system: name, load: load, seen: seen, acceptedPerSecond: float64(len(seen.Accepted)) / seen.Elapsed.Seconds(), donePerSecond: float64(len(seen.Accepted)) / done.Seconds()}
	report.samples = append(report.samples, s)
	progress("round %d of %d: %-6s %-10s %7.1f accepted/s, submit p50 %.1f ms p99 %.1f ms", n+1, o.rounds, name, load, s.acceptedPerSecond,
		quantile(seen.Took[clicks.Submit], 0.5), quantile(seen.Took[clicks.Submit], 0.99))
	return nil
}

// load runs one load, and returns what its clients saw and how long it took until all its jobs had
// ended.
func (b *doorBench) load(ctx context.Context, name system, l clicks.Load) (seen clicks.Report, done time.Duration, err error) {
	began := time.Now()
	if seen, err = l.Run(ctx); err != nil || name == systemFloor {
		return seen, time.Since(began), err
	}
	return seen, time.Since(began), errors.Join(b.awaitEnds(ctx), b.check(ctx, seen))
}

func (b *doorBench) awaitEnds(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, drain, fmt.Errorf("the jobs have not ended within %v", drain))
	defer cancel()
	return clicks.AwaitEnds(ctx, b.conn, doorOwner)
}

// check fails when an accepted click has no row, or was told of two jobs.
func (b *doorBench) check(ctx context.Context, seen clicks.Report) error {
	lost, err := seen.Lost(ctx, b.conn, doorOwner)
	if err == nil && len(lost)+len(seen.Other) > 0 {
		err = fmt.Errorf("accepted jobs are lost: %v; clicks were told of two: %v", lost, seen.Other)
	}
	return err
}

// killUnderLoad kills an instance in the middle of a load at half rate, and starts another at its
// address some time later.
func (b *doorBench) killUnderLoad(ctx context.Context, o options, report *DoorReport) error {
	progress("killing an instance under load for %v", o.kill)
	l := b.clicks(systemOnejob)
	l.For, l.PerSecond, l.Again = o.kill, max(1, report.jobsPerSecond()/2), true
	killing := make(chan error, 1)
	go func() { killing <- b.killAndReplace(ctx, o.kill/3) }()
	seen, _, err := b.load(ctx, systemOnejob, l)
	if err := errors.Join(err, <-killing); err != nil {
		return err
	}
	report.Kill = &KillReport{Seconds: o.kill.Seconds(), Accepted: len(seen.Accepted), Resent: seen.Resent(), Silent: seen.Silent, Errors: seen.Errors, SubmitP99: quantile(seen.Took[clicks.Submit], 0.99)}
	return nil
}

func (b *doorBench) killAndReplace(ctx context.Context, after time.Duration) error {
	wait := func() error {
		timer := time.NewTimer(after)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := wait(); err != nil {
		return err
	}
	victim := b.doors[0]
	victim.Kill()
	if err := wait(); err != nil {
		return err
	}
	next, err := b.run(ctx, "serve", "--listen", victim.Address)
	if err == nil {
		b.doors[0] = next
	}
	return err
}

// audit runs `onejob audit` when the consumers have applied everything.
func (b *doorBench) audit(ctx context.Context, report *DoorReport) error {
	progress("auditing")
	waiting, cancel := context.WithTimeoutCause(ctx, time.Minute, errors.New("consumers have not applied every message within a minute"))
	defer cancel()
	if err := clicks.AwaitApplied(waiting, b.conn); err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, b.command, "audit")
	cmd.Env, cmd.Stderr = append(os.Environ(), b.environment()...), &stderr
	output, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); failed {
		report.Audit = string(output) + stderr.String()
		return nil
	}
	report.AuditClean = err == nil
	return err
}
