package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/onejob/onejob"
)

// The vendors' own SDKs run below the adapters, against the simulated provider.
var vendorInputs = map[string]string{
	"chat":   `{"messages": [{"role": "user", "content": "Where is my parcel?"}], "simulate": {SIMULATE}}`,
	"deep":   `{"input": "Where is my parcel?", "simulate": {SIMULATE}}`,
	"claude": `{"max_tokens": 100, "messages": [{"role": "user", "content": "Where is my parcel?"}], "simulate": {SIMULATE}}`,
}

func (s *system) vendorJob(provider, simulate string) onejob.Submitted {
	s.t.Helper()
	r := s.on(provider, provider, "")
	r.Input = json.RawMessage(strings.Replace(vendorInputs[provider], "SIMULATE", simulate, 1))
	return s.submit(r)
}

func TestModelAnswersThroughItsVendorsSDK(t *testing.T) {
	for provider := range vendorInputs {
		t.Run(provider, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.vendorJob(provider, "")
			s.wantOneAttempt(job.JobID, 1)
			if n := s.count(`
				SELECT count(*) FROM attempts WHERE job_id = $1 AND (usage ->> 'input_tokens')::int > 0 AND (usage ->> 'output_tokens')::int > 0
					AND usage ->> 'model' <> '' AND usage ->> 'estimated' IS NULL`, job.JobID); n != 1 {
				t.Error("the attempt does not have the usage and the model that the answer told")
			}
		})
	}
}

func TestModelThatRefusesViolatesTheContract(t *testing.T) {
	for _, provider := range []string{"chat", "claude"} {
		t.Run(provider, func(t *testing.T) {
			s := newSystem(t)
			s.startWorker()
			job := s.vendorJob(provider, `"end": "refusal"`)
			failed := s.awaitStatus(job.JobID, onejob.StatusFailed)
			if a := failed.Attempts[0]; a.Reason != onejob.ReasonContractViolation || !strings.HasPrefix(a.Detail, "refusal") {
				t.Errorf("the attempt is %+v", a)
			}
			if n := s.count(`SELECT count(*) FROM attempts WHERE job_id = $1 AND (usage ->> 'output_tokens')::int > 0`, job.JobID); n != 1 {
				t.Error("what the refusal used is not kept")
			}
		})
	}
}

func TestBackgroundResponseOutlivesItsWorker(t *testing.T) {
	s := newSystem(t)
	stop := s.startWorker()
	job := s.vendorJob("deep", `"run_until": "`+s.hold("deep")+`"`)
	s.awaitStatus(job.JobID, onejob.StatusUnknown)
	stop()
	s.startWorker()
	s.release("deep")
	s.wantOneAttempt(job.JobID, 1)
}
