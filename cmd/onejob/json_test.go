package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

func expectField(ts *testscript.TestScript, neg bool, args []string) {
	if got := fieldOf(ts, args[0]); (got == args[1]) == neg {
		ts.Fatalf("%s is %s, want %s", args[0], got, args[1])
	}
}

func keepField(ts *testscript.TestScript, _ bool, args []string) {
	ts.Setenv(args[1], fieldOf(ts, args[0]))
}

// fieldOf returns what stands at the path in the standard output, which must be one
// value of JSON, or one in each line: then the path begins with the line's number. Texts
// stand without quotes, all else as JSON. The path may end with len, for a length.
func fieldOf(ts *testscript.TestScript, path string) string {
	parts := strings.Split(strings.TrimPrefix(path, "."), ".")
	text := ts.ReadFile("stdout")
	if strings.HasPrefix(path, "line.") {
		number, err := strconv.Atoi(parts[1])
		ts.Check(err)
		text, parts = strings.SplitAfter(text, "\n")[number-1], parts[2:]
	}
	var value any
	strict := json.NewDecoder(strings.NewReader(text))
	strict.UseNumber()
	ts.Check(strict.Decode(&value))
	if strict.More() {
		ts.Fatalf("there is something behind the JSON value:\n%s", text)
	}
	for _, part := range parts {
		if part != "" {
			value = member(ts, value, part)
		}
	}
	if text, ok := value.(string); ok {
		return text
	}
	encoded, err := json.Marshal(value)
	ts.Check(err)
	return string(encoded)
}

func member(ts *testscript.TestScript, value any, part string) any {
	switch value := value.(type) {
	case map[string]any:
		if part == "len" {
			return len(value)
		}
		found, ok := value[part]
		if !ok {
			return "(absent)"
		}
		return found
	case []any:
		if part == "len" {
			return len(value)
		}
		index, err := strconv.Atoi(part)
		ts.Check(err)
		if index < len(value) {
			return value[index]
		}
	}
	return fmt.Sprintf("(absent: %s)", part)
}
