package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// handlerPart is the door's floor: an HTTP handler that does one INSERT and nothing else. It asks
// for no token, compares nothing and starts nothing.
type handlerPart struct {
	pool    *pgxpool.Pool
	server  *http.Server
	address string
	stopped chan error
}

// handlerTable is what floors write into.
const handlerTable = `CREATE TABLE IF NOT EXISTS bench_floor (id uuid PRIMARY KEY, idempotency_key text NOT NULL UNIQUE, input json NOT NULL)`

func newHandlerPart(ctx context.Context, t task) (part, error) {
	pool, err := pgxpool.New(context.WithoutCancel(ctx), t.Postgres)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		pool.Close()
		return nil, err
	}
	p := &handlerPart{pool: pool, address: listener.Addr().String(), stopped: make(chan error, 1)}
	p.server = &http.Server{Handler: p, ReadTimeout: 30 * time.Second, WriteTimeout: time.Minute}
	go func() { p.stopped <- p.server.Serve(listener) }()
	return p, nil
}

func (p *handlerPart) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
	id := uuid.Must(uuid.NewV7()).String()
	if err == nil {
		_, err = p.pool.Exec(r.Context(), `INSERT INTO bench_floor (id, idempotency_key, input) VALUES ($1, $2, $3)`, id, r.Header.Get("Idempotency-Key"), string(body))
	}
	if err != nil {
		http.Error(w, `{}`, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, `{"job_id":"`+id+`"}`) // a client that went away reads nothing
}

func (p *handlerPart) ready() any { return p.address }

func (p *handlerPart) work(context.Context) (any, error) {
	return nil, errors.New("it has no orders to wait for")
}

func (p *handlerPart) end() error {
	err := p.server.Close()
	if served := <-p.stopped; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	p.pool.Close()
	return err
}
