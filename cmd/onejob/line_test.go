package main

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/onejob/onejob"
)

func collect(r io.Reader, most int) (lines []inputLine) {
	for line := range readLines(neverEnding, r, most) {
		lines = append(lines, line)
	}
	return lines
}

func TestLinesKeepTheirNumbersAndTexts(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200_000) // longer than the reader's buffer
	lines := collect(strings.NewReader("a\n\n"+long+"\nб\r\nlast"), 1<<20)
	want := []string{"a", "", long, "б\r", "last"}
	if len(lines) != len(want) {
		t.Fatalf("%d lines, want %d", len(lines), len(want))
	}
	for i, line := range lines {
		if line.number != i+1 || line.err != nil || string(line.text) != want[i] {
			t.Errorf("line %d is %.20q (%v)", line.number, line.text, line.err)
		}
	}
}

func TestLineThatIsTooLongIsPassedOver(t *testing.T) {
	t.Parallel()
	lines := collect(strings.NewReader(strings.Repeat("x", 300_000)+"\nnext\n"), 1000)
	if len(lines) != 2 || string(lines[1].text) != "next" || lines[1].number != 2 {
		t.Fatalf("%d lines, the last is %.20q", len(lines), lines[len(lines)-1].text)
	}
	err := lines[0].err
	if !errors.Is(err, onejob.ErrInvalidRequest) || !strings.Contains(err.Error(), "300001 bytes: the limit is 1000") || len(lines[0].text) > 0 {
		t.Errorf("the long line came as %v", err)
	}
}

// TestLongLineTakesNoMemory: what is passed over is not kept on the way.
func TestLongLineTakesNoMemory(t *testing.T) {
	const most = 1000
	line := strings.NewReader(strings.Repeat("x", 50<<20) + "\n")
	allocated := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			line.Seek(0, io.SeekStart)
			for range readLines(neverEnding, line, most) {
			}
		}
	}).AllocedBytesPerOp()
	if allocated > 1<<20 {
		t.Errorf("%d bytes were allocated for a line of at most %d", allocated, most)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, os.ErrDeadlineExceeded }

func TestReaderThatBreaksIsTold(t *testing.T) {
	t.Parallel()
	lines := collect(io.MultiReader(strings.NewReader("a\n"), brokenReader{}), 1000)
	if len(lines) != 2 || !errors.Is(lines[1].err, os.ErrDeadlineExceeded) {
		t.Errorf("the lines are %+v", lines)
	}
}

func TestLinesOfAFileAreCountedBefore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{"": 0, "a": 1, "a\n": 1, "a\nb": 2, "\n\n": 2} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := countLines(file); n != want {
			t.Errorf("%q has %d lines, want %d", text, n, want)
		}
		if rest, err := io.ReadAll(file); err != nil || string(rest) != text {
			t.Errorf("%q: %q is left to read (%v)", text, rest, err)
		}
		file.Close()
	}
	if n := countLines(new(bytes.Buffer)); n != -1 {
		t.Errorf("what is no file has %d lines, want -1", n)
	}
}
