package api_test

import (
	"bufio"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/onejob/onejob/api"
)

// raw writes the bytes to a connection of its own, and returns what came back until the server
// closed it or the first answer was whole.
func (r *rig) raw(parts ...string) answer {
	r.t.Helper()
	conn, err := net.Dial("tcp", r.door.address)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		r.t.Fatal(err)
	}
	var writing sync.WaitGroup
	writing.Go(func() { // beside the reading: a server that has read enough answers, and then resets the connection
		for _, part := range parts {
			if _, err := io.WriteString(conn, part); err != nil {
				return // it has said what it thinks of it
			}
		}
	})
	defer writing.Wait()
	defer conn.Close()
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		r.t.Fatalf("%.60q got no answer: %v", parts[0], err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, body}
}

// post is the head of a submit with further header lines, each with its line end.
func (r *rig) post(lines ...string) string {
	return "POST /v1/jobs HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n" + strings.Join(lines, "") + "\r\n"
}

const (
	keyLine  = "Idempotency-Key: malformed\r\n"
	jsonLine = "Content-Type: application/json\r\n"
)

func TestMalformedRequestsAreRefusedAndTheDoorGoesOn(t *testing.T) {
	r := newRig(t, func(o *api.Options) {
		o.Timeouts.Read = time.Second
		o.Timeouts.Header = time.Second
		o.Limits.InputBytes = 1 << 20
	})
	length := func(body string) string { return fmt.Sprintf("Content-Length: %d\r\n", len(body)) }
	deep := strings.Repeat("[", 100_000)
	submit := func(body string) []string { return []string{r.post(keyLine, jsonLine, length(body)), body} }
	for name, c := range map[string]struct {
		parts   []string
		status  []int
		problem string // empty: net/http answers by itself
	}{
		"no HTTP":                           {[]string{"\x16\x03\x01\x02\x00\r\n\r\n"}, []int{400}, ""},
		"no host":                           {[]string{"GET /v1/jobs HTTP/1.1\r\n\r\n"}, []int{400}, ""},
		"a header without a colon":          {[]string{"GET /v1/jobs HTTP/1.1\r\nHost: door\r\nnonsense\r\n\r\n"}, []int{400}, ""},
		"a header with a NUL":               {[]string{r.post("X-A: a\x00b\r\n")}, []int{400}, ""},
		"headers of a megabyte":             {[]string{r.post("X-A: " + strings.Repeat("a", 1<<20) + "\r\n")}, []int{431}, ""},
		"ten thousand headers":              {[]string{r.post(strings.Repeat("X-A: a\r\n", 10_000))}, []int{431}, ""},
		"two lengths":                       {[]string{r.post(keyLine, jsonLine, "Content-Length: 1\r\nContent-Length: 2\r\n"), "{}"}, []int{400}, ""},
		"a negative length":                 {[]string{r.post(keyLine, jsonLine, "Content-Length: -1\r\n")}, []int{400}, ""},
		"length and chunks":                 {[]string{r.post(keyLine, jsonLine, "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), "zzz\r\n"}, []int{400}, "invalid-request"},
		"another transfer encoding":         {[]string{r.post(keyLine, jsonLine, "Transfer-Encoding: gzip\r\n")}, []int{501}, ""},
		"broken chunks":                     {[]string{r.post(keyLine, jsonLine, "Transfer-Encoding: chunked\r\n"), "zz\r\n{}\r\n"}, []int{400}, "invalid-request"},
		"a body that never comes":           {[]string{r.post(keyLine, jsonLine, "Content-Length: 100\r\n")}, []int{408}, "request-timeout"},
		"a body that stops":                 {[]string{r.post(keyLine, jsonLine, "Content-Length: 100\r\n"), ticket[:10]}, []int{408}, "request-timeout"},
		"a body that is announced too long": {[]string{r.post(keyLine, jsonLine, "Content-Length: 999999999999\r\n")}, []int{413}, "too-large"},
		"a body that grows too long":        {[]string{r.post(keyLine, jsonLine, "Transfer-Encoding: chunked\r\n"), "1fffff\r\n" + strings.Repeat(" ", 0x1fffff) + "\r\n0\r\n\r\n"}, []int{413}, "too-large"},
		"no type":                           {[]string{r.post(keyLine, length(ticket)), ticket}, []int{415}, "unsupported-media-type"},
		"a form":                            {[]string{r.post(keyLine, "Content-Type: application/x-www-form-urlencoded\r\n", length(ticket)), ticket}, []int{415}, "unsupported-media-type"},
		"two types":                         {[]string{r.post(keyLine, jsonLine, "Content-Type: text/plain\r\n", length(ticket)), ticket}, []int{415}, "unsupported-media-type"},
		"JSON in UTF-16":                    {[]string{r.post(keyLine, "Content-Type: application/json; charset=utf-16\r\n", length(ticket)), ticket}, []int{415}, "unsupported-media-type"},
		"compressed":                        {[]string{r.post(keyLine, jsonLine, "Content-Encoding: gzip\r\n", length(zipped(t, ticket))), zipped(t, ticket)}, []int{415}, "unsupported-media-type"},
		"compressed and not said so":        {submit(zipped(t, ticket)), []int{400}, "invalid-request"},
		"no body":                           {submit(""), []int{400}, "invalid-request"},
		"a body of blanks":                  {submit("   "), []int{400}, "invalid-request"},
		"a mark of the byte order":          {submit("\xef\xbb\xbf" + ticket), []int{400}, "invalid-request"},
		"no UTF-8":                          {submit("{\"kind\": \"\xff\"}"), []int{400}, "invalid-request"},
		"half a surrogate":                  {submit(`{"kind": "\ud800"}`), []int{400}, "invalid-request"},
		"a NUL in a name":                   {submit(`{"kind": "a\u0000b", "provider": "primary", "input": 1}`), []int{400}, "invalid-request"},
		"deep from the top":                 {submit(deep), []int{400}, "invalid-request"},
		"a deep input":                      {submit(`{"kind": "ticket", "provider": "primary", "input": ` + strings.Repeat("[", 300) + strings.Repeat("]", 300) + `}`), []int{400}, "invalid-request"},
		"a bottomless input":                {submit(`{"kind": "ticket", "provider": "primary", "input": ` + deep + `}`), []int{400}, "invalid-request"},
		"a number of a megabyte":            {submit(`{"kind": "ticket", "provider": "primary", "input": 1e` + strings.Repeat("9", 1000) + `}`), []int{400}, "invalid-request"},
		"an input over the limit":           {submit(`{"kind": "ticket", "provider": "primary", "input": "` + strings.Repeat("a", 2<<20) + `"}`), []int{413}, "too-large"},
		"an unknown method":                 {[]string{"BREW /v1/jobs HTTP/1.1\r\nHost: door\r\n\r\n"}, []int{405}, "method-not-allowed"},
		"an unknown path":                   {[]string{"GET /v2/jobs HTTP/1.1\r\nHost: door\r\n\r\n"}, []int{404}, "not-found"},
		"a path with a NUL":                 {[]string{"GET /v1/jobs/%00 HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{404}, "not-found"},
		"a path of 8 KiB":                   {[]string{"GET /v1/jobs/" + strings.Repeat("a", 8<<10) + " HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{404}, "not-found"},
		"a filter with a NUL":               {[]string{"GET /v1/jobs?kind=%00 HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{400}, "invalid-request"},
		"a filter that is no UTF-8":         {[]string{"GET /v1/jobs?label=%ff%3d1 HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{400}, "invalid-request"},
		"a word that is no number":          {[]string{"GET /v1/jobs?limit=many HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{400}, "invalid-request"},
		"a number beyond all":               {[]string{"GET /v1/jobs?limit=99999999999999999999 HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{400}, "invalid-request"},
		"a filter with a typo":              {[]string{"GET /v1/jobs?knd=ticket HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{400}, "invalid-request"},
		"two tokens":                        {[]string{"GET /v1/jobs HTTP/1.1\r\nHost: door\r\nAuthorization: Bearer " + r.token + "\r\nAuthorization: Bearer " + r.token + "\r\n\r\n"}, []int{401}, "unauthorized"},
	} {
		got := r.raw(c.parts...)
		if !slices.Contains(c.status, got.status) || got.problem() != c.problem {
			t.Errorf("%s got %d %.300s, want %d %s", name, got.status, got.body, c.status, c.problem)
		}
	}
	r.mustSubmit("malformed", ticket)
}

func zipped(t *testing.T, text string) string {
	t.Helper()
	var b strings.Builder
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestSlowHeadersAreCut: who sends a byte now and then holds no connection for long.
func TestSlowHeadersAreCut(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Timeouts.Header = 100 * time.Millisecond })
	conn, err := net.Dial("tcp", r.door.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: door\r\n"); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); err != nil {
		t.Errorf("the connection was not closed: %v", err)
	}
}

func TestEveryAnswerIsSecured(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/healthz", "/readyz", "/openapi.json", "/docs", "/v1/jobs", "/nothing"} {
		got := r.get(path)
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "no-referrer"} {
			if got.header.Get(name) != want {
				t.Errorf("%s has %s: %q", path, name, got.header.Get(name))
			}
		}
		if policy := got.header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "http") {
			t.Errorf("%s has the policy %q", path, policy)
		}
	}
}

func TestRateOfATokenIsItsOwn(t *testing.T) {
	r := newRig(t, func(o *api.Options) { o.Rate = api.Rate{PerSecond: 0.001, Burst: 3} })
	for range 3 {
		if got := r.get("/v1/jobs"); got.status != http.StatusOK {
			t.Errorf("within the rate got %d %s", got.status, got.body)
		}
	}
	if got := r.get("/v1/jobs"); got.problem() != "rate-limited" || got.status != http.StatusTooManyRequests || got.header.Get("Retry-After") == "" {
		t.Errorf("beyond it got %d %v %s", got.status, got.header, got.body)
	}
	if got := r.do(call{method: http.MethodGet, path: "/v1/jobs", token: r.mustToken(r.owner, "user")}); got.status != http.StatusOK {
		t.Errorf("another token got %d %s", got.status, got.body)
	}
}
