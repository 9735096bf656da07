package faults_test

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/webhooks"
)

const (
	deliveries = 3
	rebuilt    = mixedOwners / 2 // owners; a rebuild mends what a delivery broke, so the others show it
)

// deliverThreeTimes delivers every message of every group three times more, all at once,
// beside the workers' consumers and a rebuild. What a killed worker had taken waits for the
// end of its lease, and is applied here.
func (s *money) deliverThreeTimes() {
	s.t.Helper()
	s.eventually("consumers have nothing to do but wait for what the dead had taken", func() bool {
		return s.count(`SELECT count(*) FROM inbox WHERE state = 'pending' AND next_try_at <= now()`) == 0
	})
	claims := s.claims()
	var delivering, rebuilding sync.WaitGroup
	delivered := make(chan struct{})
	rebuilding.Go(func() { s.rebuildUntil(delivered) })
	for seed := range uint64(deliveries) {
		for _, consumer := range append(postgres.Consumers(), webhooks.Consumer) {
			delivering.Go(func() { s.deliver(consumer, claims[consumer.Group], seed) })
		}
	}
	delivering.Wait()
	close(delivered)
	rebuilding.Wait()
	if n := s.count(`SELECT count(*) FROM inbox WHERE state <> 'done'`); n != 0 {
		s.t.Errorf("%d claims are not done", n)
	}
	if n := s.count(`SELECT count(*) FROM inbox WHERE duplicates < 2`); n != 0 {
		s.t.Errorf("%d claims were not delivered three times", n)
	}
}

// claims returns the keys of each group.
func (s *money) claims() map[string][]string {
	s.t.Helper()
	claims := map[string][]string{}
	var group, key string
	s.each(`SELECT consumer_group, message_key FROM inbox`, []any{&group, &key}, func() error {
		claims[group] = append(claims[group], key)
		return nil
	})
	return claims
}

// deliver delivers the messages in an order of its own, in batches.
func (s *money) deliver(c messages.Consumer, keys []string, seed uint64) {
	keys = slices.Clone(keys)
	draw := rand.New(rand.NewPCG(seed, 0))
	draw.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	answered := 0
	for batch := range slices.Chunk(keys, 100) {
		applied, err := s.store.Deliver(s.t.Context(), c, batch...)
		if err != nil || applied.Failed > 0 {
			s.t.Errorf("deliver to %s: %+v, %v", c.Group, applied, err)
		}
		answered += applied.Done + applied.Duplicates
	}
	if answered != len(keys) {
		s.t.Errorf("%s answered %d of %d deliveries", c.Group, answered, len(keys))
	}
}

// rebuildUntil rebuilds the day's summaries of one owner after the other, again and again.
func (s *money) rebuildUntil(stop <-chan struct{}) {
	for i := 0; ; i++ {
		s.rebuild(s.ownerOf(i % rebuilt))
		select {
		case <-stop:
			return
		default:
		}
	}
}

// rebuild rebuilds the day's summaries of the owner, or of all.
func (s *money) rebuild(owner string) {
	today, err := s.store.Today(s.t.Context())
	if err == nil {
		_, err = s.store.RebuildUsageDay(s.t.Context(), today, owner)
	}
	if err != nil {
		s.t.Errorf("rebuild: %v", err)
	}
}

// mustPassTheAudit asks the command, as an operator does.
func (s *system) mustPassTheAudit() {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), command, "audit", "-o", "json")
	cmd.Env = append(os.Environ(), "DATABASE_URL="+s.url)
	cmd.Stderr = s.t.Output()
	text, err := cmd.Output()
	var audit postgres.Audit
	if err == nil {
		err = json.Unmarshal(text, &audit)
	}
	if err != nil || audit.Differences+audit.Warnings != 0 || audit.WorstRatio != "1" || len(audit.Checks) == 0 {
		s.t.Errorf("the audit: %v: %s", err, text)
	}
}
