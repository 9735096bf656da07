package simulator_test

import (
	"context"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/onejob/onejob/simulator"
)

func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- simulator.New(simulator.Options{}).Run(ctx, listener) }()
	url := "http://" + listener.Addr().String()
	client := simulator.NewClient(url)
	r := &rig{Client: client, t: t, url: url, http: &http.Client{Transport: &http.Transport{}}}
	t.Cleanup(client.Close)
	t.Cleanup(r.http.CloseIdleConnections)
	answers := r.start(t.Context(), request{job: "j", attempt: 1, body: simulate(`{"silence":true}`)})
	r.mustAwaitExecution("j")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, ok := <-answers; ok {
		t.Errorf("%+v", got)
	}
	if _, err := client.Totals(t.Context()); err == nil || !strings.Contains(err.Error(), "simulator:") {
		t.Errorf("it still answers: %v", err)
	}
}

func TestRunReportsABrokenListener(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = listener.Close()
	if err := simulator.New(simulator.Options{}).Run(t.Context(), listener); err == nil {
		t.Error("no error")
	}
}
