package simulator

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// Plan strikes requests with faults by chance, the same in every run: the draw depends
// on the seed, the request's name (directive as, else job ID, else key) and how many
// requests of that name came before.
type Plan struct {
	Seed      int64           `json:"seed,omitempty"`
	LostReply float64         `json:"lost_reply,omitempty"` // share that is executed and not answered: the connection closes
	Late      float64         `json:"late,omitempty"`       // share that is answered late
	LateBy    Duration        `json:"late_by,omitzero"`
	Status    map[int]float64 `json:"status,omitempty"` // shares by the status that they get
	Accept    float64         `json:"accept,omitempty"` // share that is accepted: executed behind a reference, where the format has one
	RunFor    Duration        `json:"run_for,omitzero"` // of the accepted ones
	Told      float64         `json:"told,omitempty"`   // share whose reply is lost and that is told by callback, if the caller awaits one
	Latency   Duration        `json:"latency,omitzero"` // of every execution

	LookUp     *LookUps        `json:"look_up,omitempty"`     // of every call
	HonourKeys map[string]bool `json:"honour_keys,omitempty"` // by provider's name, in place of what the options say

	Scripts []Script `json:"scripts,omitempty"` // of requests that say something
}

// Draw returns what happens to the ordinal-th request of the name, counted from 1.
func (p Plan) Draw(name string, ordinal int) Directives {
	d := Directives{Latency: p.Latency, LookUp: p.LookUp}
	rest := chance(p.Seed, name, ordinal)
	struck := func(share float64) bool { rest -= share; return rest < 0 }
	if struck(p.LostReply) {
		d.ExecuteThenDrop = true
		return d
	}
	if struck(p.Late) {
		d.Late = p.LateBy
		return d
	}
	for _, status := range slices.Sorted(maps.Keys(p.Status)) {
		if struck(p.Status[status]) {
			d.Status = status
			return d
		}
	}
	switch {
	case struck(p.Accept):
		d.Accept, d.RunFor = true, p.RunFor
	case struck(p.Told):
		d.ExecuteThenDrop, d.Callback = true, &Callback{}
	}
	return d
}

// chance returns a number in [0, 1) that is uniform over the names.
func chance(seed int64, name string, ordinal int) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %s", seed, ordinal, name))
	const bits = 53
	return float64(binary.BigEndian.Uint64(sum[:8])>>(64-bits)) / (1 << bits)
}

// Check returns an error that names what cannot be: a share, a status or a time.
func (p Plan) Check() error {
	total := 0.0
	for _, share := range append(slices.Collect(maps.Values(p.Status)), p.LostReply, p.Late, p.Accept, p.Told) {
		if !(share >= 0) {
			return fmt.Errorf("a share of %v is none: use 0 to 1", share)
		}
		total += share
	}
	if total > 1 {
		return fmt.Errorf("the shares add up to %v: use at most 1", total)
	}
	if len(p.Scripts) > mostScripts {
		return fmt.Errorf("the plan has %d scripts: use at most %d", len(p.Scripts), mostScripts)
	}
	for _, script := range p.Scripts {
		if err := script.check(); err != nil {
			return err
		}
	}
	for status := range p.Status {
		if err := (Directives{Status: status}).check(); err != nil {
			return err
		}
	}
	return (Directives{Latency: p.Latency, Late: p.LateBy, RunFor: p.RunFor, LookUp: p.LookUp}).check()
}
