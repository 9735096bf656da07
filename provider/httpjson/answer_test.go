package httpjson_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/provider/httpjson"
	"github.com/onejob/onejob/provider/verdict"
)

// row is an answer on the wire and what it must become.
type row struct {
	status int
	header map[string]string
	body   string
	want   provider.Answer
}

func succeeded(result string) provider.Answer {
	return provider.Answer{Certainty: provider.Succeeded, Result: json.RawMessage(result)}
}

func failed(reason onejob.Reason) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: reason}
}

func refused(after time.Duration) provider.Answer {
	return provider.Answer{Certainty: provider.Failed, Reason: onejob.ReasonRefused, Retryable: true, RetryAfter: after}
}

func unknown(reason onejob.Reason) provider.Answer {
	return provider.Answer{Certainty: provider.Unknown, Reason: reason}
}

func accepted(reference string) provider.Answer {
	return provider.Answer{Certainty: provider.Accepted, Reference: reference}
}

func using(a provider.Answer, input, output, cached int64) provider.Answer {
	a.Usage = &provider.Usage{InputTokens: input, OutputTokens: output, CachedInputTokens: cached}
	return a
}

const used = `"usage":{"input_tokens":3,"output_tokens":4,"cached_input_tokens":1}`

// answerTable is the table of docs/design.md, 'What a provider's answer means', as
// far as an HTTP answer is concerned.
var answerTable = map[string]row{
	"200":                        {200, nil, `{"a":1}`, succeeded(`{"a":1}`)},
	"201":                        {201, nil, ` [1, 2] `, succeeded(` [1, 2] `)},
	"200 as text/plain":          {200, map[string]string{"Content-Type": "text/plain"}, `"hello"`, succeeded(`"hello"`)},
	"200 with usage":             {200, nil, `{` + used + `}`, using(succeeded(`{`+used+`}`), 3, 4, 1)},
	"200 with a null error":      {200, nil, `{"error":null}`, succeeded(`{"error":null}`)},
	"200 with a member twice":    {200, nil, `{"a":1,"a":2}`, succeeded(`{"a":1,"a":2}`)},
	"200 with unreadable usage":  {200, nil, `{"usage":{"input_tokens":-1}}`, succeeded(`{"usage":{"input_tokens":-1}}`)},
	"200 with other usage":       {200, nil, `{"usage":{"pages":2}}`, succeeded(`{"usage":{"pages":2}}`)},
	"200 with half a usage":      {200, nil, `{"usage":{"input_tokens":1,"output_tokens":"x"}}`, succeeded(`{"usage":{"input_tokens":1,"output_tokens":"x"}}`)},
	"200 with the usage 2.0":     {200, nil, `{"usage":{"input_tokens":2.0}}`, using(succeeded(`{"usage":{"input_tokens":2.0}}`), 2, 0, 0)},
	"200 HTML":                   {200, nil, `<html></html>`, unknown(onejob.ReasonUnreadable)},
	"200 without a body":         {200, nil, ``, unknown(onejob.ReasonUnreadable)},
	"200 with two values":        {200, nil, `{} {}`, unknown(onejob.ReasonUnreadable)},
	"200 that ends too early":    {200, nil, `{"a":`, unknown(onejob.ReasonUnreadable)},
	"200 with invalid UTF-8":     {200, nil, "\"\xff\"", unknown(onejob.ReasonUnreadable)},
	"200 with half a surrogate":  {200, nil, `"\ud800"`, unknown(onejob.ReasonUnreadable)},
	"200 too deep":               {200, nil, strings.Repeat("[", 201) + strings.Repeat("]", 201), unknown(onejob.ReasonUnreadable)},
	"200 as deep as allowed":     {200, nil, strings.Repeat("[", 200) + strings.Repeat("]", 200), succeeded(strings.Repeat("[", 200) + strings.Repeat("]", 200))},
	"204":                        {204, nil, ``, unknown(onejob.ReasonUnreadable)},
	"206":                        {206, nil, `{}`, unknown(onejob.ReasonUnreadable)},
	"202 with id":                {202, nil, `{"id":"r-1"}`, accepted("r-1")},
	"202 with a number as id":    {202, nil, `{"id":17}`, accepted("17")},
	"202 with Location":          {202, map[string]string{"Location": "/v1/run/r-1"}, ``, accepted("/v1/run/r-1")},
	"202 with id and usage":      {202, nil, `{"id":"r-1",` + used + `}`, using(accepted("r-1"), 3, 4, 1)},
	"202 with neither":           {202, nil, `{}`, unknown(onejob.ReasonUnreadable)},
	"202 with an unusable id":    {202, nil, `{"id":"a b"}`, unknown(onejob.ReasonUnreadable)},
	"202 with an endless id":     {202, nil, `{"id":"` + strings.Repeat("x", 3000) + `"}`, unknown(onejob.ReasonUnreadable)},
	"202 HTML":                   {202, nil, `<html>`, unknown(onejob.ReasonUnreadable)},
	"202 with an error":          {202, nil, `{"id":"r-1","error":{"code":"invalid_request"}}`, failed(onejob.ReasonRejected)},
	"2xx error, rejected":        {200, nil, `{"error":{"type":"invalid_request_error","code":"brand_new"}}`, failed(onejob.ReasonRejected)},
	"2xx error, as a status":     {200, nil, `{"error":{"code":422}}`, failed(onejob.ReasonRejected)},
	"2xx error, quota":           {200, nil, `{"error":{"code":"insufficient_quota"}}`, failed(onejob.ReasonProviderQuota)},
	"2xx error, rate":            {200, map[string]string{"Retry-After": "3"}, `{"error":"rate_limited"}`, refused(3 * time.Second)},
	"2xx error, rate, billed":    {200, nil, `{"error":"rate_limited",` + used + `}`, using(unknown(onejob.ReasonServerError), 3, 4, 1)},
	"2xx error, internal":        {200, nil, `{"error":{"type":"api_error"}}`, unknown(onejob.ReasonServerError)},
	"2xx error, unknown code":    {200, nil, `{"error":{"code":"E1001"}}`, unknown(onejob.ReasonServerError)},
	"2xx error, success as code": {200, nil, `{"error":{"code":200}}`, unknown(onejob.ReasonServerError)},
	"2xx error without a code":   {200, nil, `{"error":{"message":"invalid_request"}}`, unknown(onejob.ReasonServerError)},
	"2xx error beside a null":    {200, nil, `{"error":"invalid_request","error":null}`, failed(onejob.ReasonRejected)},
	"301":                        {301, map[string]string{"Location": "/elsewhere"}, ``, failed(onejob.ReasonRejected)},
	"307 to nowhere":             {307, map[string]string{"Location": "http://[::1"}, ``, failed(onejob.ReasonRejected)},
	"400":                        {400, nil, ``, failed(onejob.ReasonRejected)},
	"400 with usage":             {400, nil, `{` + used + `}`, using(failed(onejob.ReasonRejected), 3, 4, 1)},
	"401":                        {401, nil, ``, failed(onejob.ReasonRejected)},
	"402":                        {402, nil, ``, failed(onejob.ReasonProviderQuota)},
	"403":                        {403, nil, ``, failed(onejob.ReasonRejected)},
	"403 quota":                  {403, nil, `{"error":{"type":"billing_error"}}`, failed(onejob.ReasonProviderQuota)},
	"404":                        {404, nil, ``, failed(onejob.ReasonRejected)},
	"405":                        {405, nil, ``, failed(onejob.ReasonRejected)},
	"406":                        {406, nil, ``, unknown(onejob.ReasonServerError)},
	"407":                        {407, nil, ``, unknown(onejob.ReasonServerError)},
	"408":                        {408, nil, ``, unknown(onejob.ReasonServerError)},
	"409":                        {409, nil, ``, unknown(onejob.ReasonServerError)},
	"410":                        {410, nil, ``, unknown(onejob.ReasonServerError)},
	"413":                        {413, nil, ``, failed(onejob.ReasonRejected)},
	"415":                        {415, nil, ``, failed(onejob.ReasonRejected)},
	"418":                        {418, nil, ``, unknown(onejob.ReasonServerError)},
	"422":                        {422, nil, ``, failed(onejob.ReasonRejected)},
	"425":                        {425, nil, ``, unknown(onejob.ReasonServerError)},
	"429":                        {429, nil, ``, refused(0)},
	"429 in 7 seconds":           {429, map[string]string{"Retry-After": "7"}, `{}`, refused(7 * time.Second)},
	"429 quota":                  {429, nil, `{"error":{"code":"insufficient_quota"}}`, failed(onejob.ReasonProviderQuota)},
	"429 quota without wrapper":  {429, nil, `{"code":"insufficient_quota"}`, failed(onejob.ReasonProviderQuota)},
	"429 with usage":             {429, nil, `{` + used + `}`, using(unknown(onejob.ReasonServerError), 3, 4, 1)},
	"429 with a foreign usage":   {429, nil, `{"usage":{"prompt":{"tokens":1}}}`, unknown(onejob.ReasonServerError)},
	"429 with billing":           {429, nil, `{"billing":"1 credit"}`, unknown(onejob.ReasonServerError)},
	"429 with usage of zero":     {429, nil, `{"usage":{"input_tokens":0,"output_tokens":0}}`, using(refused(0), 0, 0, 0)},
	"500":                        {500, nil, ``, unknown(onejob.ReasonServerError)},
	"500 with usage":             {500, nil, `{` + used + `}`, using(unknown(onejob.ReasonServerError), 3, 4, 1)},
	"500 quota":                  {500, nil, `{"error":{"code":"insufficient_quota"}}`, failed(onejob.ReasonProviderQuota)},
	"500 that says invalid":      {500, nil, `{"error":{"code":"invalid_request"}}`, unknown(onejob.ReasonServerError)},
	"501":                        {501, nil, ``, unknown(onejob.ReasonServerError)},
	"502":                        {502, nil, ``, unknown(onejob.ReasonServerError)},
	"503":                        {503, nil, `<html>`, refused(0)},
	"503 with usage":             {503, nil, `{` + used + `}`, using(unknown(onejob.ReasonServerError), 3, 4, 1)},
	"504":                        {504, nil, ``, unknown(onejob.ReasonServerError)},
	"529":                        {529, nil, ``, refused(0)},
	"599":                        {599, nil, ``, unknown(onejob.ReasonServerError)},
	"999":                        {999, nil, ``, unknown(onejob.ReasonServerError)},
}

