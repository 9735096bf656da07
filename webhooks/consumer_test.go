package webhooks_test

import (
	"crypto/rand"
	"slices"
	"sync"
	"testing"

	"github.com/onejob/onejob/messages"
)

func TestMessageAppliedThriceIsToldOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	one, two := r.endpoint(t, "https://one.example"), r.endpoint(t, "https://two.example")
	batch := []messages.Message{r.happened(t, "job.succeeded", "https://callback.example"), r.happened(t, "job.failed", "")}
	var applying sync.WaitGroup
	for range 3 {
		applying.Go(func() { r.apply(t, batch...) })
	}
	applying.Wait()
	r.apply(t, batch...)
	var got []string
	for _, d := range r.deliveries(t) {
		got = append(got, d.MessageKey+" "+d.EndpointID+" "+d.URL)
	}
	want := []string{
		batch[0].Key + " " + one.ID + " https://one.example", batch[0].Key + " " + two.ID + " https://two.example",
		batch[0].Key + "  https://callback.example",
		batch[1].Key + " " + one.ID + " https://one.example", batch[1].Key + " " + two.ID + " https://two.example",
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("deliveries:\n%q\nwant:\n%q", got, want)
	}
}

func TestEndpointIsToldWhatItAskedFor(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.endpoint(t, "https://all.example")
	r.endpoint(t, "https://failures.example", "job.failed", "job.cancelled")
	removed := r.endpoint(t, "https://removed.example")
	if _, err := r.store.DisableEndpointIfEnabled(t.Context(), removed.ID, "no"); err != nil {
		t.Fatal(err)
	}
	other := r
	other.owner = rand.Text()
	other.endpoint(t, "https://other.example")
	batch := []messages.Message{r.happened(t, "job.succeeded", ""), r.happened(t, "job.failed", ""), r.happened(t, "job.cancelled", "")}
	r.endpoint(t, "https://later.example")
	r.apply(t, batch...)
	told := map[string]int{}
	for _, d := range append(r.deliveries(t), other.deliveries(t)...) {
		told[d.URL]++
	}
	if len(told) != 2 || told["https://all.example"] != 3 || told["https://failures.example"] != 2 {
		t.Errorf("told: %v", told)
	}
}
