package webhooks_test

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob/faults/pgproxy"
	"github.com/onejob/onejob/postgres/pgtest"
	"github.com/onejob/onejob/webhooks"
)

func TestOutageIsToldOnceByTheSender(t *testing.T) {
	t.Parallel()
	proxy := pgproxy.Start(t, pgtest.URL(t))
	store := pgtest.Open(t, proxy.URL())
	proxy.Refuse()
	proxy.CutAll()
	var log bytes.Buffer
	sender := webhooks.NewSender(webhooks.Options{Store: store, Policy: inside, Every: time.Millisecond, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); sender.Run(ctx) }()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(time.Minute); proxy.Refusals() < 8; <-ticker.C {
		if time.Now().After(deadline) {
			t.Fatal("the database is not asked again")
		}
	}
	stop()
	<-ended
	if n := strings.Count(log.String(), "level=WARN"); n != 1 {
		t.Errorf("the outage was told %d times:\n%s", n, log.String())
	}
}
