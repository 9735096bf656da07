package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"iter"

	"github.com/onejob/onejob"
)

// inputLine is one line of a file of requests.
type inputLine struct {
	number int // from 1
	text   []byte
	err    error // why text is not the whole line
}

// readLines yields the lines of r, each held in memory alone, until r or ctx ends. A line
// of more than most bytes comes with an error in place of its text. Behind the last line
// it yields what ended r, if that was not its end.
//
// It reads in a goroutine, so that ctx can end while r waits for a terminal or a pipe;
// where r never answers, that goroutine stays until the process ends.
func readLines(ctx context.Context, r io.Reader, most int) iter.Seq[inputLine] {
	return func(yield func(inputLine) bool) {
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		lines := make(chan inputLine)
		go func() {
			defer close(lines)
			feedLines(ctx, r, most, lines)
		}()
		for {
			select {
			case line, more := <-lines:
				if !more || !yield(line) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

func feedLines(ctx context.Context, r io.Reader, most int, lines chan<- inputLine) {
	reader := bufio.NewReaderSize(r, 64<<10)
	for number := 1; ctx.Err() == nil; number++ {
		text, err := readLine(reader, most)
		if errors.Is(err, io.EOF) {
			return
		}
		select {
		case lines <- inputLine{number: number, text: text, err: err}:
		case <-ctx.Done():
			return
		}
		if err != nil && onejob.CodeOf(err) == "" {
			return
		}
	}
}

// readLine returns the next line without its end, or [io.EOF] behind the last one. It
// passes over the rest of a line that is too long.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	length := 0
	for {
		part, err := r.ReadSlice('\n')
		length += len(part)
		if length <= most {
			line = append(line, part...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case length == 0:
			return nil, io.EOF
		case length > most:
			return nil, onejob.Errorf(onejob.CodeInvalidRequest, "the line has %d bytes: the limit is %d", length, most)
		}
		return bytes.TrimSuffix(line, []byte("\n")), nil
	}
}
