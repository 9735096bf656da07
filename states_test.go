package onejob_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/onejob/onejob"
)

func TestJobMovesOnlyAlongTheTable(t *testing.T) {
	t.Parallel()
	legal := []string{
		"accepted>running", "accepted>cancelled",
		"running>unknown", "running>succeeded", "running>failed", "running>cancelled",
		"unknown>running", "unknown>succeeded", "unknown>cancelled",
		"failed>running",
	}
	for _, from := range onejob.Statuses() {
		for _, to := range onejob.Statuses() {
			want := slices.Contains(legal, string(from+">"+to))
			if got := from.CanBecome(to); got != want {
				t.Errorf("%s to %s: %v, want %v", from, to, got, want)
			}
		}
		if from.CanBecome("bogus") || onejob.Status("bogus").CanBecome(from) {
			t.Errorf("%s moves to or from a state that does not exist", from)
		}
	}
}

func TestAttemptMovesOnlyAlongTheTable(t *testing.T) {
	t.Parallel()
	legal := []string{
		"starting>running", "starting>unknown", "starting>succeeded", "starting>failed", "starting>cancelled",
		"running>unknown", "running>succeeded", "running>failed", "running>cancelled",
		"unknown>succeeded", "unknown>failed", "unknown>cancelled",
	}
	for _, from := range onejob.AttemptStates() {
		for _, to := range onejob.AttemptStates() {
			want := slices.Contains(legal, string(from+">"+to))
			if got := from.CanBecome(to); got != want {
				t.Errorf("%s to %s: %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestFinalStates(t *testing.T) {
	t.Parallel()
	for state, want := range map[onejob.AttemptState]bool{
		onejob.AttemptStarting: false, onejob.AttemptRunning: false, onejob.AttemptUnknown: false,
		onejob.AttemptSucceeded: true, onejob.AttemptFailed: true, onejob.AttemptCancelled: true,
		"": false, "bogus": false, // what we cannot read blocks the next attempt
	} {
		if got := state.Final(); got != want {
			t.Errorf("%q final: %v, want %v", state, got, want)
		}
	}
}

func TestClosedStatuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[onejob.Status]bool{
		onejob.StatusAccepted: false, onejob.StatusRunning: false, onejob.StatusUnknown: false,
		onejob.StatusSucceeded: true, onejob.StatusFailed: true, onejob.StatusCancelled: true,
		"": false, "bogus": false,
	} {
		if got := status.Closed(); got != want {
			t.Errorf("%q closed: %v, want %v", status, got, want)
		}
		if known := status.Known(); known != slices.Contains(onejob.Statuses(), status) {
			t.Errorf("%q known: %v", status, known)
		}
	}
}

func TestUnresolvedAttemptsBlockTheNext(t *testing.T) {
	t.Parallel()
	for state, want := range map[onejob.AttemptState][2]bool{ // undecided, decided
		onejob.AttemptStarting:  {true, true},
		onejob.AttemptRunning:   {true, true},
		onejob.AttemptUnknown:   {true, true},
		onejob.AttemptSucceeded: {true, false},
		onejob.AttemptFailed:    {false, false},
		onejob.AttemptCancelled: {false, false},
		"":                      {true, true},
	} {
		for i, decided := range []bool{false, true} {
			a := onejob.Attempt{State: state, Decided: decided}
			if got := a.Unresolved(); got != want[i] {
				t.Errorf("%q decided %v: unresolved %v, want %v", state, decided, got, want[i])
			}
		}
	}
}

func TestAttemptKeepsItsFieldNamesInJSON(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(onejob.Attempt{Number: 1, Provider: "p", State: onejob.AttemptStarting})
	want := `{"number":1,"lane":0,"provider":"p","state":"starting","reason":"","discarded":false,"started_at":null,"finished_at":null}`
	if err != nil || string(text) != want {
		t.Errorf("got %s, %v; want %s", text, err, want)
	}
	var back onejob.Attempt
	if err := json.Unmarshal(text, &back); err != nil || back.Number != 1 || !back.FinishedAt.IsZero() {
		t.Errorf("read back %+v, %v", back, err)
	}
}
