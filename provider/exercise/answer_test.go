package exercise_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/provider"
)

func TestEveryAdapterReadsAnAnswerAsTheTableSays(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		for name, row := range table {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				s.check(t, row.reply(s), settings{certain: declared}, row.want)
			})
		}
	})
}

// check has a server give the reply, and compares what it became. One request arrives.
func (s subject) check(t *testing.T, r reply, with settings, want provider.Answer) {
	t.Helper()
	requests := make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests <- struct{}{}
		r.ServeHTTP(w, req)
	}))
	t.Cleanup(server.Close)
	with.url = server.URL
	got := s.callTo(t.Context(), s.mustOpen(t, with))
	mustBe(t, got, want)
	if len(requests) != 1 {
		t.Errorf("the server saw %d requests", len(requests))
	}
}

// mustBe compares all but the result and the detail, which say nothing about certainty.
func mustBe(t *testing.T, got, want provider.Answer) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(provider.Answer{}, "Detail", "Result")); diff != "" {
		t.Errorf("(-want +got)\n%s%s", diff, got.Detail)
	}
	if (got.Result != nil) != (got.Certainty == provider.Succeeded) || (got.Detail == "") != (got.Certainty == provider.Succeeded) {
		t.Errorf("result of %d bytes, detail %q of a call that %s", len(got.Result), got.Detail, got.Certainty)
	}
	if strings.Contains(got.Detail, "correct-horse") {
		t.Errorf("detail %q tells the key", got.Detail)
	}
}

func TestEveryAdapterTakesAWholeReplyAsItCame(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		s.check(t, reply{status: 200, body: s.reply}, settings{}, s.want)
		s.check(t, reply{status: 201, body: s.reply}, settings{}, s.want)
		server := httptest.NewServer(reply{status: 200, body: s.reply})
		t.Cleanup(server.Close)
		got := s.callTo(t.Context(), s.mustOpen(t, settings{url: server.URL}))
		if s.want.Certainty == provider.Succeeded && string(got.Result) != s.reply {
			t.Errorf("result %s", got.Result)
		}
	})
}

func TestMissingUsageIsNotZero(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		if s.unread == nil {
			return // it is taken under a reference
		}
		want := s.want
		want.Usage = nil
		s.check(t, reply{status: 200, body: s.unread(s.reply)}, settings{}, want)
	})
}

func TestAnswerLongerThanTheLimitIsNotRead(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		limits := onejob.Limits{ResultBytes: len(s.reply)}
		s.check(t, reply{status: 200, body: s.reply}, settings{limits: limits}, s.want)
		limits.ResultBytes--
		s.check(t, reply{status: 200, header: map[string]string{"Content-Length": fmt.Sprint(len(s.reply))}, body: s.reply}, settings{limits: limits}, failed(onejob.ReasonTooLarge))
		s.check(t, reply{status: 200, header: map[string]string{"Transfer-Encoding": "chunked"}, body: s.reply}, settings{limits: limits}, unknown(onejob.ReasonTooLarge))
	})
}

func TestAnswerNestedTooDeepIsNotRead(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		deep := with(`"x":`+strings.Repeat("[", 200)+strings.Repeat("]", 200), s.reply)
		s.check(t, reply{status: 200, body: deep}, settings{}, unknown(onejob.ReasonUnreadable))
	})
}

// The rows of the table are all there: one that is taken out takes its promise with it.
func TestTableNamesEveryStatusOfTheDesign(t *testing.T) {
	t.Parallel()
	for _, status := range []int{204, 400, 401, 402, 403, 404, 405, 408, 409, 413, 415, 422, 425, 429, 500, 502, 503, 504, 529} {
		named := slices.ContainsFunc(keys(table), func(name string) bool { return strings.HasPrefix(name, fmt.Sprint(status)) })
		if !named {
			t.Errorf("no row is about %d", status)
		}
	}
}

func keys(rows map[string]row) (names []string) {
	for name := range rows {
		names = append(names, name)
	}
	return names
}

// An SDK that tried again would wait for as long as the hint says.
func TestRefusalIsToldAtOnce(t *testing.T) {
	t.Parallel()
	eachSubject(t, func(t *testing.T, s subject) {
		server := httptest.NewServer(reply{status: 429, header: map[string]string{"Retry-After": "30"}, body: s.failure("rate_limit_error")})
		t.Cleanup(server.Close)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		mustBe(t, s.callTo(ctx, s.mustOpen(t, settings{url: server.URL})), retryable(onejob.ReasonRefused, 30*time.Second))
		if ctx.Err() != nil {
			t.Error("the answer was kept back")
		}
	})
}
