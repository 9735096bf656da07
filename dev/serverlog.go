package dev

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
)

// portTries is how often a server is started anew when another process took the port
// between its choice and its use.
const portTries = 5

// freePort is a TCP port of 127.0.0.1 which nobody listens on at this moment.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("find a free port: %w", err)
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// serverLog is the file which a server's output goes to, over all its starts.
type serverLog struct{ path string }

// open opens the log for one start and returns where that start's output begins.
func (l serverLog) open() (*os.File, int64, error) {
	file, err := os.OpenFile(l.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return nil, 0, err
	}
	begin, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		file.Close()
		return nil, 0, err
	}
	return file, begin, nil
}

// since is what was written after begin; empty when the file cannot be read.
func (l serverLog) since(begin int64) string {
	file, err := os.Open(l.path)
	if err != nil {
		return ""
	}
	defer file.Close()
	text, _ := io.ReadAll(io.NewSectionReader(file, begin, 1<<20))
	return string(text)
}

// failure describes a start whose output begins at begin, with its last lines.
func (l serverLog) failure(begin int64, err error) error {
	return fmt.Errorf("%w\n%s\n(%s)", err, lastLines(l.since(begin), 15), l.path)
}

// lostPort tells whether that start failed because its port was taken.
func (l serverLog) lostPort(begin int64) bool {
	return strings.Contains(strings.ToLower(l.since(begin)), "address already in use")
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// progress tells the person who waits what is going on, one line at a time.
type progress struct {
	mu sync.Mutex
	w  io.Writer
}

func newProgress(w io.Writer) *progress {
	if w == nil {
		w = os.Stderr
	}
	return &progress{w: w}
}

// Write lets two servers which start at once share one writer.
func (p *progress) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.w.Write(line)
}

func (p *progress) printf(format string, args ...any) {
	fmt.Fprintf(p, "onejob: "+format+"\n", args...)
}

// environWithout is this process's environment less the variables with the prefix,
// plus the given ones.
func environWithout(prefix string, plus ...string) []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, prefix) {
			kept = append(kept, variable)
		}
	}
	return append(kept, plus...)
}
