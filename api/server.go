package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"
)

// mostHeaderBytes bounds a request's headers.
const mostHeaderBytes = 32 << 10

// Run answers on the listener until ctx ends. Then it takes nothing new, ends what waits (a long
// poll with how the job is, a stream so that its client comes back elsewhere), and lets requests
// under way end.
func (d *Door) Run(ctx context.Context, listener net.Listener) error {
	t := d.options.Timeouts
	server := &http.Server{
		Handler: d.Handler(), ReadHeaderTimeout: t.Header, ReadTimeout: t.Read, WriteTimeout: t.Write, IdleTimeout: t.Idle,
		MaxHeaderBytes: mostHeaderBytes, ErrorLog: slog.NewLogLogger(d.options.Logger.Handler(), slog.LevelDebug),
	}
	watching, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	var beside sync.WaitGroup
	beside.Go(func() { d.watcher.run(watching) })
	defer beside.Wait()
	defer stopWatching()
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		d.stop(context.WithoutCancel(ctx), server)
	})
	err := server.Serve(listener)
	if stop() { // it ended by itself
		return fmt.Errorf("serve the door: %w", err)
	}
	<-stopped
	if !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the door: %w", err)
	}
	return nil
}

// stop ends what waits, and then the server.
func (d *Door) stop(ctx context.Context, server *http.Server) {
	close(d.draining)
	ctx, cancel := context.WithTimeout(ctx, d.options.Timeouts.Drain)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		d.options.Logger.Warn("requests are cut: they did not end in time", "drain", d.options.Timeouts.Drain, "error", err)
		_ = server.Close() // what is left has had its time
	}
}

// patiently gives an answer that much time beside what every answer has.
func (x *exchange) patiently(more time.Duration, t Timeouts) error {
	return x.control.SetWriteDeadline(time.Now().Add(more + t.Write))
}
