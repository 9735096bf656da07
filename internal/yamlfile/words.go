package yamlfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// TypeName says what a node is, for an error line.
func TypeName(node *yaml.Node) string {
	switch node.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch node.ShortTag() {
	case "!!null":
		return "empty"
	case "!!str":
		return "the text " + Quoted(node.Value)
	case "!!int", "!!float":
		return "the number " + Shown(node.Value)
	}
	return Quoted(node.Value) + " of type " + Shown(strings.TrimPrefix(node.ShortTag(), "!!"))
}

// Suggestion is the remedy for a name that is none of the known ones.
func Suggestion(name string, known []string) string {
	names := slices.Sorted(slices.Values(known))
	best := slices.MinFunc(names, func(a, b string) int { return distance(name, a) - distance(name, b) })
	if distance(name, best) <= 2 {
		return "did you mean " + best + "?"
	}
	return "use one of " + strings.Join(names, ", ")
}

// distance is the number of letters to insert, remove or change to make b of a. Names
// too long to be a slip are far from everything.
func distance(a, b string) int {
	if len(a) > 40 {
		return len(a)
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// Quoted is a value of the file within an error line, in quotes.
func Quoted(s string) string { return fmt.Sprintf("%q", beginning(s)) }

// Shown is a name or number of the file within an error line.
func Shown(s string) string { return strings.Trim(Quoted(s), `"`) }

// beginning is as much of s as an error line holds, in whole characters.
func beginning(s string) string {
	const most = 60
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
