package api

import (
	_ "embed"
	"encoding/json"
	"html/template"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"

	"github.com/danielgtaylor/huma/v2"
)

// description is what the OpenAPI document says beside the routes. Its document and its page are
// served by the door itself: huma's page loads its script from elsewhere.
func (d *Door) description() huma.Config {
	json := huma.Format{Marshal: writeBody, Unmarshal: json.Unmarshal}
	return huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Info: &huma.Info{
				Title: "onejob", Version: d.options.Version,
				Description: "One job per intention. Whatever creates something wants the header Idempotency-Key; every error is a problem of RFC 9457.",
			},
			Components: &huma.Components{
				Schemas: huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer),
				SecuritySchemes: map[string]*huma.SecurityScheme{"token": {
					Type: "http", Scheme: "bearer", Description: "A token of `onejob token create`, or of the configured OpenID issuer. The owner is whom it names.",
				}},
			},
			Tags: []*huma.Tag{
				{Name: "Jobs", Description: "Submit intentions and read what became of them."},
				{Name: "Decisions", Description: "What people decide about a job. Who decided, when and why is recorded."},
				{Name: "Money", Description: "Amounts are strings of decimal digits, exact."},
				{Name: "Webhooks", Description: "Where an owner is told of its jobs."},
				{Name: "Vendors", Description: "What clients of other APIs speak already, where it is configured."},
			},
		},
		Formats: map[string]huma.Format{"application/json": json, "json": json},
	}
}

// writeBody writes an answer's body. One that is to be written exactly does so itself.
func writeBody(w io.Writer, v any) error {
	write := marshal
	if exact, ok := v.(interface{ exactly() ([]byte, error) }); ok {
		write = func(any) ([]byte, error) { return exact.exactly() }
	}
	text, err := write(v)
	if err == nil {
		_, err = w.Write(append(text, '\n'))
	}
	return err
}

// OpenAPI returns the OpenAPI document of the door.
func (d *Door) OpenAPI() *huma.OpenAPI { return d.api.OpenAPI() }

func (d *Door) serveOpenAPI(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Cache-Control", "public, max-age=300")
	w.Header().Set("Access-Control-Allow-Origin", "*") // it is no secret
	writeJSON(w, http.StatusOK, d.api.OpenAPI())
}

//go:embed docs.html
var docsText string

var docsTemplate = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("docs").Funcs(template.FuncMap{
		"operations": operations,
		"sorted":     func(responses map[string]*huma.Response) []string { return slices.Sorted(maps.Keys(responses)) },
		"json": func(v any) (string, error) {
			text, err := json.MarshalIndent(v, "", "  ")
			return string(text), err
		},
	}).Parse(docsText))
})

// serveDocs serves the document as a page: no script, nothing from elsewhere.
func (d *Door) serveDocs(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	if err := docsTemplate().Execute(w, map[string]any{"API": d.api.OpenAPI(), "Problems": problemsInOrder, "Base": ProblemBase}); err != nil {
		d.options.Logger.Warn("the page of the API was not written", "error", err)
	}
}

// operations lists the operations of a tag in the order of their paths.
func operations(api *huma.OpenAPI, tag string) (all []*huma.Operation) {
	for _, path := range slices.Sorted(maps.Keys(api.Paths)) {
		for _, op := range operationsOf(api.Paths[path]) {
			if slices.Contains(op.Tags, tag) {
				all = append(all, op)
			}
		}
	}
	return all
}

// operationsOf lists the operations of a path.
func operationsOf(p *huma.PathItem) (all []*huma.Operation) {
	for _, op := range []*huma.Operation{p.Get, p.Post, p.Put, p.Patch, p.Delete} {
		if op != nil {
			all = append(all, op)
		}
	}
	return all
}
