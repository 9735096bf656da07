package worker

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// Metrics counts what a worker does, for Prometheus.
type Metrics struct {
	registry   *prometheus.Registry
	attempts   *prometheus.CounterVec // by provider, state and reason
	unknown    *prometheus.GaugeVec   // by provider and age; of the whole database, not of this worker
	listening  *prometheus.GaugeVec   // by provider; of this worker
	circuits   *prometheus.GaugeVec   // by provider; of the whole database
	races      *prometheus.CounterVec // by provider of the loser
	suspended  *prometheus.CounterVec // by provider
	expiries   *prometheus.GaugeVec   // by kind, provider and model; of the whole database
	duplicates prometheus.Counter
	launches   prometheus.Counter
	messages   messageMetrics
	audits     *auditMetrics
}

// NewMetrics returns metrics with nothing counted.
func NewMetrics() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onejob_attempts_total",
			Help: "Changes of an attempt's state that this worker recorded, to unknown among them."}, []string{"provider", "state", "reason"}),
		unknown: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onejob_attempts_unknown",
			Help: "Attempts that are unknown now, in the whole database, by the time since they started."}, []string{"provider", "age"}),
		listening: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onejob_attempts_listening",
			Help: "Attempts of this worker that listen to a silent provider."}, []string{"provider"}),
		circuits: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onejob_circuit_open",
			Help: "1: the provider is not called; 0.5: one attempt every 30 s at most tries. A provider that is called has no value."}, []string{"provider"}),
		races: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onejob_races_lost_total",
			Help: "Results discarded because another had won, the job was closed or the attempt given up."}, []string{"provider"}),
		suspended: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onejob_certificates_suspended_total",
			Help: "Times that this worker suspended a provider's certificate, because its replies broke the contract."}, []string{"provider"}),
		expiries: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onejob_certificate_expires_timestamp_seconds",
			Help: "When the certificate expires that a provider has now for the contract of a kind, as the last look at renewals of this worker saw it."}, []string{"kind", "provider", "model"}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{Name: "onejob_duplicates_answered_total",
			Help: "Submits at this process that found their job there already."}),
		launches: prometheus.NewCounter(prometheus.CounterOpts{Name: "onejob_reconciler_launches_total",
			Help: "Workflows that the reconciler started for open jobs that had none."}),
		messages: newMessageMetrics(),
		audits:   newAuditMetrics(),
	}
	m.registry.MustRegister(m.messages.collectors()...)
	m.registry.MustRegister(m.audits)
	m.registry.MustRegister(m.attempts, m.unknown, m.listening, m.circuits, m.races, m.suspended, m.expiries, m.duplicates, m.launches,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Register adds what else the process counts. It fails when that is there already.
func (m *Metrics) Register(c prometheus.Collector) error {
	if err := m.registry.Register(c); err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	return nil
}

// Temporal returns a handler through which Temporal's SDK counts into the same registry.
func (m *Metrics) Temporal() (client.MetricsHandler, error) {
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(m.registry), otelprometheus.WithoutScopeInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(exporter)).Meter("temporal")
	var failed error
	handler := opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter: meter, OnError: func(err error) { failed = errors.Join(failed, err) },
	})
	return handler, failed
}

// AttemptBecame implements [activities.Observer].
func (m *Metrics) AttemptBecame(provider string, state onejob.AttemptState, reason onejob.Reason) {
	m.attempts.WithLabelValues(provider, string(state), string(reason)).Inc()
}

// RaceLost implements [activities.Observer].
func (m *Metrics) RaceLost(provider string) { m.races.WithLabelValues(provider).Inc() }

// CertificatesStand implements [activities.Observer].
func (m *Metrics) CertificatesStand(standing []postgres.Certificate) {
	m.expiries.Reset()
	for _, c := range standing {
		m.expiries.WithLabelValues(c.Contract, c.Provider, c.Model).Set(float64(c.ExpiresAt.Unix()))
	}
}

// CertificateSuspended implements [activities.Observer].
func (m *Metrics) CertificateSuspended(provider string) {
	m.suspended.WithLabelValues(provider).Inc()
}

// DuplicateAnswered implements [activities.Observer].
func (m *Metrics) DuplicateAnswered() { m.duplicates.Inc() }

func (m *Metrics) setListening(counts map[string]int) {
	m.listening.Reset()
	for provider, n := range counts {
		m.listening.WithLabelValues(provider).Set(float64(n))
	}
}

func (m *Metrics) setCircuits(circuits []postgres.Circuit) {
	m.circuits.Reset()
	for _, c := range circuits {
		open := 0.5
		if c.OpenFor > 0 {
			open = 1
		}
		m.circuits.WithLabelValues(c.Provider).Set(open)
	}
}

func (m *Metrics) setUnknown(counts []postgres.UnknownCount) {
	m.unknown.Reset()
	for _, c := range counts {
		m.unknown.WithLabelValues(c.Provider, c.Age).Set(float64(c.Attempts))
	}
}
