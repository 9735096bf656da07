package api

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/onejob/onejob"
)

// position is how far somebody has followed a job: the state of the job and of each attempt that
// was told last. It is an event's id, so that any instance can go on where another one stopped,
// and nothing has to be kept for it.
type position struct {
	version  int
	status   onejob.Status // empty: nothing was told yet
	attempts string        // a letter for each number, from 1
}

// letters are the states of attempts as a position writes them. One whose result was discarded
// has a capital.
var letters = map[onejob.AttemptState]byte{
	onejob.AttemptStarting: 's', onejob.AttemptRunning: 'r', onejob.AttemptUnknown: 'u',
	onejob.AttemptSucceeded: 'o', onejob.AttemptFailed: 'f', onejob.AttemptCancelled: 'c',
}

const untold = '.'

func letterOf(a onejob.Attempt) byte {
	letter, known := letters[a.State]
	switch {
	case !known:
		return '?'
	case a.Discarded:
		return letter - 'a' + 'A'
	case a.Decided:
		return 'w' // it has won
	}
	return letter
}

func (p position) String() string { return fmt.Sprintf("%d-%s-%s", p.version, p.status, p.attempts) }

var writtenPosition = regexp.MustCompile(`^([0-9]{1,9})-([a-z]{0,20})-([a-zA-Z.?]{0,1000})$`)

// parsePosition reads a position as String writes it.
func parsePosition(text string) (position, error) {
	parts := writtenPosition.FindStringSubmatch(text)
	if parts == nil || parts[2] != "" && !onejob.Status(parts[2]).Known() {
		return position{}, newProblem(invalidRequest, "Last-Event-ID %q is no event's: send the id of the last event, or none", onejob.Shorten(text, 60))
	}
	version, err := strconv.Atoi(parts[1])
	return position{version: version, status: onejob.Status(parts[2]), attempts: parts[3]}, err
}

// event is a change that is told.
type event struct {
	name string // job or attempt
	at   position
	told any
}

// since returns what has changed since p: each attempt in its order, then the job.
func (p position) since(v onejob.View) (events []event) {
	for _, a := range v.Attempts {
		if p.toldOf(a.Number) != letterOf(a) {
			p = p.with(a)
			events = append(events, event{"attempt", p, a})
		}
	}
	if p.version != v.Version || p.status != v.Status {
		p.version, p.status = v.Version, v.Status
		v.Attempts = nil
		events = append(events, event{"job", p, v})
	}
	return events
}

// toldOf returns what was told of the attempt.
func (p position) toldOf(number int) byte {
	if number > len(p.attempts) {
		return untold
	}
	return p.attempts[number-1]
}

// with is p after the attempt was told.
func (p position) with(a onejob.Attempt) position {
	told := slices.Concat([]byte(p.attempts), []byte(strings.Repeat(string(untold), max(0, a.Number-len(p.attempts)))))
	told[a.Number-1] = letterOf(a)
	p.attempts = string(told)
	return p
}
