package onejob_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/onejob/onejob"
)

const fullRequest = `{"owner":"acme","key":"order-45","kind":"ticket","provider":"primary","fallbacks":["second"],
"input":{"n":1.50},"timeout":"1m30s","listen_for":"10m","max_attempts":4,"hedge_after":"5s",
"callback_url":"https://acme.example/cb","labels":{"team":"support"}}`

func mustDecode(t *testing.T, text string) onejob.Request {
	t.Helper()
	r, err := onejob.DecodeRequest([]byte(text))
	if err != nil {
		t.Fatalf("DecodeRequest(%s): %v", text, err)
	}
	return r
}

func TestDecodeReadsEveryMember(t *testing.T) {
	t.Parallel()
	r := mustDecode(t, fullRequest)
	if r.Owner != "acme" || r.Key != "order-45" || r.Kind != "ticket" || r.Provider != "primary" || r.Fallbacks[0] != "second" {
		t.Errorf("names: %+v", r)
	}
	if time.Duration(r.Timeout) != 90*time.Second || time.Duration(r.ListenFor) != 10*time.Minute || time.Duration(r.HedgeAfter) != 5*time.Second {
		t.Errorf("times: %+v", r)
	}
	if r.MaxAttempts != 4 || r.CallbackURL != "https://acme.example/cb" || r.Labels["team"] != "support" {
		t.Errorf("options: %+v", r)
	}
	if string(r.Input) != `{"n":1.50}` {
		t.Errorf("input %s is not stored as it was written", r.Input)
	}
}

func TestEncodedRequestDecodesToTheSame(t *testing.T) {
	t.Parallel()
	want := mustDecode(t, fullRequest)
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(mustDecode(t, string(text)))
	if err != nil || string(again) != string(text) {
		t.Errorf("%s became %s (%v)", text, again, err)
	}
}

func TestDecodeRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		why, text string
		words     []string
	}{
		{"unknown member", `{"owner":"o","prioritty":1}`, []string{"is unknown", "prioritty", "correct its name"}},
		{"other case", `{"Owner":"o"}`, []string{"is unknown", "Owner"}},
		{"other case of two words", `{"maxAttempts":1}`, []string{"is unknown", "maxAttempts"}},
		{"a member twice", `{"owner":"a","owner":"b"}`, []string{"duplicate", "owner"}},
		{"a member of the input twice", `{"input":{"a":1,"a":1}}`, []string{"duplicate"}},
		{"a label twice", `{"labels":{"a":"1","a":"2"}}`, []string{"duplicate"}},
		{"trailing value", `{"owner":"o"}{}`, []string{"request is not JSON"}},
		{"trailing text", `{"owner":"o"} x`, []string{"request is not JSON"}},
		{"cut short", `{"owner":"o"`, []string{"ends in the middle"}},
		{"nothing", ``, []string{"ends in the middle"}},
		{"an array", `[]`, []string{"cannot be a JSON array"}},
		{"text", `"owner"`, []string{"cannot be a JSON string"}},
		{"duration without unit", `{"timeout":"10"}`, []string{"timeout", `"10"`, "write it like 10s"}},
		{"empty duration", `{"timeout":""}`, []string{"timeout", "write it like 10s"}},
		{"duration as a number", `{"listen_for":10}`, []string{"listen_for", "string"}},
		{"number as text", `{"max_attempts":"3"}`, []string{"max_attempts", "string"}},
		{"fraction of an attempt", `{"max_attempts":1.5}`, []string{"max_attempts"}},
		{"number beyond an int", `{"max_attempts":1e30}`, []string{"max_attempts"}},
		{"label that is no text", `{"labels":{"a":1}}`, []string{"labels/a", "number"}},
		{"invalid UTF-8", "{\"owner\":\"\xff\"}", []string{"UTF-8"}},
		{"lone surrogate in the key", `{"key":"\ud800"}`, []string{"surrogate"}},
	} {
		t.Run(c.why, func(t *testing.T) {
			_, err := onejob.DecodeRequest([]byte(c.text))
			mustRefuse(t, err, c.words...)
		})
	}
}

// An input that is null is an input; one that is left out is not.
func TestNullInputIsAnInput(t *testing.T) {
	t.Parallel()
	head := `{"owner":"acme","key":"k","kind":"ticket","provider":"primary"`
	if _, err := onejob.NewJob(mustDecode(t, head+`,"input":null}`), catalog()); err != nil {
		t.Errorf("null: %v", err)
	}
	_, err := onejob.NewJob(mustDecode(t, head+`}`), catalog())
	mustRefuse(t, err, "input is missing", "null if there is none")
}

func TestLongNamesAreCutInErrors(t *testing.T) {
	t.Parallel()
	for why, text := range map[string]string{
		"unknown member": `{"` + strings.Repeat("m", 1<<20) + `":1}`,
		"a member twice": `{"input":{"` + strings.Repeat("m", 5000) + `":1,"` + strings.Repeat("m", 5000) + `":1}}`,
		"label":          `{"labels":{"` + strings.Repeat("m", 5000) + `":1}}`,
	} {
		t.Run(why, func(t *testing.T) {
			_, err := onejob.DecodeRequest([]byte(text))
			mustRefuse(t, err, "mmm")
		})
	}
}
