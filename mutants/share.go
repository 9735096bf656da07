package main

import "fmt"

// share is every nth mistake from the kth on. The n shares are all mistakes, each once; the zero
// share is all of them, too.
type share struct{ k, n int }

// UnmarshalText reads K/N.
func (s *share) UnmarshalText(text []byte) error {
	var read share
	var more string
	if got, _ := fmt.Sscanf(string(text)+" .", "%d/%d %s", &read.k, &read.n, &more); got != 3 || more != "." || read.k < 1 || read.k > read.n {
		return fmt.Errorf("%q is no share: write 1/3 for the first of three", text)
	}
	*s = read
	return nil
}

// MarshalText returns K/N.
func (s share) MarshalText() ([]byte, error) { return fmt.Appendf(nil, "%d/%d", s.k, s.n), nil }

func (s share) of(all []mutant) (chosen []mutant) {
	if s.n == 0 {
		return all
	}
	for i := s.k - 1; i < len(all); i += s.n {
		chosen = append(chosen, all[i])
	}
	return chosen
}
