package main

import (
	"slices"
	"testing"
)

func TestSharesAreAllMistakesOnce(t *testing.T) {
	t.Parallel()
	want := []string{"a", "b", "c", "d", "e"}
	all := []mutant{{name: "a"}, {name: "b"}, {name: "c"}, {name: "d"}, {name: "e"}}
	for _, n := range []int{1, 2, 3, 5, 7} {
		var got []string
		for k := 1; k <= n; k++ {
			for _, m := range (share{k, n}).of(all) {
				got = append(got, m.name)
			}
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("in %d shares: %v", n, got)
		}
	}
	if got := (share{}).of(all); len(got) != len(want) {
		t.Errorf("the zero share: %v", got)
	}
}

func TestShareIsReadOrRefused(t *testing.T) {
	t.Parallel()
	var s share
	if err := s.UnmarshalText([]byte("2/3")); err != nil || s != (share{2, 3}) {
		t.Errorf("2/3 is %v, %v", s, err)
	}
	for _, wrong := range []string{"", "2", "0/3", "4/3", "-1/3", "1/0", "a/b", "1/3/5", "1/3 5", "1/3x"} {
		if s.UnmarshalText([]byte(wrong)) == nil {
			t.Errorf("%q is %v", wrong, s)
		}
	}
}