func TestAnswerMeansWhatTheTableSays(t *testing.T) {
	for name, row := range answerTable {
		t.Run(name, func(t *testing.T) {
			row.check(t, httpjson.Config{})
		})
	}
}

var declared = verdict.Certain{
	NoEffect: []int{409}, Refused: []int{500},
	NoEffectCodes: []string{"E-NEVER"}, RefusedCodes: []string{"E-BUSY"},
}

func TestDeclaredAnswersAreCertain(t *testing.T) {
	for name, row := range map[string]row{
		"status without effect":         {409, nil, ``, failed(onejob.ReasonRejected)},
		"status without effect, billed": {409, nil, `{` + used + `}`, using(unknown(onejob.ReasonServerError), 3, 4, 1)},
		"status refused":                {500, map[string]string{"Retry-After": "1"}, ``, refused(time.Second)},
		"code without effect":           {502, nil, `{"error":{"code":"E-NEVER"}}`, failed(onejob.ReasonRejected)},
		"code refused in a 2xx":         {200, nil, `{"error":{"code":"E-BUSY"}}`, refused(0)},
		"code in a timeout":             {504, nil, `{"error":{"code":"E-BUSY"}}`, unknown(onejob.ReasonServerError)},
	} {
		t.Run(name, func(t *testing.T) {
			row.check(t, httpjson.Config{Certain: declared})
		})
	}
}

// ServeHTTP gives the row's answer.
func (r row) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	for name, value := range r.header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.status)
	_, _ = io.WriteString(w, r.body)
}

// check has a server give the row's answer and compares what it became. Details are
// prose, and have tests of their own.
func (r row) check(t *testing.T, c httpjson.Config) {
	t.Helper()
	server := httptest.NewServer(r)
	t.Cleanup(server.Close)
	c.URL = server.URL
	got := newAdapter(t, c).Call(t.Context(), call)
	if diff := cmp.Diff(r.want, got, cmpopts.IgnoreFields(provider.Answer{}, "Detail")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if (got.Detail == "") != (got.Certainty == provider.Succeeded) {
		t.Errorf("detail %q of a call that %s", got.Detail, got.Certainty)
	}
}
