package webhooks_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/webhooks"
)

// refused are addresses by kind.
var refused = map[string]string{
	"loopback": "127.0.0.1", "loopback, another": "127.8.9.10", "private, 10": "10.1.2.3", "private, 172": "172.31.0.1", "private, 192": "192.168.1.1",
	"link-local": "169.254.1.1", "metadata of a cloud": "169.254.169.254", "carrier-grade NAT": "100.64.0.1", "unspecified": "0.0.0.0", "multicast": "224.0.0.1",
	"broadcast": "255.255.255.255", "benchmark": "198.19.0.1", "documentation": "203.0.113.1",
	"IPv6 loopback": "::1", "IPv6 unspecified": "::", "IPv6 link-local": "fe80::1", "unique-local": "fd00:ec2::254", "IPv6 multicast": "ff02::1",
	"IPv4-mapped loopback": "::ffff:127.0.0.1", "IPv4-mapped private": "::ffff:10.0.0.1", "IPv4-compatible": "::7f00:1",
	"NAT64": "64:ff9b::a00:1", "NAT64 of one's own": "64:ff9b:1::1", "6to4": "2002:7f00:1::1", "Teredo": "2001:0:4136:e378::1", "site-local": "fec0::1",
}

// names is a resolver whose one name resolves to the address.
func names(t *testing.T, address string) *net.Resolver {
	t.Helper()
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() }) // which ends the loop
	go func() {
		query := make([]byte, 1500)
		for {
			n, from, err := conn.ReadFrom(query)
			if err != nil {
				return
			}
			answer, err := resolved(query[:n], net.ParseIP(address))
			if err != nil {
				t.Error(err)
				return
			}
			if _, err := conn.WriteTo(answer, from); err != nil {
				return
			}
		}
	}()
	return &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", conn.LocalAddr().String())
	}}
}

// resolved answers the question with the address, if it asks for its kind.
func resolved(query []byte, ip net.IP) ([]byte, error) {
	var m dnsmessage.Message
	if err := m.Unpack(query); err != nil {
		return nil, err
	}
	m.Response, m.Additionals = true, nil
	question := m.Questions[0]
	header := dnsmessage.ResourceHeader{Name: question.Name, Class: question.Class, Type: question.Type}
	switch v4 := ip.To4(); {
	case v4 != nil && question.Type == dnsmessage.TypeA:
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AResource{A: [4]byte(v4)}}}
	case v4 == nil && question.Type == dnsmessage.TypeAAAA:
		m.Answers = []dnsmessage.Resource{{Header: header, Body: &dnsmessage.AAAAResource{AAAA: [16]byte(ip.To16())}}}
	}
	return m.Pack()
}

func TestNameOfAPrivateAddressIsNotCalled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusOK))
	port := at.URL[strings.LastIndex(at.URL, ":"):]
	r.told(t, "http://receiver.example"+port)

	// That the name leads to the receiver where it may.
	open := inside
	open.Resolver = names(t, "127.0.0.1")
	send(t, r.sender(open))
	if d := r.delivery(t); d.State != postgres.DeliveryDone || len(at.heard()) != 1 {
		t.Fatalf("the resolver leads nowhere: %+v", d)
	}
	r.told(t, "https://receiver.example"+port)
	for kind, address := range refused {
		sender := r.sender(webhooks.Policy{Timeout: 5 * time.Second, Resolver: names(t, address)})
		r.exec(t, `UPDATE webhook_deliveries SET state = 'pending', done_at = NULL, tries = 0, last_error = NULL, next_try_at = now() WHERE url LIKE 'https:%'`)
		send(t, sender)
		for _, d := range r.deliveries(t) {
			if strings.HasPrefix(d.URL, "https:") && (d.State != postgres.DeliveryPending || !strings.Contains(d.LastError, "is not a public address")) {
				t.Errorf("%s, %s: %+v", kind, address, d)
			}
		}
	}
	if len(at.heard()) != 1 {
		t.Error("the receiver was called")
	}
}

