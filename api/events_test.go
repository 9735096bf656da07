package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob/api"
	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/simulator"
)

// told is an event of a stream.
type told struct {
	id, name string
	data     map[string]any
}

func (e told) String() string {
	if e.name == "attempt" {
		return fmt.Sprintf("attempt %v %v", e.data["number"], e.data["state"])
	}
	return fmt.Sprintf("%s %v", e.name, e.data["status"])
}

// stream is an open stream of events.
type stream struct {
	t        *testing.T
	response *http.Response
	lines    *bufio.Scanner
	close    func()
}

// follow opens a stream behind the event of that id; empty: from the beginning.
func (r *rig) follow(d *door, job, last string) *stream {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), patience)
	c := call{method: http.MethodGet, path: "/v1/jobs/" + job + "/events", token: r.token, header: map[string]string{"Accept": "text/event-stream"}}
	if last != "" {
		c.header["Last-Event-ID"] = last
	}
	response, err := http.DefaultClient.Do(c.request(r.t, ctx, d.address))
	if err != nil {
		r.t.Fatal(err)
	}
	s := &stream{r.t, response, bufio.NewScanner(response.Body), func() { cancel(); _ = response.Body.Close() }}
	r.t.Cleanup(s.close)
	return s
}

// next returns the next event, and false at the stream's end.
func (s *stream) next() (e told, ok bool) {
	s.t.Helper()
	for s.lines.Scan() {
		name, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch name {
		case "id":
			e.id = value
		case "event":
			e.name = value
		case "data":
			if err := json.Unmarshal([]byte(value), &e.data); err != nil {
				s.t.Fatal(err)
			}
		case "":
			if e.name != "" {
				return e, true
			}
		}
	}
	return e, false
}

// rest returns all events up to the stream's end.
func (s *stream) rest() (all []told) {
	for {
		e, ok := s.next()
		if !ok {
			return all
		}
		all = append(all, e)
	}
}

// until returns the events up to the first that is written so.
func (s *stream) until(want string) (all []told) {
	s.t.Helper()
	for {
		e, ok := s.next()
		if !ok {
			s.t.Fatalf("the stream ended before %q: %v", want, all)
		}
		if all = append(all, e); e.String() == want {
			return all
		}
	}
}

// held is a ticket whose provider waits at the gate.
func held(gate string) string {
	return fmt.Sprintf(`{"kind": "ticket", "provider": "primary", "input": {"text": "hello", "simulate": {"hold": %q}}}`, gate)
}

// TestStreamTellsAJobsLife from the submit to its end, and a client that comes back to another
// instance is told what it has not heard, and no event twice.
func TestStreamTellsAJobsLife(t *testing.T) {
	r := newRig(t)
	sim := r.work()
	gate := "gate-" + r.owner
	job := r.mustSubmit("k", held(gate))
	s := r.follow(r.door, job, "")
	if s.response.StatusCode != http.StatusOK || s.response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the stream is %d %v", s.response.StatusCode, s.response.Header)
	}
	heard := s.until("job running")
	if one := heard[len(heard)-2]; one.String() != "attempt 1 starting" || one.data["provider"] != "primary" {
		t.Errorf("told %v", heard)
	}
	s.close()
	if _, err := sim.AwaitRequest(t.Context(), simulator.Subject{Job: job}, 1); err != nil {
		t.Fatal(err)
	}
	if n, err := sim.Release(t.Context(), gate); err != nil || n != 1 {
		t.Fatalf("released %d, %v", n, err)
	}
	r.eventually("the job succeeds", func() bool { return r.get("/v1/jobs/"+job).field(t, "status") == "succeeded" })
	rest := r.follow(r.open(), job, heard[len(heard)-1].id).rest()
	lines := []string{}
	for _, e := range rest {
		lines = append(lines, e.String())
	}
	if !slices.Equal(lines, []string{"attempt 1 succeeded", "job succeeded"}) {
		t.Errorf("after coming back it was told %v", lines)
	}
	over := r.follow(r.door, job, rest[len(rest)-1].id)
	if over.response.StatusCode != http.StatusNoContent {
		t.Errorf("with nothing left to follow the answer is %d", over.response.StatusCode)
	}
	between := r.follow(r.door, job, rest[0].id).rest()
	if len(between) != 1 || between[0].String() != "job succeeded" {
		t.Errorf("behind the last but one it was told %v", between)
	}
	if all := r.follow(r.door, job, "").rest(); len(all) != 2 {
		t.Errorf("from the beginning it was told %v", all)
	}
}

