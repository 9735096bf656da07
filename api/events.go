package api

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"
)

func (d *Door) addEvents() {
	add(d, route{
		method: http.MethodGet, path: "/v1/jobs/{job}/events", id: "follow-job", tag: "Jobs", summary: "Follow a job",
		description: "Server-sent events: `attempt` with an attempt, and `job` with the job without attempts and payloads, first how it is and then each time that it has changed. " +
			"States that pass between two looks are not told one by one. The stream ends after the job is closed. An event's id says how far the job " +
			"was followed: with `Last-Event-ID` any instance goes on behind it, and answers 204 when there is nothing left to follow, which ends an EventSource.",
		problems: []ProblemType{notFound},
	}, d.follow)
	op := d.api.OpenAPI().Paths["/v1/jobs/{job}/events"].Get
	op.Responses["200"] = &huma.Response{Description: "A stream", Content: map[string]*huma.MediaType{"text/event-stream": {
		Schema:  &huma.Schema{Type: huma.TypeString},
		Example: "id: 0-running-s\nevent: attempt\ndata: {\"number\": 1, \"provider\": \"primary\", \"state\": \"starting\"}\n\n",
	}}}
	op.Responses["204"] = &huma.Response{Description: "The job is closed, and its last event was told"}
}

type followInput struct {
	JobPath
	LastEventID string `header:"Last-Event-ID" doc:"The id of the last event that was read." example:"0-running-s"`
}

func (d *Door) follow(ctx context.Context, in *followInput) (*huma.StreamResponse, error) {
	found, err := d.job(ctx, in.Job)
	if err != nil {
		return nil, err
	}
	var at position
	if in.LastEventID != "" {
		if at, err = parsePosition(in.LastEventID); err != nil {
			return nil, err
		}
	}
	if found.Status.Closed() && len(at.since(found.View)) == 0 {
		return &huma.StreamResponse{Body: func(ctx huma.Context) { ctx.SetStatus(http.StatusNoContent) }}, nil
	}
	changes, err := d.watch(exchangeOf(ctx), found.JobID, byStream)
	if err != nil {
		return nil, err
	}
	s := &stream{exchange: exchangeOf(ctx), patience: d.options.Timeouts.Write}
	return &huma.StreamResponse{Body: func(huma.Context) {
		defer changes.end()
		if err := d.tell(ctx, s, found.JobID, at, changes); err != nil && ctx.Err() == nil {
			d.options.Logger.Warn("a stream ended early", "job_id", found.JobID, "error", err)
		}
	}}, nil
}

// tell tells the job's events until it is closed, its client is gone or the door stops.
func (d *Door) tell(ctx context.Context, s *stream, jobID string, at position, changes *watch) error {
	if err := s.begin("retry: 1000\n\n"); err != nil {
		return err
	}
	ping := time.NewTicker(d.options.Timeouts.Ping)
	defer ping.Stop()
	for {
		found, err := d.job(ctx, jobID)
		if err != nil {
			return err
		}
		for _, e := range at.since(found.View) {
			if err := s.event(e); err != nil {
				return err
			}
			at = e.at
		}
		if found.Status.Closed() {
			return nil
		}
		if err := s.wait(ctx, changes.changed, nil, ping.C, d.draining); err != nil {
			return ignoreEnd(err)
		}
	}
}

// stream writes server-sent events. A write that the client does not take in time fails.
type stream struct {
	*exchange
	patience time.Duration // of a write
}

// begin sends the head of the answer and the first text.
func (s *stream) begin(text string) error {
	h := s.writer.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // of nginx
	s.writer.WriteHeader(http.StatusOK)
	return s.write([]byte(text))
}

func (s *stream) event(e event) error {
	told, err := marshal(e.told)
	if err != nil {
		return err
	}
	return s.write(fmt.Appendf(nil, "id: %s\nevent: %s\ndata: %s\n\n", e.at, e.name, told))
}

func (s *stream) write(text []byte) error {
	if err := s.control.SetWriteDeadline(time.Now().Add(s.patience)); err != nil {
		return err
	}
	if _, err := s.writer.Write(text); err != nil {
		return err
	}
	return s.control.Flush()
}

// errEnd ends a stream in order.
var errEnd = fmt.Errorf("the stream ends")

func ignoreEnd(err error) error {
	if err == errEnd {
		return nil
	}
	return err
}

// wait waits for a change, and writes a comment now and then, which finds out whether the client
// is still there. It returns errEnd when there is nothing more to wait for.
func (s *stream) wait(ctx context.Context, changed <-chan struct{}, over, ping <-chan time.Time, draining <-chan struct{}) error {
	for {
		select {
		case <-changed:
			return nil
		case <-ping:
			if err := s.write([]byte(": still here\n\n")); err != nil {
				return err
			}
		case <-ctx.Done():
			return errEnd
		case <-over:
			return errEnd
		case <-draining:
			return errEnd
		}
	}
}

// marshal writes v as one line. Characters stand as they are.
func marshal(v any) ([]byte, error) {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(v)
	return bytes.TrimSuffix(text.Bytes(), []byte("\n")), err
}
