package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/simulator"
)

const providerName = "bench"

// providerPart is a simulated provider that answers every call alike.
type providerPart struct {
	address string
	stop    context.CancelFunc
	stopped chan error
}

func newProviderPart(ctx context.Context, t task) (part, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	simulated := simulator.New(simulator.Options{Plan: simulator.Plan{Latency: simulator.Duration(t.Latency)}})
	p := &providerPart{address: listener.Addr().String(), stopped: make(chan error, 1)}
	ctx, p.stop = context.WithCancel(context.WithoutCancel(ctx))
	go func() { p.stopped <- simulated.Run(ctx, listener) }()
	return p, nil
}

func (p *providerPart) ready() any { return "http://" + p.address + "/v1/run" }

func (p *providerPart) work(context.Context) (any, error) {
	return nil, errors.New("it has no orders to wait for")
}

func (p *providerPart) end() error {
	p.stop()
	return <-p.stopped
}

// benchProvider is the provider as a worker knows it.
func benchProvider(url string) (provider.Provider, error) {
	adapter, err := httpjson.New(httpjson.Config{Name: providerName, URL: url, IdempotencyHeader: "Idempotency-Key"})
	return provider.Provider{Name: providerName, Adapter: adapter, Timeout: 30 * time.Second, ListenFor: time.Minute}, err
}