func TestStreamRefusesWhatIsNoEventsID(t *testing.T) {
	r := newRig(t)
	job := r.mustSubmit("k", ticket)
	for _, id := range []string{"x", "0-none-", "0-running", "-1-running-s", "0-running-" + strings.Repeat("s", 2000), "0-running-s;"} {
		got := r.do(call{method: http.MethodGet, path: "/v1/jobs/" + job + "/events", token: r.token, header: map[string]string{"Last-Event-ID": id}})
		if got.problem() != "invalid-request" {
			t.Errorf("%.40q got %d %s", id, got.status, got.body)
		}
	}
}

// TestLongPollAnswersWhenTheJobEnds, also past the time that a request's bytes get.
func TestLongPollAnswersWhenTheJobEnds(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Timeouts = api.Timeouts{Read: 2 * time.Second, Write: 3 * time.Second}
	})
	job := r.mustSubmit("k", ticket)
	if got := r.get("/v1/jobs/" + job + "?wait=4s"); got.status != http.StatusOK || got.field(t, "status") != "accepted" {
		t.Errorf("without an end the answer is %d %s", got.status, got.body)
	}
	answered := make(chan answer, 1)
	go func() { answered <- r.get("/v1/jobs/" + job + "?wait=30s") }()
	r.eventually("somebody waits", func() bool { return r.door.Waiting() == 1 })
	if got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/cancel", token: r.token, body: `{}`}); got.status != http.StatusOK {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	if got := <-answered; got.status != http.StatusOK || got.field(t, "status") != "cancelled" {
		t.Errorf("at the end the answer is %d %s", got.status, got.body)
	}
	for _, wait := range []string{"1", "-1s", "3m", "soon"} {
		if got := r.get("/v1/jobs/" + job + "?wait=" + wait); got.problem() != "invalid-request" {
			t.Errorf("wait=%s got %d %s", wait, got.status, got.body)
		}
	}
}

// TestClientsThatGoAwayLeaveNothingBehind: neither a goroutine nor a watch.
func TestClientsThatGoAwayLeaveNothingBehind(t *testing.T) {
	address, _ := testservers.Temporal(t)
	r := newRigOn(t, address) // alone: no other test's goroutines
	job := r.mustSubmit("k", ticket)
	const clients = 20
	for i := range clients {
		ctx, cancel := context.WithCancel(t.Context())
		path := "/v1/jobs/" + job + "/events"
		if i%2 == 0 {
			path = "/v1/jobs/" + job + "?wait=1m"
		}
		transport := &http.Transport{}
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			response, err := transport.RoundTrip(call{method: http.MethodGet, path: path, token: r.token}.request(t, ctx, r.door.address))
			if err == nil {
				<-ctx.Done()
				_ = response.Body.Close()
			}
		}()
		r.eventually("the client waits", func() bool { return r.door.Waiting() == 1 })
		cancel()
		<-gone
		transport.CloseIdleConnections()
		r.eventually("nobody waits", func() bool { return r.door.Waiting() == 0 })
	}
	r.eventually("no goroutine is left in the door's handlers", func() bool {
		return !strings.Contains(stacks(), "api.(*Door).await") && !strings.Contains(stacks(), "api.(*Door).tell")
	})
}

// stacks are the stacks of all goroutines.
func stacks() string {
	text := make([]byte, 4<<20)
	return string(text[:runtime.Stack(text, true)])
}

