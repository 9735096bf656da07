package api_test

import (
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/onejob/onejob/api"
)

func TestOpenAPIDocumentSaysWhatARouteNeeds(t *testing.T) {
	r := newRig(t)
	got := r.get("/openapi.json")
	var document struct {
		OpenAPI string                               `json:"openapi"`
		Paths   map[string]map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal(got.body, &document); err != nil || document.OpenAPI != "3.1.0" || len(document.Paths) < 12 {
		t.Fatalf("the document is %v, %s with %d paths", err, document.OpenAPI, len(document.Paths))
	}
	for path, operations := range document.Paths {
		for method, op := range operations {
			name := method + " " + path
			responses, _ := op["responses"].(map[string]any)
			for _, member := range []string{"operationId", "summary", "tags", "security"} {
				if op[member] == nil {
					t.Errorf("%s has no %s", name, member)
				}
			}
			for _, status := range []string{"400", "401", "403", "429", "500", "503"} {
				if responses[status] == nil {
					t.Errorf("%s says nothing of %s", name, status)
				}
			}
			if responses["200"] == nil && responses["201"] == nil && responses["202"] == nil {
				t.Errorf("%s says nothing of its answer: %v", name, responses)
			}
			if body, ok := op["requestBody"].(map[string]any); ok {
				content := body["content"].(map[string]any)["application/json"].(map[string]any)
				if content["schema"] == nil || content["example"] == nil {
					t.Errorf("%s has a body without schema or example", name)
				}
			}
		}
	}
	submit := document.Paths["/v1/jobs"]["post"]
	if responses := submit["responses"].(map[string]any); responses["200"] == nil || responses["201"] == nil || responses["409"] == nil || responses["402"] == nil {
		t.Errorf("the submit answers %v", responses)
	}
}

// TestExamplesOfTheDocumentAreTaken: what it shows as a body is a body.
func TestExamplesOfTheDocumentAreTaken(t *testing.T) {
	r := newRig(t, hasty)
	job := r.mustSubmit("k", ticket)
	for _, op := range r.door.operations() {
		if op.RequestBody == nil {
			continue
		}
		text, err := json.Marshal(op.RequestBody.Content["application/json"].Example)
		if err != nil {
			t.Fatal(err)
		}
		c := r.operation(op, r.mustToken(r.owner, "operator"), map[string]string{"job": job, "attempt": "1", "endpoint": "none", "delivery": "1"})
		c.body, c.key = string(text), "example-"+op.OperationID
		if got := r.do(c); got.status >= 400 && got.problem() != "not-found" && got.problem() != "nothing-to-resolve" && got.problem() != "attempt-unresolved" && got.problem() != "job-closed" && got.header.Get("Onejob-Job") == "" {
			t.Errorf("%s %s got %d %s for its example %s", op.Method, op.Path, got.status, got.body, text)
		}
	}
}

func TestDocsPageNeedsNothingFromElsewhere(t *testing.T) {
	r := newRig(t)
	got := r.get("/docs")
	page := string(got.body)
	if got.status != http.StatusOK || !strings.HasPrefix(got.header.Get("Content-Type"), "text/html") {
		t.Fatalf("the page is %d %v", got.status, got.header)
	}
	if regexp.MustCompile(`(?i)<script|<link|<img|<iframe|@import|url\(`).MatchString(page) || !strings.Contains(page, "</html>") {
		t.Errorf("the page loads something, or is cut:\n%s", page)
	}
	for _, op := range r.door.operations() {
		if !strings.Contains(page, `id="`+op.OperationID+`"`) {
			t.Errorf("the page lacks %s", op.OperationID)
		}
	}
}

// TestDocumentsListEveryProblemAndRoute: docs/http.md is the page of all that is stable.
func TestDocumentsListEveryProblemAndRoute(t *testing.T) {
	text, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	for _, p := range api.Problems() {
		if !strings.Contains(page, "`"+p.Name+"`") {
			t.Errorf("docs/http.md lacks the problem %s", p.Name)
		}
	}
	r := newRig(t)
	for _, op := range r.door.operations() {
		if !strings.Contains(page, "`"+op.Method+" "+op.Path+"`") {
			t.Errorf("docs/http.md lacks %s %s", op.Method, op.Path)
		}
	}
	if !strings.Contains(page, api.ProblemBase) {
		t.Error("docs/http.md lacks the base of the problems' types")
	}
}
