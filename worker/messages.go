package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/webhooks"
)

const (
	keepMessages = 90 * 24 * time.Hour
	pruneEvery   = time.Hour
	pruneBatch   = 1000
)

// consumers are onejob's own and those that the program added.
func (c Config) consumers() []messages.Consumer {
	return slices.Concat(postgres.Consumers(), []messages.Consumer{webhooks.Consumer}, c.Consumers)
}

// carryMessages brings messages to their consumers, and what owners are told to them, until
// ctx ends, and deletes old ones.
func (w *Worker) carryMessages(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() {
		runner := messages.Runner{
			Store: w.config.Store, Consumers: w.config.consumers(), Observer: w.config.Metrics, Drain: w.config.Drain, Logger: w.config.Logger,
		}
		if err := runner.Run(ctx); err != nil {
			w.giveUp(fmt.Errorf("messages are not carried: %w", err))
		}
	})
	running.Go(func() { w.pruneUntil(ctx) })
	running.Go(func() {
		webhooks.NewSender(webhooks.Options{Store: w.config.Store, Policy: w.config.Webhooks, Logger: w.config.Logger}).Run(ctx)
	})
	running.Wait()
}

// pruneUntil deletes old messages now and then until ctx ends.
func (w *Worker) pruneUntil(ctx context.Context) {
	ticker := time.NewTicker(pruneEvery)
	defer ticker.Stop()
	for {
		if err := w.prune(ctx); err != nil && ctx.Err() == nil {
			w.config.Logger.Warn("cannot delete old messages; it is tried again", "in", pruneEvery, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// prune deletes old messages, a batch at a time.
func (w *Worker) prune(ctx context.Context) error {
	for {
		n, err := w.config.Store.Prune(ctx, w.config.KeepMessages, pruneBatch)
		if err != nil || n < pruneBatch {
			return err
		}
	}
}

// messageMetrics are about messages, by consumer group.
type messageMetrics struct {
	pending, oldest, dead       *prometheus.GaugeVec   // of the whole database, not of this worker
	applied, duplicates, failed *prometheus.CounterVec // of this worker

	webhooksPending, webhooksOldest, webhooksDead prometheus.Gauge // of the whole database
}

func newMessageMetrics() messageMetrics {
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"group"})
	}
	webhook := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{"group"})
	}
	return messageMetrics{
		pending:    gauge("onejob_messages_pending", "Messages that a group has still to apply, in the whole database; 100000 stands for more too."),
		oldest:     gauge("onejob_messages_oldest_seconds", "Age of the oldest message that a group has still to apply."),
		dead:       gauge("onejob_messages_dead", "Dead letters of a group, in the whole database; 100000 stands for more too."),
		applied:    counter("onejob_messages_applied_total", "Messages that this worker applied."),
		duplicates: counter("onejob_messages_duplicates_total", "Deliveries at this worker of messages that were done before."),
		failed:     counter("onejob_messages_failed_total", "Tries that failed at this worker."),

		webhooksPending: webhook("onejob_webhooks_pending", "Webhooks that are still to be sent, in the whole database; 100000 stands for more too."),
		webhooksOldest:  webhook("onejob_webhooks_oldest_seconds", "Age of the oldest message of which somebody is still to be told."),
		webhooksDead:    webhook("onejob_webhooks_dead", "Webhooks that were given up, in the whole database; 100000 stands for more too."),
	}
}

func (m messageMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.pending, m.oldest, m.dead, m.applied, m.duplicates, m.failed,
		m.webhooksPending, m.webhooksOldest, m.webhooksDead}
}

// MessagesApplied implements [messages.Observer].
func (m *Metrics) MessagesApplied(group string, applied messages.Applied) {
	m.messages.applied.WithLabelValues(group).Add(float64(applied.Done))
	m.messages.duplicates.WithLabelValues(group).Add(float64(applied.Duplicates))
	m.messages.failed.WithLabelValues(group).Add(float64(applied.Failed))
}

func (m *Metrics) setBacklogs(backlogs []messages.Backlog) {
	m.messages.pending.Reset()
	m.messages.oldest.Reset()
	m.messages.dead.Reset()
	for _, b := range backlogs {
		m.messages.pending.WithLabelValues(b.Group).Set(float64(b.Pending))
		m.messages.oldest.WithLabelValues(b.Group).Set(b.Oldest.Seconds())
		m.messages.dead.WithLabelValues(b.Group).Set(float64(b.Dead))
	}
}

// countEvery is in how many turns of the reconciler a worker counts the messages of the whole
// database once: by default that is every 30 s.
const countEvery = 6

func (m *Metrics) setWebhooks(b messages.Backlog) {
	m.messages.webhooksPending.Set(float64(b.Pending))
	m.messages.webhooksOldest.Set(b.Oldest.Seconds())
	m.messages.webhooksDead.Set(float64(b.Dead))
}

func (r *reconciler) countMessages(ctx context.Context) {
	backlogs, err := r.Store.Backlogs(ctx)
	if err != nil {
		r.Logger.Warn("cannot count the messages", "error", err)
		return
	}
	r.Metrics.setBacklogs(backlogs)
	webhooks, err := r.Store.CountDeliveries(ctx)
	if err != nil {
		r.Logger.Warn("cannot count the webhooks", "error", err)
		return
	}
	r.Metrics.setWebhooks(webhooks)
}
