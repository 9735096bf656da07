package worker

import (
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/workflows"
)

// auditMetrics shows the last audit that ran in this worker. Of several workers the one of
// the least age has the newest; one whose last is older than two turns shows nothing.
type auditMetrics struct {
	differences, worst, age *prometheus.Desc

	mu   sync.Mutex
	last *postgres.Audit // nil: none yet
	at   time.Time       // when it came
}

const staleAudit = 2 * time.Hour

func newAuditMetrics() *auditMetrics {
	return &auditMetrics{
		differences: prometheus.NewDesc("onejob_audit_differences", "What the last audit of this worker found, by check; warnings are not among it.", []string{"check"}, nil),
		worst:       prometheus.NewDesc("onejob_audit_worst_ratio", "Of a summary to the ledger, the farthest from 1, in the last audit of this worker.", nil, nil),
		age:         prometheus.NewDesc("onejob_audit_age_seconds", "Time since the last audit of this worker.", nil, nil),
	}
}

// Describe implements [prometheus.Collector].
func (a *auditMetrics) Describe(to chan<- *prometheus.Desc) {
	to <- a.differences
	to <- a.worst
	to <- a.age
}

// Collect implements [prometheus.Collector].
func (a *auditMetrics) Collect(to chan<- prometheus.Metric) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil || time.Since(a.at) > staleAudit {
		return
	}
	to <- prometheus.MustNewConstMetric(a.age, prometheus.GaugeValue, time.Since(a.at).Seconds())
	to <- prometheus.MustNewConstMetric(a.worst, prometheus.GaugeValue, postgres.Ratio(a.last.WorstRatio))
	for _, check := range a.last.Checks {
		if check.Severity == postgres.SeverityDifference {
			to <- prometheus.MustNewConstMetric(a.differences, prometheus.GaugeValue, float64(check.Count), check.Name)
		}
	}
}

// Audited implements [activities.Observer].
func (m *Metrics) Audited(audit postgres.Audit) {
	m.audits.mu.Lock()
	defer m.audits.mu.Unlock()
	m.audits.last, m.audits.at = &audit, time.Now()
}

// ensureSchedules makes the schedules. Without them jobs run all the same, so a failure is
// told and does not end the worker.
func (w *Worker) ensureSchedules(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	if err := workflows.EnsureSchedules(ctx, w.config.Temporal, w.config.TaskQueue); err != nil {
		w.config.Logger.Warn("cannot make the schedules of rebuild, audit and renewal; 'onejob migrate up' or the next worker does", "error", err)
	}
}
