package simulator

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"
)

// Delivery is one try to deliver a callback.
type Delivery struct {
	ID      string `json:"id"` // of the message: the same for its repetitions
	Job     string `json:"job"`
	Attempt int    `json:"attempt"`
	Key     string `json:"key,omitempty"`
	Status  int    `json:"status,omitempty"` // that it got; 0: no answer
	Error   string `json:"error,omitempty"`  // why there is none
}

// deliveries are the newest tries.
type deliveries struct {
	most  int
	board *board

	mu  sync.Mutex
	all []Delivery
}

// add notes a try of the call's callback, before it is counted.
func (d *deliveries) add(one *run, tried Delivery) {
	tried.Job, tried.Attempt, tried.Key = one.job, one.attempt, one.key
	d.mu.Lock()
	if d.all = append(d.all, tried); len(d.all) > d.most {
		d.all = d.all[1:]
	}
	d.mu.Unlock()
	d.board.note(one.subjects(), func(c *Counts) { c.Deliveries++ })
}

// of returns the tries that the subject's callbacks had, the oldest first.
func (d *deliveries) of(s Subject) []Delivery {
	d.mu.Lock()
	defer d.mu.Unlock()
	found := []Delivery{}
	for _, one := range d.all {
		if s.has(one.Job, one.Attempt, one.Key) {
			found = append(found, one)
		}
	}
	return found
}

// The pauses between the tries of a delivery start with callbackPause and double.
const (
	callbackPause    = 50 * time.Millisecond
	callbackPatience = 10 * time.Second // with one try
	mostAnswerBytes  = 1 << 20          // read of an answer to a callback
)

// deliver sends the message until it gets a 2xx, or its tries are used up.
func (e *era) deliver(one *run, m message) {
	tries := one.Callback.Tries
	if tries == 0 {
		tries = defaultTries
	}
	pause := callbackPause
	for n := range tries {
		if n > 0 && !e.wait(e.ctx, pause) {
			return
		}
		tried := e.send(one, m)
		e.deliveries.add(one, tried)
		if tried.Status/100 == 2 || e.ctx.Err() != nil {
			return
		}
		pause *= 2
	}
}

// send tries once.
func (e *era) send(one *run, m message) Delivery {
	ctx, cancel := context.WithTimeout(e.ctx, callbackPatience)
	defer cancel()
	tried := Delivery{ID: m.id}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, one.callback, bytes.NewReader(m.body))
	if err != nil {
		tried.Error = err.Error()
		return tried
	}
	by := *e.signer
	if one.Callback.WrongSignature {
		by = by.forged()
	}
	req.Header = by.sign(m, time.Now().Add(-time.Duration(one.Callback.Age)))
	resp, err := callbackClient.Do(req)
	if err != nil {
		tried.Error = err.Error()
		return tried
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, mostAnswerBytes)) // only the status counts
	tried.Status = resp.StatusCode
	return tried
}

// callbackClient keeps no connections and follows no redirects.
var callbackClient = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}
