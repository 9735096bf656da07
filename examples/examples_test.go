package examples_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"os"
	"strings"
	"testing"
	"unicode"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/config"
)

func mustLoadConfig(t *testing.T) *config.Config {
	t.Helper()
	c, err := config.Load("onejob.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// mustReadLines returns the lines of jobs.jsonl, without their ends.
func mustReadLines(t *testing.T) [][]byte {
	t.Helper()
	text, err := os.ReadFile("jobs.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasSuffix(text, []byte("\n")) {
		t.Error("the last line has no end")
	}
	return bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
}

func mustReadJobs(t *testing.T) []onejob.Job {
	t.Helper()
	catalog := mustLoadConfig(t).Catalog()
	var jobs []onejob.Job
	for i, line := range mustReadLines(t) {
		request, err := onejob.DecodeRequest(line)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		job, err := onejob.NewJob(request, catalog)
		if err != nil {
			t.Fatalf("line %d: %v", i+1, err)
		}
		jobs = append(jobs, job)
	}
	return jobs
}

func TestExampleConfigurationNeedsNoEnvironmentAndLeavesNothingUnused(t *testing.T) {
	t.Parallel()
	c := mustLoadConfig(t)
	if len(c.Providers) != 2 || c.Providers[0].Name != "primary" || c.Providers[1].Name != "fallback" {
		t.Errorf("providers %+v", c.Providers)
	}
}

func TestEveryLineIsAJobOfItsOwn(t *testing.T) {
	t.Parallel()
	jobs := mustReadJobs(t)
	if len(jobs) < 50 {
		t.Errorf("%d jobs", len(jobs))
	}
	first := map[string]int{}
	for i, job := range jobs {
		if other, taken := first[job.WorkflowID]; taken {
			t.Errorf("lines %d and %d are both %s", other, i+1, job.WorkflowID)
		}
		first[job.WorkflowID] = i + 1
	}
}

func TestJobsCoverKindsProvidersAndSizes(t *testing.T) {
	t.Parallel()
	kinds, providers, owners := map[string]int{}, map[string]int{}, map[string]int{}
	shortest, longest := 1<<30, 0
	for _, line := range mustReadLines(t) {
		shortest, longest = min(shortest, len(line)), max(longest, len(line))
	}
	for _, job := range mustReadJobs(t) {
		kinds[job.Kind]++
		providers[job.Provider]++
		owners[job.Owner]++
	}
	c := mustLoadConfig(t)
	if len(kinds) != len(c.Kinds) || len(providers) != len(c.Providers) || len(owners) < 5 {
		t.Errorf("kinds %v, providers %v, owners %v", kinds, providers, owners)
	}
	if shortest > 120 || longest < 50_000 || longest > 70_000 {
		t.Errorf("lines of %d to %d bytes", shortest, longest)
	}
}

func TestJobsAreWrittenInManyScripts(t *testing.T) {
	t.Parallel()
	text := string(bytes.Join(mustReadLines(t), nil))
	for _, script := range []*unicode.RangeTable{
		unicode.Latin, unicode.Cyrillic, unicode.Greek, unicode.Arabic, unicode.Hebrew, unicode.Devanagari,
		unicode.Thai, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Ethiopic, unicode.So,
	} {
		if !strings.ContainsFunc(text, func(r rune) bool { return unicode.Is(script, r) }) {
			t.Errorf("no character of %v", script.R16)
		}
	}
}

// TestNothingSteersTheSimulator: the examples are what users send.
func TestNothingSteersTheSimulator(t *testing.T) {
	t.Parallel()
	for i, line := range mustReadLines(t) {
		if bytes.Contains(line, []byte(`"simulate"`)) {
			t.Errorf("line %d asks to be simulated", i+1)
		}
	}
}

func TestInvoicesAddUp(t *testing.T) {
	t.Parallel()
	invoices := 0
	for _, job := range mustReadJobs(t) {
		if job.Kind != "invoice" {
			continue
		}
		invoices++
		checkInvoice(t, job)
	}
	if invoices < 10 {
		t.Errorf("%d invoices", invoices)
	}
}

type invoice struct {
	Lines []struct {
		Quantity  json.Number
		UnitPrice json.Number `json:"unit_price"`
		Amount    json.Number
	}
	Net, Tax, Total json.Number
	TaxRate         json.Number `json:"tax_rate"`
}

func checkInvoice(t *testing.T, job onejob.Job) {
	t.Helper()
	var v invoice
	if err := json.Unmarshal(job.Input, &v); err != nil {
		t.Fatalf("%s: %v", job.Key, err)
	}
	net := new(big.Rat)
	for i, line := range v.Lines {
		if !rounded(new(big.Rat).Mul(exact(t, line.Quantity), exact(t, line.UnitPrice)), line.Amount) {
			t.Errorf("%s, line %d: %s times %s is not %s", job.Key, i+1, line.Quantity, line.UnitPrice, line.Amount)
		}
		net.Add(net, exact(t, line.Amount))
	}
	if net.Cmp(exact(t, v.Net)) != 0 {
		t.Errorf("%s: the lines sum up to %s, not %s", job.Key, net.FloatString(3), v.Net)
	}
	tax := new(big.Rat).Mul(net, new(big.Rat).Quo(exact(t, v.TaxRate), big.NewRat(100, 1)))
	if !rounded(tax, v.Tax) || net.Add(net, exact(t, v.Tax)).Cmp(exact(t, v.Total)) != 0 {
		t.Errorf("%s: net %s, tax %s, total %s", job.Key, v.Net, v.Tax, v.Total)
	}
}

func exact(t *testing.T, n json.Number) *big.Rat {
	t.Helper()
	r, ok := new(big.Rat).SetString(n.String())
	if !ok {
		t.Fatalf("%q is no number", n)
	}
	return r
}

// rounded says that amount is value, rounded to the places that amount is written in.
func rounded(value *big.Rat, amount json.Number) bool {
	_, fraction, _ := strings.Cut(amount.String(), ".")
	return value.FloatString(len(fraction)) == amount.String()
}
