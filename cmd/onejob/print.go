package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/rivo/uniseg"
	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/starter"
)

// outputFlag adds -o to a command that prints data.
func outputFlag(cmd *cobra.Command) *choice {
	output := oneOf("table", "json")
	cmd.Flags().VarP(output, "output", "o", "table or json")
	return output
}

// printAs prints v as one line of JSON, or by table.
func printAs(cmd *cobra.Command, output *choice, v any, table func(io.Writer)) error {
	w := cmd.OutOrStdout()
	if output.value == "json" {
		return writeJSON(w, v)
	}
	var text bytes.Buffer
	table(&text)
	_, err := w.Write(text.Bytes())
	return err
}

// writeJSON writes v as one line. Characters stand as they are, for people and for
// programs that compare.
func writeJSON(w io.Writer, v any) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err
	}
	_, err := w.Write(text.Bytes())
	return err
}

// detail is what the commands print of a job.
type detail struct {
	onejob.View
	Created bool            `json:"created"` // by this command
	result  json.RawMessage // exactly as stored; nil: none
}

func newDetail(d starter.Detail, created bool) detail {
	return detail{View: d.View, Created: created, result: d.Result}
}

// object returns the job as one JSON object and a line end. Its member result is the text
// as it is stored: no encoder touches it.
func (d detail) object() ([]byte, error) {
	var object bytes.Buffer
	if err := writeJSON(&object, d); err != nil {
		return nil, err
	}
	object.Truncate(object.Len() - len("}\n"))
	object.WriteString(`,"result":`)
	if d.result == nil {
		object.WriteString("null")
	}
	object.Write(d.result)
	object.WriteString("}\n")
	return object.Bytes(), nil
}

// printDetail prints a job, the result exactly as it is stored.
func printDetail(cmd *cobra.Command, output *choice, d detail) error {
	if output.value == "json" {
		object, err := d.object()
		if err == nil {
			_, err = cmd.OutOrStdout().Write(object)
		}
		return err
	}
	return printAs(cmd, output, nil, d.table)
}

func (d detail) table(w io.Writer) {
	rows := [][]string{
		{"job", d.JobID}, {"workflow", d.WorkflowID}, {"status", string(d.Status)},
		{"owner", d.Owner}, {"key", d.Key}, {"kind", d.Kind}, {"provider", d.Provider},
		{"fallbacks", strings.Join(d.Fallbacks, ", ")}, {"version", fmt.Sprint(d.Version)},
		{"created", clock(d.CreatedAt)}, {"finished", clock(d.FinishedAt)},
	}
	if d.CompletedBy > 0 {
		rows = append(rows, []string{"completed by", fmt.Sprintf("attempt %d", d.CompletedBy)})
	}
	if d.Error != nil {
		rows = append(rows, []string{"error", fmt.Sprintf("%s: %s", d.Error.Code, d.Error.Message)})
	}
	if d.result != nil {
		rows = append(rows, []string{"result", string(d.result)})
	}
	writeTable(w, rows...)
	if len(d.Attempts) > 0 {
		fmt.Fprintln(w)
		attemptsTable(w, d.Attempts)
	}
}

func attemptsTable(w io.Writer, attempts []onejob.Attempt) {
	rows := [][]string{{"ATTEMPT", "PROVIDER", "STATE", "REASON", "STARTED", "FINISHED", "DISCARDED", "DETAIL"}}
	for _, a := range attempts {
		rows = append(rows, []string{fmt.Sprint(a.Number), a.Provider, string(a.State), string(a.Reason),
			clock(a.StartedAt), clock(a.FinishedAt), yes(a.Discarded), a.Detail})
	}
	writeTable(w, rows...)
}

// writeTable writes rows in columns as wide as their characters are on a screen. An
// empty cell is a dash.
func writeTable(w io.Writer, rows ...[]string) {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable(cmp.Or(cell, "-"))
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], uniseg.StringWidth(row[i]))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for i, cell := range row {
			line.WriteString(cell)
			if i < len(row)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-uniseg.StringWidth(cell)+2))
			}
		}
		fmt.Fprintln(w, line.String())
	}
}

// printable replaces what would steer a terminal or break a line.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, text)
}

func clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func yes(b bool) string {
	if b {
		return "yes"
	}
	return ""
}
