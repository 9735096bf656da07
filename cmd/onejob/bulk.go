package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/starter"
)

const (
	besideInput = 256 << 10 // bytes of a line for everything but the input, escapes included
	waitAhead   = 10_000    // jobs submitted while the first of them is waited for
)

// startAll submits the requests of a file and prints one line for each.
func (f *startFlags) startAll(cmd *cobra.Command) error {
	if cmd.Flags().Changed("output") {
		return usagef("--file prints one line of JSON per line: leave --output out")
	}
	if f.file == "-" && f.input == "-" {
		return usagef("--file and --input cannot both read standard input: give one of them a file")
	}
	c, err := loadConfig()
	if err != nil {
		return err
	}
	if err := f.complete(cmd.InOrStdin(), c.Limits); err != nil {
		return err
	}
	file, err := openRequests(f.file, cmd.InOrStdin())
	if err != nil {
		return err
	}
	defer file.Close()
	return useCatalog(cmd.Context(), c.Catalog(), func(s *starter.Starter) error {
		b := &bulk{starter: s, defaults: f.request, wait: f.wait, most: c.Limits.OrDefault().InputBytes + besideInput}
		return b.run(cmd.Context(), file, cmd.OutOrStdout(), newProgress(cmd.ErrOrStderr(), file))
	})
}

func openRequests(path string, stdin io.Reader) (io.ReadCloser, error) {
	if path == "-" {
		return io.NopCloser(stdin), nil
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("--file cannot be read: %w", err)
	}
	return file, nil
}

// bulk submits many requests. It holds in memory what is on its way, never the file.
type bulk struct {
	starter  *starter.Starter
	defaults onejob.Request
	wait     bool
	most     int // bytes of a line
}

// lineAnswer is what became of one line.
type lineAnswer struct {
	line      int
	submitted onejob.Submitted
	err       error
}

// run submits the requests of r in their order and writes one line for each. An interrupt
// ends it after what is on its way, and so does Postgres when it is gone.
func (b *bulk) run(ctx context.Context, r io.Reader, w io.Writer, progress *progress) error {
	answers := make(chan lineAnswer, waitAhead)
	t := &tally{}
	group, failed := errgroup.WithContext(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer close(answers)
		return b.submit(ctx, failed, r, answers)
	})
	group.Go(func() error { return b.write(ctx, answers, w, t, progress) })
	err := group.Wait()
	progress.finish(t)
	if err == nil && ctx.Err() != nil {
		return onejob.Errorf("", "interrupted after line %d: run it again with the same file, what was accepted stays one job", t.lines)
	}
	return cmp.Or(err, t.err())
}

// submit sends what became of each line until the lines end or ctx does: then what was
// read is still submitted and told. It gives up when failed ends.
func (b *bulk) submit(ctx, failed context.Context, r io.Reader, answers chan<- lineAnswer) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(failed, stop)()
	var waiting []lineAnswer // on their way, in order; more than a chunk they never are
	requests := func(yield func(onejob.Request) bool) {
		for line := range readLines(reading, r, b.most) {
			request, err := b.decode(line)
			waiting = append(waiting, lineAnswer{line: line.number, err: err})
			if !yield(request) {
				return
			}
		}
	}
	for submitted, err := range b.starter.SubmitAll(failed, requests) {
		answer := waiting[0]
		waiting = waiting[1:]
		if answer.err == nil {
			answer.submitted, answer.err = submitted, err
		}
		select {
		case answers <- answer:
		case <-failed.Done():
			return nil
		}
		if onejob.CodeOf(answer.err) == onejob.CodeServerUnreachable {
			return onejob.Errorf(onejob.CodeServerUnreachable, "stopped at line %d: %w: run it again with the same file, what was accepted stays one job", answer.line, answer.err)
		}
	}
	return nil
}

// decode returns the request of a line, with the defaults for what it leaves out. For a
// line that is none it returns the zero request, which no catalog takes: so every line
// passes through the same pipe and keeps its place.
func (b *bulk) decode(line inputLine) (onejob.Request, error) {
	if line.err != nil {
		return onejob.Request{}, line.err
	}
	r := b.defaults
	r.Fallbacks, r.Labels, r.Input = nil, nil, nil
	if err := onejob.DecodeStrict("request", line.text, &r); err != nil {
		return onejob.Request{}, err
	}
	if r.Fallbacks == nil {
		r.Fallbacks = slices.Clone(b.defaults.Fallbacks)
	}
	if r.Labels == nil {
		r.Labels = maps.Clone(b.defaults.Labels)
	}
	if r.Input == nil {
		r.Input = b.defaults.Input
	}
	return r, nil
}

// write writes a line for each answer, in order.
func (b *bulk) write(ctx context.Context, answers <-chan lineAnswer, w io.Writer, t *tally, progress *progress) error {
	for answer := range answers {
		text, err := b.text(ctx, &answer)
		if err != nil {
			return err
		}
		progress.hide()
		if _, err := w.Write(text); err != nil {
			return err
		}
		t.count(answer)
		progress.show(t)
	}
	return nil
}

// text returns the line that tells what became of a line, after waiting for the job if
// that is asked for. A job that ended without a result makes the answer an error.
func (b *bulk) text(ctx context.Context, a *lineAnswer) ([]byte, error) {
	if a.err == nil && b.wait {
		return b.awaited(ctx, a)
	}
	return a.accepted()
}

// accepted returns the line that tells whether the job was accepted.
func (a *lineAnswer) accepted() ([]byte, error) {
	var object bytes.Buffer
	var err error
	if a.err != nil {
		err = writeJSON(&object, a.failed())
	} else {
		err = writeJSON(&object, a.submitted)
	}
	return numbered(a.line, object.Bytes()), err
}

func (b *bulk) awaited(ctx context.Context, a *lineAnswer) ([]byte, error) {
	d, err := b.starter.Wait(ctx, a.submitted.JobID)
	if ctx.Err() != nil { // nobody waits any more: what was accepted is told all the same
		return a.accepted()
	}
	if err != nil {
		return nil, err
	}
	a.err = outcomeError(d.View)
	object, err := newDetail(d, a.submitted.Created).object()
	if err != nil {
		return nil, err
	}
	var line bytes.Buffer // a result may be stored over several
	err = json.Compact(&line, object)
	line.WriteByte('\n')
	return numbered(a.line, line.Bytes()), err
}

// numbered puts the number of the input line in front of an object's members.
func numbered(line int, object []byte) []byte {
	return append(fmt.Appendf(nil, `{"line":%d,`, line), bytes.TrimPrefix(object, []byte("{"))...)
}

// failedLine is what is printed of a line that failed.
type failedLine struct {
	JobID string    `json:"job_id,omitempty"` // of a job that was accepted all the same
	Error lineError `json:"error"`
}

type lineError struct {
	Code    onejob.Code `json:"code"`
	Message string      `json:"message"`
}

func (a *lineAnswer) failed() failedLine {
	failed := failedLine{Error: lineError{Code: cmp.Or(onejob.CodeOf(a.err), "failed"), Message: oneLine(a.err)}}
	if failed.Error.Code == onejob.CodeMisconfigured {
		failed.JobID = a.submitted.JobID
	}
	return failed
}
