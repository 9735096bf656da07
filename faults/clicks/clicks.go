// Package clicks is the door's clients under load. Each click is an intention of its own, sent to
// one instance; when no answer comes, or one that says 'not now', the same is sent again under the
// same key to the next instance, until it is taken. So what a click was answered at last can be
// held against the rows.
package clicks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Load is how clients click.
type Load struct {
	Addresses []string // of the instances
	Token     string
	Key       string             // what keys begin with
	Body      func(n int) []byte // of click n's submit
	Clients   int                // that click at once
	Clicks    int                // in all; 0: as many as For allows
	For       time.Duration      // 0: until all clicks are done
	PerSecond float64            // click n is due n/PerSecond seconds after the first; 0: as fast as answers come
	Again     bool               // each is sent once more to the next instance, and read there
}

// The bounds of one click.
const (
	answerTimeout = 10 * time.Second
	mostTries     = 100
	betweenTries  = 50 * time.Millisecond
	mostAnswer    = 1 << 20
)

// Accepted is a click that was taken.
type Accepted struct {
	Key   string
	JobID string
	Tries int
}

// Report is what clients saw.
type Report struct {
	Accepted []Accepted
	Took     map[string][]float64 // ms, by what was done: submit (since the click was due), again, read
	Silent   int                  // requests without an answer: refused, cut, or nothing within 10 s
	Errors   map[int]int          // answers that took nothing, by status
	Other    []string             // answers about another job than the first one; none is right
	Elapsed  time.Duration
}

// What clients do.
const (
	Submit = "submit"
	Again  = "again"
	Read   = "read"
)

// Run clicks until all is done. It fails when a click was not taken within a hundred tries.
func (l Load) Run(ctx context.Context) (Report, error) {
	r := &run{Load: l, client: &http.Client{Timeout: answerTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: l.Clients, MaxConnsPerHost: l.Clients,
		DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext}}, began: time.Now()}
	r.report.Took, r.report.Errors = map[string][]float64{}, map[int]int{}
	defer r.client.CloseIdleConnections()
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	var clients sync.WaitGroup
	for range l.Clients {
		clients.Go(func() {
			for {
				n := int(r.next.Add(1)) - 1
				if ctx.Err() != nil || !r.due(ctx, n) {
					return
				}
				if err := r.click(ctx, n); err != nil {
					fail(err)
					return
				}
			}
		})
	}
	clients.Wait()
	r.report.Elapsed = time.Since(r.began)
	return r.report, context.Cause(ctx)
}

// run is a load under way.
type run struct {
	Load
	client *http.Client
	began  time.Time
	next   atomic.Int64

	mu     sync.Mutex
	report Report
}

// due waits until click n is due. It returns false if there is no such click.
func (r *run) due(ctx context.Context, n int) bool {
	if r.Clicks > 0 && n >= r.Clicks {
		return false
	}
	if at := time.Until(r.dueAt(n)); at > 0 {
		timer := time.NewTimer(at)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return false
		}
	}
	return r.For == 0 || time.Since(r.began) < r.For
}

// dueAt is when click n is due: with a rate, whatever became of the others.
func (r *run) dueAt(n int) time.Time {
	if r.PerSecond == 0 {
		return time.Now()
	}
	return r.began.Add(time.Duration(float64(n) / r.PerSecond * float64(time.Second)))
}

// click submits one intention until it is taken, and then as often as it is to be.
func (r *run) click(ctx context.Context, n int) error {
	key, due := fmt.Sprintf("%s%06d", r.Key, n), time.Now()
	if r.PerSecond > 0 {
		due = r.dueAt(n)
	}
	text := r.Body(n)
	jobID, tries, err := r.until(ctx, n, key, text)
	if err != nil {
		return err
	}
	r.note(Submit, due, func() { r.report.Accepted = append(r.report.Accepted, Accepted{key, jobID, tries}) })
	if !r.Again {
		return nil
	}
	began := time.Now()
	second, _, err := r.until(ctx, n+1, key, text)
	if err != nil {
		return err
	}
	r.note(Again, began, func() { r.compare(jobID, second) })
	began = time.Now()
	read, status := r.ask(ctx, http.MethodGet, r.address(n+1)+"/v1/jobs/"+jobID, "", nil)
	if status == http.StatusOK {
		r.note(Read, began, func() { r.compare(jobID, read) })
	}
	return nil
}

func (r *run) compare(first, now string) {
	if now != first {
		r.report.Other = append(r.report.Other, first+" became "+now)
	}
}

// until submits until it is taken, first to the instance of that turn, then to the others.
func (r *run) until(ctx context.Context, turn int, key string, text []byte) (jobID string, tries int, err error) {
	for tries = 1; tries <= mostTries; tries++ {
		jobID, status := r.ask(ctx, http.MethodPost, r.address(turn+tries-1)+"/v1/jobs", key, text)
		if slices.Contains([]int{http.StatusCreated, http.StatusOK, http.StatusAccepted}, status) {
			return jobID, tries, nil
		}
		timer := time.NewTimer(betweenTries)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return "", tries, context.Cause(ctx)
		}
	}
	return "", tries, fmt.Errorf("click %s was not taken in %d tries", key, mostTries)
}

func (r *run) address(turn int) string { return "http://" + r.Addresses[turn%len(r.Addresses)] }

// ask sends one request. Without an answer the status is 0.
func (r *run) ask(ctx context.Context, method, url, key string, body []byte) (jobID string, status int) {
	var answer struct {
		JobID string `json:"job_id"`
	}
	status, err := r.send(ctx, method, url, key, body, &answer)
	if ctx.Err() != nil {
		return "", 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.report.Silent++
		return "", 0
	}
	if status >= http.StatusBadRequest || answer.JobID == "" {
		r.report.Errors[status]++
	}
	return answer.JobID, status
}

// send counts an answer only if it is whole.
func (r *run) send(ctx context.Context, method, url, key string, body []byte, into any) (status int, err error) {
	request, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	request.GetBody = nil // the transport repeats nothing by itself
	request.Header.Set("Authorization", "Bearer "+r.Token)
	request.Header.Set("Content-Type", "application/json")
	if key != "" {
		request.Header["Idempotency-Key"] = []string{key}
	}
	response, err := r.client.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, mostAnswer))
	if err != nil {
		return 0, err
	}
	return response.StatusCode, json.Unmarshal(text, into)
}

func (r *run) note(what string, began time.Time, also func()) {
	took := float64(time.Since(began)) / 1e6
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Took[what] = append(r.report.Took[what], took)
	also()
}
