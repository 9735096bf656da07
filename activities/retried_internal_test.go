package activities

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestWhatPostgresDoesNotTakeIsSaidAtOnceAndEveryMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var said bytes.Buffer
		log := logOf(slog.New(slog.NewTextHandler(&said, nil)), "job-1", 2)
		for _, c := range []struct {
			after time.Duration
			lines int
		}{{time.Second, 1}, {2*time.Minute + 10*time.Second, 3}} {
			said.Reset()
			ctx, cancel := context.WithTimeout(t.Context(), c.after)
			_, err := retried(ctx, log, func(context.Context) (int, error) { return 0, errors.New("refused") })
			cancel()
			if err == nil || strings.Count(said.String(), "error=refused") != c.lines || !strings.Contains(said.String(), "job_id=job-1 attempt=2") {
				t.Errorf("in %s: %v\n%s", c.after, err, said.String())
			}
		}
	})
}
