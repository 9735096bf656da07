package api_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"

	"github.com/onejob/onejob/api"
)

// issuer is an OpenID issuer with its keys behind HTTP.
type issuer struct {
	t      *testing.T
	server *httptest.Server

	mu    sync.Mutex
	keys  []jose.JSONWebKey // private; the last signs
	asked int               // for the keys
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	i := &issuer{t: t}
	i.turn("first")
	i.server = httptest.NewServer(http.HandlerFunc(i.serve))
	t.Cleanup(i.server.Close)
	return i
}

// turn adds a key, which signs from now on.
func (i *issuer) turn(id string) {
	i.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = append(i.keys, jose.JSONWebKey{Key: key, KeyID: id, Algorithm: string(jose.ES256), Use: "sig"})
}

func (i *issuer) serve(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if r.URL.Path == "/.well-known/openid-configuration" {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": "http://" + r.Host, "jwks_uri": "http://" + r.Host + "/keys"})
		return
	}
	i.asked++
	var set jose.JSONWebKeySet
	for _, key := range i.keys {
		set.Keys = append(set.Keys, key.Public())
	}
	_ = json.NewEncoder(w).Encode(set)
}

// token returns a token with the claims, signed by the key.
func (i *issuer) token(key jose.JSONWebKey, claims map[string]any) string {
	i.t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, nil)
	if err != nil {
		i.t.Fatal(err)
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return text
}

// claims are those of a token that is believed, but for the change.
func (i *issuer) claims(name string, value any) map[string]any {
	claims := map[string]any{
		"iss": i.server.URL, "aud": "onejob", "sub": "ana@acme", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(), "roles": []string{"staff", "operator"},
	}
	if name != "" {
		claims[name] = value
	}
	return claims
}

func (i *issuer) newest() jose.JSONWebKey {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keys[len(i.keys)-1]
}

func TestSignedTokensOfTheIssuerAreBelieved(t *testing.T) {
	i := newIssuer(t)
	r := newRig(t, func(o *api.Options) { o.OIDC = &api.OIDC{Issuer: i.server.URL, Audience: "onejob", RoleClaim: "roles"} })
	with := func(token string) answer {
		return r.do(call{method: http.MethodGet, path: "/v1/balance", token: token})
	}
	if got := with(i.token(i.newest(), i.claims("", nil))); got.status != http.StatusOK || got.field(t, "owner") != "ana@acme" {
		t.Errorf("a good token got %d %s", got.status, got.body)
	}
	if got := with(r.token); got.status != http.StatusOK || got.field(t, "owner") != r.owner {
		t.Errorf("a token of our own got %d %s", got.status, got.body)
	}
	operator := call{method: http.MethodGet, path: "/v1/balance?owner=" + r.owner, token: i.token(i.newest(), i.claims("", nil))}
	if got := r.do(operator); got.status != http.StatusOK {
		t.Errorf("an operator by claim got %d %s", got.status, got.body)
	}
	operator.token = i.token(i.newest(), i.claims("roles", []string{"staff"}))
	if got := r.do(operator); got.problem() != "forbidden" {
		t.Errorf("no operator by claim got %d %s", got.status, got.body)
	}
	stranger, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	theirs := jose.JSONWebKey{Key: stranger, KeyID: "first", Algorithm: string(jose.ES256)}
	shared := jose.JSONWebKey{Key: []byte("0123456789abcdef0123456789abcdef"), KeyID: "first", Algorithm: string(jose.HS256)}
	for name, token := range map[string]string{
		"signed by another":            i.token(theirs, i.claims("", nil)),
		"signed by a shared secret":    i.token(shared, i.claims("", nil)),
		"of another issuer":            i.token(i.newest(), i.claims("iss", "https://login.example")),
		"for another audience":         i.token(i.newest(), i.claims("aud", "other")),
		"for nobody":                   i.token(i.newest(), i.claims("aud", nil)),
		"that has ended":               i.token(i.newest(), i.claims("exp", time.Now().Add(-time.Minute).Unix())),
		"that never ends":              i.token(i.newest(), i.claims("exp", nil)),
		"not valid yet":                i.token(i.newest(), i.claims("nbf", time.Now().Add(time.Hour).Unix())),
		"without an owner":             i.token(i.newest(), i.claims("sub", "")),
		"whose owner has a line break": i.token(i.newest(), i.claims("sub", "a\nb")),
		"whose owner is reserved":      i.token(i.newest(), i.claims("sub", "onejob:certification")),
		"cut":                          i.token(i.newest(), i.claims("", nil))[:100],
		"unsigned":                     "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbmEifQ.",
	} {
		if got := with(token); got.status != http.StatusUnauthorized || got.problem() != "unauthorized" {
			t.Errorf("a token %s got %d %s", name, got.status, got.body)
		}
	}
}

// TestKeysAreFetchedSeldom, whatever strangers' tokens name.
func TestKeysAreFetchedSeldom(t *testing.T) {
	i := newIssuer(t)
	r := newRig(t, func(o *api.Options) { o.OIDC = &api.OIDC{Issuer: i.server.URL, Audience: "onejob"} })
	stranger := i.newest()
	for n := range 20 {
		stranger.KeyID = string(rune('a' + n))
		if got := r.do(call{method: http.MethodGet, path: "/v1/balance", token: i.token(stranger, i.claims("", nil))}); got.status != http.StatusUnauthorized {
			t.Fatalf("an unknown key got %d %s", got.status, got.body)
		}
		if got := r.do(call{method: http.MethodGet, path: "/v1/balance", token: i.token(i.newest(), i.claims("", nil))}); got.status != http.StatusOK {
			t.Fatalf("a good token got %d %s", got.status, got.body)
		}
	}
	if i.mu.Lock(); i.asked != 1 {
		t.Errorf("the issuer was asked %d times for its keys", i.asked)
	}
	i.mu.Unlock()
}

func TestIssuerThatDoesNotAnswerIsNotTheTokensFault(t *testing.T) {
	i := newIssuer(t)
	token := i.token(i.newest(), i.claims("", nil))
	i.server.Close()
	r := newRig(t, func(o *api.Options) { o.OIDC = &api.OIDC{Issuer: i.server.URL, Audience: "onejob"} })
	if got := r.do(call{method: http.MethodGet, path: "/v1/balance", token: token}); got.status != http.StatusServiceUnavailable || got.problem() != "unavailable" {
		t.Errorf("got %d %s", got.status, got.body)
	}
	if got := r.get("/v1/balance"); got.status != http.StatusOK {
		t.Errorf("a token of our own got %d %s", got.status, got.body)
	}
}
