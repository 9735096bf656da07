package webhooks

import (
	"net/http"
	"testing"
	"time"
)

// The vector of the specification's own libraries.
func TestSignatureIsThatOfStandardWebhooks(t *testing.T) {
	t.Parallel()
	w := webhook{id: "msg_p5jXN8AQM9LWM0D4loKWxJek", secrets: []string{"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}}
	got, err := w.signatures(time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
}

func TestNoProxyStandsBetween(t *testing.T) {
	t.Parallel()
	if (Policy{}).client().Transport.(*http.Transport).Proxy != nil {
		t.Error("a proxy of the environment would connect in our place, anywhere")
	}
}