func TestURLThatMayNotBeCalledIsNoEndpoint(t *testing.T) {
	t.Parallel()
	var strict webhooks.Policy
	for kind, address := range refused {
		if strings.Contains(address, ":") {
			address = "[" + address + "]"
		}
		for _, url := range []string{"https://" + address, "https://" + address + ":8443/hook"} {
			if _, err := strict.NewEndpoint("o", url, nil); onejob.CodeOf(err) != onejob.CodeInvalidRequest || !strings.Contains(err.Error(), "webhooks.allow_private") {
				t.Errorf("%s, %s: %v", kind, url, err)
			}
		}
	}
	for url, word := range map[string]string{
		"http://receiver.example": "is not https", "https://user:hunter2@receiver.example": "names a user", "https://user@receiver.example": "names a user",
		"ftp://receiver.example": "absolute https URL", "https://": "absolute https URL", "receiver.example": "absolute https URL", "": "absolute https URL",
		"file:///etc/passwd": "absolute https URL", "https://[fe80::1%25eth0]/": "not a public address", "https://receiver.example/" + strings.Repeat("x", 2000): "2000 bytes",
	} {
		_, err := strict.NewEndpoint("o", url, nil)
		if onejob.CodeOf(err) != onejob.CodeInvalidRequest || !strings.Contains(err.Error(), word) || strings.Contains(err.Error(), "hunter2") || len(err.Error()) > 300 {
			t.Errorf("%.80s: %v", url, err)
		}
	}
	for _, url := range []string{"https://receiver.example/hook?a=b", "https://8.8.8.8", "https://[2606:4700::1111]:8443/"} {
		if _, err := strict.NewEndpoint("o", url, nil); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	for _, owner := range []string{"", " ", "o\n"} {
		if _, err := strict.NewEndpoint(owner, "https://receiver.example", nil); onejob.CodeOf(err) != onejob.CodeInvalidRequest {
			t.Errorf("owner %q: %v", owner, err)
		}
	}
	if _, err := strict.NewEndpoint("o", "https://receiver.example", []string{"job.started"}); onejob.CodeOf(err) != onejob.CodeInvalidRequest {
		t.Errorf("a topic that is not told: %v", err)
	}
}

// A callback_url was taken before anybody looked where it leads.
func TestCallbackURLThatMayNotBeCalledIsNotCalled(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, status(http.StatusOK))
	r.apply(t, r.happened(t, "job.succeeded", at.URL))
	send(t, r.sender(webhooks.Policy{CallbackSecrets: []string{callbackSecret}}))
	if d := r.delivery(t); d.State != postgres.DeliveryPending || !strings.Contains(d.LastError, "webhooks.allow_private") || len(at.heard()) != 0 {
		t.Errorf("%+v", d)
	}
}

func TestRedirectIsNotFollowed(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	behind := newReceiver(t, status(http.StatusOK))
	for i, code := range []int{301, 302, 303, 307, 308} {
		at := newReceiver(t, func(w http.ResponseWriter, req *http.Request) { http.Redirect(w, req, behind.URL, code) })
		r.apply(t, r.happened(t, "job.succeeded", at.URL))
		send(t, r.sender(inside))
		if d := r.deliveries(t)[i]; d.State != postgres.DeliveryPending || d.LastStatus != code || !strings.Contains(d.LastError, "redirects are not followed") {
			t.Errorf("%d: %+v", code, d)
		}
	}
	if len(behind.heard()) != 0 {
		t.Error("a redirect was followed")
	}
}

func TestAnswerWithoutEndIsReadNoFurtherThanNeeded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	written := make(chan int, 1)
	at := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		n := 0
		defer func() { written <- n }()
		for part := make([]byte, 64<<10); n < 1<<30; n += len(part) {
			if _, err := w.Write(part); err != nil {
				return
			}
		}
	})
	r.told(t, at.URL)
	send(t, r.sender(inside))
	if d := r.delivery(t); d.State != postgres.DeliveryDone {
		t.Errorf("%+v", d)
	}
	if n := <-written; n > 8<<20 {
		t.Errorf("it read on: %d bytes were written", n)
	}
}

func TestAnswerWithHugeHeadersIsAFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, func(w http.ResponseWriter, _ *http.Request) {
		for i := range 100 {
			w.Header().Set(fmt.Sprintf("X-%d", i), strings.Repeat("x", 4<<10))
		}
	})
	r.told(t, at.URL)
	send(t, r.sender(inside))
	if d := r.delivery(t); d.State != postgres.DeliveryPending || !strings.Contains(d.LastError, "header") {
		t.Errorf("%+v", d)
	}
}

func TestReceiverThatFallsSilentIsGivenUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	at := newReceiver(t, func(_ http.ResponseWriter, req *http.Request) { <-req.Context().Done() })
	r.told(t, at.URL+"/hook?token=hunter2")
	impatient := inside
	impatient.Timeout = 50 * time.Millisecond
	send(t, r.sender(impatient))
	if d := r.delivery(t); d.State != postgres.DeliveryPending || d.LastError != "it did not answer in time" {
		t.Errorf("%+v", d)
	}
}
