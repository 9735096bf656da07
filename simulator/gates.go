package simulator

import (
	"errors"
	"sync"
)

var errTooManyGates = errors.New("too many names are held: reset the simulator")

// gates hold requests by name. A released name stays open for those who come later, so
// it does not matter which of the two comes first.
type gates struct {
	mu     sync.Mutex
	byName map[string]*gate
}

type gate struct {
	open    chan struct{}
	opened  bool
	waiting int
}

func newGates() *gates { return &gates{byName: map[string]*gate{}} }

func (g *gates) get(name string) (*gate, error) {
	if found := g.byName[name]; found != nil {
		return found, nil
	}
	if len(g.byName) >= mostGates {
		return nil, errTooManyGates
	}
	made := &gate{open: make(chan struct{})}
	g.byName[name] = made
	return made, nil
}

// enter returns a channel that is closed once the name is released. The caller leaves
// when it waits no more.
func (g *gates) enter(name string) (<-chan struct{}, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate, err := g.get(name)
	if err != nil {
		return nil, err
	}
	gate.waiting++
	return gate.open, nil
}

func (g *gates) leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.byName[name].waiting--
}

// release opens the name for good and returns how many waited.
func (g *gates) release(name string) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gate, err := g.get(name)
	if err != nil {
		return 0, err
	}
	if !gate.opened {
		close(gate.open)
		gate.opened = true
	}
	return gate.waiting, nil
}
