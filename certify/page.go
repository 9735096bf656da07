package certify

import (
	_ "embed"
	"html/template"
	"io"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// WriteHTML writes the reports as one page that needs nothing else.
func WriteHTML(w io.Writer, reports []Report) error { return page.Execute(w, reports) }
