package webhooks

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"syscall"
	"time"

	"github.com/onejob/onejob"
)

// checkURL returns an [onejob.ErrInvalidRequest] for what is not called, whatever its name
// resolves to.
func (p Policy) checkURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || len(text) > mostURLBytes:
		return onejob.Errorf(onejob.CodeInvalidRequest, "the URL %s is not an absolute https URL of at most %d bytes", shown(u, text), mostURLBytes)
	case u.User != nil:
		return onejob.Errorf(onejob.CodeInvalidRequest, "the URL %s names a user: remove it, deliveries are signed", shown(u, text))
	case p.AllowPrivate:
		return nil
	case u.Scheme != "https":
		return onejob.Errorf(onejob.CodeInvalidRequest, "the URL %s is not https: what it is told would be read on the way; use https, or set webhooks.allow_private", shown(u, text))
	}
	if literal, err := netip.ParseAddr(u.Hostname()); err == nil && !public(literal) {
		return notPublic(literal.String())
	}
	return nil
}

const mostURLBytes = 2000

// shown is the URL without what may be secret in it.
func shown(u *url.URL, text string) string {
	if u == nil || u.Host == "" {
		return `"` + onejob.Shorten(text, 60) + `"`
	}
	return u.Scheme + "://" + u.Host
}

func notPublic(address string) error {
	return onejob.Errorf(onejob.CodeInvalidRequest, "%s is not a public address: use one, or set webhooks.allow_private where receivers are inside", address)
}

// client calls receivers. It connects where the policy lets it, and nothing of the
// environment changes that.
func (p Policy) client() *http.Client {
	dialer := &net.Dialer{Timeout: p.Timeout, Resolver: p.Resolver}
	if !p.AllowPrivate {
		dialer.ControlContext = refusePrivate
	}
	return &http.Client{
		Timeout:       p.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DialContext:            dialer.DialContext,
			ForceAttemptHTTP2:      true,
			DisableCompression:     true,
			MaxResponseHeaderBytes: mostHeaderBytes,
			MaxIdleConns:           100,
			IdleConnTimeout:        30 * time.Second,
		},
	}
}

const mostHeaderBytes = 64 << 10

// refusePrivate runs when a name has been resolved, before a connection is made: what the
// name resolves to the next time does not matter.
func refusePrivate(_ context.Context, _, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	if !public(to.Addr()) {
		return notPublic(to.Addr().String())
	}
	return nil
}

// public says that the address belongs to a host on the internet. An IPv4 address within an
// IPv6 one is what it says; gateways (NAT64, 6to4, Teredo) would lead to whatever it holds.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if a.Zone() != "" || a.Is6() && !globalUnicast.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
}

// globalUnicast holds all IPv6 addresses that were ever given to hosts on the internet.
// Loopback, unique-local, link-local, multicast and 64:ff9b::/96 are outside.
var globalUnicast = netip.MustParsePrefix("2000::/3")

// special are the other blocks of IANA's registries of special-purpose addresses.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),       // this network, and unspecified
	netip.MustParsePrefix("10.0.0.0/8"),      // private
	netip.MustParsePrefix("100.64.0.0/10"),   // shared by carriers
	netip.MustParsePrefix("127.0.0.0/8"),     // loopback
	netip.MustParsePrefix("169.254.0.0/16"),  // link-local, metadata of clouds among it
	netip.MustParsePrefix("172.16.0.0/12"),   // private
	netip.MustParsePrefix("192.0.0.0/24"),    // of protocols
	netip.MustParsePrefix("192.0.2.0/24"),    // documentation
	netip.MustParsePrefix("192.88.99.0/24"),  // 6to4 relays
	netip.MustParsePrefix("192.168.0.0/16"),  // private
	netip.MustParsePrefix("198.18.0.0/15"),   // benchmarks
	netip.MustParsePrefix("198.51.100.0/24"), // documentation
	netip.MustParsePrefix("203.0.113.0/24"),  // documentation
	netip.MustParsePrefix("224.0.0.0/4"),     // multicast
	netip.MustParsePrefix("240.0.0.0/4"),     // reserved, and broadcast
	netip.MustParsePrefix("2001::/23"),       // of protocols, Teredo among them
	netip.MustParsePrefix("2001:db8::/32"),   // documentation
	netip.MustParsePrefix("2002::/16"),       // 6to4
	netip.MustParsePrefix("3fff::/20"),       // documentation
}
