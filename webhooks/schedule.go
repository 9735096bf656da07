package webhooks

import (
	"math/rand/v2"
	"time"
)

// The schedule of the tries: 10 s, 40 s, … up to 12 h, three days in all.
const (
	firstWait   = 10 * time.Second
	longestWait = 12 * time.Hour
	mostTries   = 13
)

// waitAfter returns the wait after a try that failed, a tenth more or less, so that what failed
// together is not tried together. The receiver may ask for more, within the longest wait.
func waitAfter(try int, asked time.Duration) time.Duration {
	wait := longestWait
	if doublings := 2 * (try - 1); doublings < 20 {
		wait = min(firstWait<<doublings, longestWait)
	}
	wait = time.Duration(float64(wait) * (0.9 + 0.2*rand.Float64()))
	return min(max(wait, asked), longestWait)
}