// TestStopEndsWhatWaits: a long poll with how the job is, a stream so that it can be gone on with.
func TestStopEndsWhatWaits(t *testing.T) {
	r := newRig(t)
	job := r.mustSubmit("k", ticket)
	second := r.open()
	answered := make(chan answer, 1)
	go func() {
		answered <- r.doAt(second, call{method: http.MethodGet, path: "/v1/jobs/" + job + "?wait=2m", token: r.token})
	}()
	s := r.follow(second, job, "")
	heard := s.until("job accepted")
	r.eventually("both wait", func() bool { return second.Waiting() == 2 })
	began := time.Now()
	second.stop()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the stop took %v", took)
	}
	if got := <-answered; got.status != http.StatusOK || got.field(t, "status") != "accepted" {
		t.Errorf("the long poll got %d %s", got.status, got.body)
	}
	if rest := s.rest(); len(rest) != 0 {
		t.Errorf("the stream told %v", rest)
	}
	if got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/cancel", token: r.token, body: `{}`}); got.status != http.StatusOK {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	if rest := r.follow(r.door, job, heard[len(heard)-1].id).rest(); len(rest) != 1 || rest[0].String() != "job cancelled" {
		t.Errorf("at the other instance it was told %v", rest)
	}
}

func TestSoManyWaitAndNoMore(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Waiting = 2 })
	job := r.mustSubmit("k", ticket)
	r.follow(r.door, job, "").until("job accepted")
	r.follow(r.door, job, "").until("job accepted")
	for _, path := range []string{"/events", "?wait=1s"} {
		if got := r.get("/v1/jobs/" + job + path); got.problem() != "unavailable" || got.header.Get("Retry-After") == "" {
			t.Errorf("%s got %d %s", path, got.status, got.body)
		}
	}
	if got := r.get("/v1/jobs/" + job); got.status != http.StatusOK {
		t.Errorf("who does not wait got %d", got.status)
	}
}

// TestWhoWaitsIsToldAfterAnOutageOfPostgres: a long poll and a stream that were open before.
func TestWhoWaitsIsToldAfterAnOutageOfPostgres(t *testing.T) {
	r := newRig(t)
	job := r.mustSubmit("k", ticket)
	answered := make(chan answer, 1)
	go func() { answered <- r.get("/v1/jobs/" + job + "?wait=2m") }()
	s := r.follow(r.door, job, "")
	s.until("job accepted")
	r.eventually("both wait", func() bool { return r.door.Waiting() == 2 })
	ready := func() bool {
		return r.do(call{method: http.MethodGet, path: "/readyz"}).status == http.StatusOK
	}
	end := r.outage()
	r.eventually("the door knows of the outage", func() bool { return !ready() })
	end()
	r.eventually("the outage is over", ready)
	if got := r.do(call{method: http.MethodPost, path: "/v1/jobs/" + job + "/cancel", token: r.token, body: `{}`}); got.status != http.StatusOK {
		t.Fatalf("the cancel got %d %s", got.status, got.body)
	}
	select {
	case got := <-answered:
		if got.status != http.StatusOK || got.field(t, "status") != "cancelled" {
			t.Errorf("the long poll got %d %s", got.status, got.body)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the long poll was told nothing")
	}
	if rest := s.rest(); len(rest) != 1 || rest[0].String() != "job cancelled" {
		t.Errorf("the stream told %v", rest)
	}
}

// outage ends all connections to the rig's database and lets nobody in until its end.
func (r *rig) outage() (end func()) {
	r.t.Helper()
	config, err := pgx.ParseConfig(r.url)
	if err != nil {
		r.t.Fatal(err)
	}
	name := config.Database
	server := pgtestConnect(r.t, testservers.PostgresURL(r.t))
	exec := func(sql string, arguments ...any) {
		r.t.Helper()
		if _, err := server.Exec(r.t.Context(), sql, arguments...); err != nil {
			r.t.Fatal(err)
		}
	}
	database := pgx.Identifier{name}.Sanitize()
	exec(`ALTER DATABASE ` + database + ` ALLOW_CONNECTIONS false`)
	exec(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1`, name)
	return func() {
		r.t.Helper()
		exec(`ALTER DATABASE ` + database + ` ALLOW_CONNECTIONS true`)
	}
}
