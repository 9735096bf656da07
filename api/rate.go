package api

import (
	"math"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Rate is how often somebody may ask. That of a token is 50 and 100 by default.
type Rate struct {
	PerSecond float64
	Burst     int // at once
}

// mostRates bounds how many tokens' rates are remembered at once.
const mostRates = 10_000

// rates counts requests by principal. One that has not asked for long enough to have its whole
// burst again is forgotten: it is as if it were new.
type rates struct {
	Rate
	most int

	mu sync.Mutex
	of map[string]*rate.Limiter
}

func newRates(r Rate) *rates { return &rates{Rate: r, most: mostRates, of: map[string]*rate.Limiter{}} }

// take takes one request of the principal's, or returns how long to wait for the next.
func (r *rates) take(principal string, now time.Time) (wait time.Duration, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	limiter, known := r.of[principal]
	if !known {
		if len(r.of) >= r.most {
			r.forget(now)
		}
		limiter = rate.NewLimiter(rate.Limit(r.PerSecond), r.Burst)
		r.of[principal] = limiter
	}
	if limiter.AllowN(now, 1) {
		return 0, true
	}
	return time.Duration((1 - limiter.TokensAt(now)) / r.PerSecond * float64(time.Second)), false
}

// forget forgets those that are as good as new, and if there are none the half of all: who is
// forgotten gets a burst too many, and nobody's memory grows.
func (r *rates) forget(now time.Time) {
	for principal, limiter := range r.of {
		if limiter.TokensAt(now) >= float64(r.Burst) {
			delete(r.of, principal)
		}
	}
	for principal := range r.of {
		if len(r.of) <= r.most/2 {
			return
		}
		delete(r.of, principal)
	}
}

// tooMany is the problem of those who have to wait.
func tooMany(which string, wait time.Duration) *Problem {
	seconds := strconv.Itoa(int(math.Ceil(wait.Seconds())))
	return newProblem(rateLimited, "too many requests %s: wait %s s before the next", which, seconds).with("Retry-After", seconds)
}
