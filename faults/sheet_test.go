package faults_test

import (
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
)

// The providers that have prices, and their models.
var modelOf = map[string]string{"askable": "m-large", "spare": "m-small"}

// priceList is what a unit costs us, and what its owner pays.
var priceList = map[string]map[string][2]string{
	"askable": {
		"call":         {"0.000123456789", "0.001000000001"},
		"input":        {"0.000000000003", "0.000000000007"},
		"cached_input": {"0.000000000001", "0.000000000002"},
		"output":       {"0.000000100003", "0.000000300007"},
		"reasoning":    {"0.000000200009", "0.000000400011"},
	},
	"spare": {"call": {"0.0005", "0.000700000000"}, "input": {"0.000000000011", "0.000000000013"}, "output": {"0.0000005", "0.000000600001"}},
}

// pricesText is the price list as the configuration has it.
func pricesText() string {
	var text strings.Builder
	for provider, units := range priceList {
		for unit, price := range units {
			fmt.Fprintf(&text, "  - {provider: %s, model: %s, unit: %s, price: %s, charge: %s, currency: %s}\n",
				provider, modelOf[provider], unit, price[0], price[1], currency)
		}
	}
	return text.String()
}

// line is a line of the sheet, and of a summary.
type line struct {
	calls, jobs                      int64
	input, cached, output, reasoning int64
	cost, charged                    big.Rat
}

func (l *line) String() string {
	return fmt.Sprintf("%d calls, %d jobs, tokens %d (%d) + %d (%d), cost %s, charged %s",
		l.calls, l.jobs, l.input, l.cached, l.output, l.reasoning, l.cost.FloatString(15), l.charged.FloatString(15))
}

// usage is what an attempt used.
type usage struct {
	Input     int64 `json:"input_tokens"`
	Cached    int64 `json:"cached_input_tokens"`
	Output    int64 `json:"output_tokens"`
	Reasoning int64 `json:"reasoning_tokens"`
}

// add adds an attempt: its cost, and if it won its charge.
func (l *line) add(provider string, u usage, won bool) {
	l.calls++
	l.input, l.cached, l.output, l.reasoning = l.input+u.Input, l.cached+u.Cached, l.output+u.Output, l.reasoning+u.Reasoning
	l.cost.Add(&l.cost, priced(provider, u, 0))
	if won {
		l.jobs++
		l.charged.Add(&l.charged, priced(provider, u, 1))
	}
}

// priced multiplies the usage by the prices in that column of the list.
func priced(provider string, u usage, column int) *big.Rat {
	sum, units := new(big.Rat), priceList[provider]
	for unit, quantity := range map[string]int64{
		"call": 1, "input": u.Input - u.Cached, "cached_input": u.Cached, "output": u.Output - u.Reasoning, "reasoning": u.Reasoning,
	} {
		price, ok := units[unit]
		if !ok {
			price = units[map[string]string{"cached_input": "input", "reasoning": "output"}[unit]]
		}
		sum.Add(sum, new(big.Rat).Mul(rational(price[column]), new(big.Rat).SetInt64(quantity)))
	}
	return sum
}

func rational(text string) *big.Rat {
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		panic(text + " is no number")
	}
	return exact
}

// sheet has the lines by what they are about.
type sheet map[string]*line

func (s sheet) line(about ...string) *line {
	key := strings.Join(about, " ")
	if s[key] == nil {
		s[key] = &line{}
	}
	return s[key]
}

// mustEqual compares line by line.
func (s *system) mustEqual(what string, got, want sheet) {
	s.t.Helper()
	for _, about := range slices.Sorted(maps.Keys(want)) {
		if g, w := got.line(about).String(), want[about].String(); g != w {
			s.t.Errorf("%s of %s:\n%s, the sheet has\n%s", what, about, g, w)
		}
	}
	if len(got) != len(want) {
		s.t.Errorf("%s has %d lines, the sheet %d", what, len(got), len(want))
	}
}
