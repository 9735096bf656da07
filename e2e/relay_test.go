package e2e

import (
	"testing"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
)

// relay is a stretch of network that a test can cut, mend and lead elsewhere.
type relay struct {
	t     *testing.T
	proxy *toxiproxy.Proxy
}

// newRelay leads to the address.
func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
	r := &relay{t: t, proxy: toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", to)}
	if err := r.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.cut)
	return r
}

// address is where the relay listens. It stays the same.
func (r *relay) address() string { return r.proxy.Listen }

// cut breaks every connection and takes no more.
func (r *relay) cut() { r.proxy.Stop() }

// mend leads to the address again, or anew.
func (r *relay) mend(to string) {
	r.t.Helper()
	if err := r.proxy.Update(&toxiproxy.Proxy{Listen: r.proxy.Listen, Upstream: to, Enabled: true}); err != nil {
		r.t.Fatal(err)
	}
}
