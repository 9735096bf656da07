package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/onejob/onejob"
)

// tally counts what became of the lines of a file.
type tally struct {
	lines, created, there    int
	conflicts, failed, ended int // ended: jobs that were waited for and have no result
}

func (t *tally) count(a lineAnswer) {
	t.lines++
	switch {
	case errors.Is(a.err, onejob.ErrConflict):
		t.conflicts++
	case errors.Is(a.err, onejob.ErrJobFailed):
		t.ended++
	case a.err != nil:
		t.failed++
	case a.submitted.Created:
		t.created++
	default:
		t.there++
	}
}

func (t *tally) String() string {
	text := fmt.Sprintf("%d lines: %d new jobs, %d there before", t.lines, t.created, t.there)
	for _, n := range []struct {
		count int
		what  string
	}{{t.conflicts, "in conflict"}, {t.failed, "refused"}, {t.ended, "without a result"}} {
		if n.count > 0 {
			text += fmt.Sprintf(", %d %s", n.count, n.what)
		}
	}
	return text
}

// err returns the error of the worst line.
func (t *tally) err() error {
	switch {
	case t.conflicts > 0:
		return onejob.Errorf(onejob.CodeConflict, "%s: the lines with an error say why", t)
	case t.failed > 0:
		return onejob.Errorf("", "%s: the lines with an error say why", t)
	case t.ended > 0:
		return onejob.Errorf(onejob.CodeJobFailed, "%s: the lines with an error say why", t)
	}
	return nil
}

// progress tells how far a file is: as a bar where a person watches, else in lines.
type progress struct {
	w     io.Writer
	bar   *progressbar.ProgressBar // nil: lines
	every time.Duration            // between two lines
	next  time.Time
}

// newProgress returns the progress of reading from, whose lines are counted before if it
// is a file.
func newProgress(w io.Writer, from io.Reader) *progress {
	p := &progress{w: w, every: 2 * time.Second}
	if file, ok := w.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		p.bar = progressbar.NewOptions64(countLines(from), progressbar.OptionSetWriter(w), progressbar.OptionShowCount(),
			progressbar.OptionShowIts(), progressbar.OptionSetItsString("lines"), progressbar.OptionFullWidth(),
			progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionSetDescription("submitting"))
	}
	p.next = time.Now().Add(p.every)
	return p
}

// hide makes room for a line: standard output may be the same terminal.
func (p *progress) hide() {
	if p.bar != nil {
		_ = p.bar.Clear() // a terminal that is gone
	}
}

func (p *progress) show(t *tally) {
	if p.bar != nil {
		_ = p.bar.Set(t.lines) // a terminal that is gone
		return
	}
	if now := time.Now(); now.After(p.next) {
		p.next = now.Add(p.every)
		fmt.Fprintf(p.w, "onejob: %s so far\n", t)
	}
}

// finish tells the end, unless an error will.
func (p *progress) finish(t *tally) {
	if p.bar != nil {
		_ = p.bar.Exit()
		fmt.Fprintln(p.w)
	}
	if t.err() == nil {
		fmt.Fprintf(p.w, "onejob: %s\n", t)
	}
}

// countLines returns how many lines a regular file has, or -1.
func countLines(from io.Reader) int64 {
	file, ok := from.(*os.File)
	if !ok {
		return -1
	}
	if about, err := file.Stat(); err != nil || !about.Mode().IsRegular() {
		return -1
	}
	var lines, size int64
	var last byte
	buffer := make([]byte, 256<<10)
	for {
		n, err := file.ReadAt(buffer, size)
		if n > 0 {
			last = buffer[n-1]
		}
		lines += int64(bytes.Count(buffer[:n], []byte("\n")))
		size += int64(n)
		if err == io.EOF && last != '\n' && size > 0 {
			lines++
		}
		if err != nil {
			return lines
		}
	}
}
