package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
)

// The bounds of what is remembered of strangers and of tokens.
const (
	mostAddresses = 10_000
	mostKnown     = 10_000
)

// strangers bounds what requests cost that come with no valid token. Each takes from what its
// address has left, before its token is looked up; a token that turns out to be valid gives that
// back, and is known from then on. A known one is looked up whatever its address did, so it
// notices no neighbour who guesses.
type strangers struct {
	Rate
	most int

	mu         sync.Mutex
	of         map[netip.Prefix]allowance
	known, old map[[32]byte]struct{} // by the hash of the token; the old ones are forgotten next
}

// allowance is how many requests an address had left at a time.
type allowance struct {
	left float64
	at   time.Time
}

func newStrangers(r Rate) *strangers {
	return &strangers{Rate: r, most: mostAddresses, of: map[netip.Prefix]allowance{}, known: map[[32]byte]struct{}{}}
}

// knows says whether the token was valid when it was last looked up.
func (s *strangers) knows(token [32]byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, young := s.known[token]
	if _, old := s.old[token]; old && !young {
		s.remember(token)
		return true
	}
	return young
}

// remember keeps the token among those that are known, of which the half that was not used for
// longest is forgotten when they are too many.
func (s *strangers) remember(token [32]byte) {
	if len(s.known) >= mostKnown/2 {
		s.known, s.old = map[[32]byte]struct{}{}, s.known
	}
	s.known[token] = struct{}{}
}

// forget forgets a token that is valid no more.
func (s *strangers) forget(token [32]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.known, token)
	delete(s.old, token)
}

// welcome remembers a valid token, and gives its address back what it took.
func (s *strangers) welcome(token [32]byte, from netip.Prefix) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remember(token)
	if a, ok := s.of[from]; ok {
		a.left = min(a.left+1, float64(s.Burst))
		s.of[from] = a
	}
}

// take takes one request of the address's, or returns how long to wait for the next.
func (s *strangers) take(from netip.Prefix, now time.Time) (wait time.Duration, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a, there := s.of[from]
	if !there {
		if len(s.of) >= s.most {
			s.makeRoom(now)
		}
		a = allowance{float64(s.Burst), now}
	}
	a = s.now(a, now)
	if a.left < 1 {
		s.of[from] = a
		return time.Duration((1 - a.left) / s.PerSecond * float64(time.Second)), false
	}
	a.left--
	s.of[from] = a
	return 0, true
}

// now is the allowance with what time has given since.
func (s *strangers) now(a allowance, now time.Time) allowance {
	if gone := now.Sub(a.at); gone > 0 {
		a = allowance{min(a.left+gone.Seconds()*s.PerSecond, float64(s.Burst)), now}
	}
	return a
}

// makeRoom forgets addresses that have all left again, and if there are none the half of all.
func (s *strangers) makeRoom(now time.Time) {
	for address, a := range s.of {
		if s.now(a, now).left >= float64(s.Burst) {
			delete(s.of, address)
		}
	}
	for address := range s.of {
		if len(s.of) <= s.most/2 {
			return
		}
		delete(s.of, address)
	}
}

// addressOf is whom the request comes from: the other end of its connection, or where that is a
// proxy of ours, whom that one names last. Of IPv6 it is the network that one customer has.
func addressOf(r *http.Request, proxies []netip.Prefix) netip.Prefix {
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	from, _ := netip.ParseAddr(host)
	from = from.Unmap()
	if trusted(from, proxies) {
		from = behind(from, strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ","), proxies)
	}
	bits := 32
	if from.Is6() {
		bits = 64
	}
	network, err := from.WithZone("").Prefix(bits)
	if err != nil {
		return netip.Prefix{} // those without an address are one
	}
	return network
}

// behind is who came to the proxies, by the names of everybody on the way, the last one last.
func behind(from netip.Addr, named []string, proxies []netip.Prefix) netip.Addr {
	for _, name := range slices.Backward(named) {
		next, err := netip.ParseAddr(strings.TrimSpace(name))
		if err != nil || !trusted(from, proxies) {
			break
		}
		from = next.Unmap()
	}
	return from
}

func trusted(from netip.Addr, proxies []netip.Prefix) bool {
	return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(from) })
}
