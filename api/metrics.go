package api

import (
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts what a door is asked. It is a [prometheus.Collector]: whoever made it registers
// it. What it counts by is bounded, whatever is asked.
type Metrics struct {
	requests *prometheus.CounterVec   // by route and status
	seconds  *prometheus.HistogramVec // by route
	waiting  *prometheus.GaugeVec     // by how
	rejected *prometheus.CounterVec   // by what for
}

// NewMetrics returns metrics with nothing counted.
func NewMetrics() *Metrics {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onejob_http_requests_total",
			Help: "Requests that this door has answered. The status of an answer that broke off is cut."}, []string{"route", "status"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "onejob_http_request_seconds",
			Help:    "From a request's headers to its answer's end, without requests that waited for a job.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 30}}, []string{"route"}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "onejob_http_waiting",
			Help: "Requests that wait at this door for a job to change: long polls and streams."}, []string{"how"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "onejob_http_rejected_total",
			Help: "Requests that came to no handler: for want of a token, for too many such from their address, for their token's rate or role, for their body."}, []string{"for"}),
	}
	for _, how := range []string{byPoll, byStream} {
		m.waiting.WithLabelValues(how)
	}
	for _, what := range []string{forToken, forAddress, forRate, forRole, forBody} {
		m.rejected.WithLabelValues(what)
	}
	return m
}

// The values of labels.
const (
	byPoll   = "poll"
	byStream = "stream"

	forToken   = "token"
	forAddress = "address"
	forRate    = "rate"
	forRole    = "role"
	forBody    = "body"

	routeCallback = "callback"
	routePage     = "page"
	routeNone     = "none"
)

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.seconds, m.waiting, m.rejected}
}

// Describe implements [prometheus.Collector].
func (m *Metrics) Describe(c chan<- *prometheus.Desc) {
	for _, one := range m.all() {
		one.Describe(c)
	}
}

// Collect implements [prometheus.Collector].
func (m *Metrics) Collect(c chan<- prometheus.Metric) {
	for _, one := range m.all() {
		one.Collect(c)
	}
}

// answered counts the exchange, which is over.
func (m *Metrics) answered(x *exchange, w *noted, began time.Time) {
	status := strconv.Itoa(w.status)
	switch {
	case w.cut:
		status = "cut"
	case w.status == 0: // net/http writes it for a handler that wrote nothing
		status = strconv.Itoa(http.StatusOK)
	}
	m.requests.WithLabelValues(x.route, status).Inc()
	if !x.waited {
		m.seconds.WithLabelValues(x.route).Observe(time.Since(began).Seconds())
	}
}

// reject counts a request that is turned away, and returns why. That a server does not answer is
// not the request's fault, and not counted.
func (m *Metrics) reject(what string, err error) error {
	if _, its := errors.AsType[*Problem](err); its {
		m.rejected.WithLabelValues(what).Inc()
	}
	return err
}

// watch lets the exchange wait for the job; it is counted until it ends.
func (d *Door) watch(x *exchange, jobID, how string) (*watch, error) {
	w, err := d.watcher.watch(jobID)
	if err != nil {
		return nil, err
	}
	x.waited = true
	waiting, end := d.options.Metrics.waiting.WithLabelValues(how), w.end
	waiting.Inc()
	w.end = sync.OnceFunc(func() {
		waiting.Dec()
		end()
	})
	return w, nil
}
