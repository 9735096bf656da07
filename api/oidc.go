package api

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"github.com/onejob/onejob"
)

// OIDC says whose signed tokens (JWT) are believed beside onejob's own.
type OIDC struct {
	Issuer     string       // the exact iss; its OpenID configuration names the keys unless KeysURL does
	Audience   string       // that aud must hold
	KeysURL    string       // of the JWK set; empty: by discovery
	OwnerClaim string       // default sub
	RoleClaim  string       // a word, or a list of words; empty: everybody is a user
	Client     *http.Client // default one with short time-outs
}

// The algorithms that are believed: signatures by keys that only the issuer has.
var algorithms = []string{oidc.RS256, oidc.RS384, oidc.RS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.EdDSA}

// issuer checks tokens of one issuer.
type issuer struct {
	OIDC
	verifier *oidc.IDTokenVerifier
}

func newIssuer(o OIDC) *issuer {
	o.OwnerClaim = cmp.Or(o.OwnerClaim, "sub")
	if o.Client == nil {
		o.Client = &http.Client{Timeout: fetchTimeout, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	keys := &keySet{issuer: o.Issuer, url: o.KeysURL, client: o.Client, fetching: make(chan struct{}, 1)}
	return &issuer{OIDC: o, verifier: oidc.NewVerifier(o.Issuer, keys, &oidc.Config{ClientID: o.Audience, SupportedSigningAlgs: algorithms})}
}

// principal returns whom the token names, if its signature, issuer, audience and times hold.
func (i *issuer) principal(ctx context.Context, text string) (Principal, error) {
	var lacking error // the verifier keeps the text of it only
	token, err := i.verifier.Verify(context.WithValue(ctx, lackingKey{}, &lacking), text)
	switch {
	case lacking != nil:
		return Principal{}, onejob.Errorf(onejob.CodeServerUnreachable, "the keys of %s cannot be fetched: %w", i.Issuer, lacking)
	case err != nil:
		return Principal{}, noToken("the token is not one of the configured issuer for this audience and time")
	}
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return Principal{}, noToken("the token's claims cannot be read")
	}
	owner, _ := claims[i.OwnerClaim].(string)
	if err := onejob.CheckOwner(owner); err != nil {
		return Principal{}, noToken(fmt.Sprintf("the token's claim %s names no owner: %v", i.OwnerClaim, err))
	}
	p := Principal{ID: "oidc:" + token.Subject, Owner: owner, Role: onejob.RoleUser, By: owner}
	if i.RoleClaim != "" {
		p.Role = highestRole(claims[i.RoleClaim])
	}
	return p, nil
}

// highestRole returns the highest role among the claim's words: of one that names none, user.
func highestRole(claim any) onejob.Role {
	words, _ := claim.([]any)
	words = append(slices.Clone(words), claim)
	highest := onejob.RoleUser
	for _, word := range words {
		if s, ok := word.(string); ok && onejob.Role(s).Includes(highest) {
			highest = onejob.Role(s)
		}
	}
	return highest
}

const (
	fetchTimeout  = 5 * time.Second
	keysFor       = time.Hour        // after which they are fetched again
	fetchEvery    = 30 * time.Second // at most, whatever tokens name
	mostKeysBytes = 1 << 20
)

var errNoKeys = errors.New("no keys")

// lackingKey is where a context holds who wants to know that there are no keys.
type lackingKey struct{}

// keySet holds an issuer's keys. They are fetched again when they are old or a token names one
// that is not there, and never more often than every 30 s, so that strangers' tokens cannot make us
// ask the issuer.
type keySet struct {
	issuer string
	client *http.Client

	fetching chan struct{} // holds one while somebody fetches
	mu       sync.Mutex
	url      string
	keys     []jose.JSONWebKey
	fetched  time.Time
	asked    time.Time
}

// VerifySignature implements [oidc.KeySet].
func (s *keySet) VerifySignature(ctx context.Context, text string) ([]byte, error) {
	allowed := make([]jose.SignatureAlgorithm, len(algorithms))
	for i, a := range algorithms {
		allowed[i] = jose.SignatureAlgorithm(a)
	}
	signed, err := jose.ParseSignedCompact(text, allowed)
	if err != nil || len(signed.Signatures) != 1 {
		return nil, fmt.Errorf("no token with one signature: %v", err)
	}
	kid := signed.Signatures[0].Header.KeyID
	keys, err := s.named(ctx, kid)
	if err != nil {
		if lacking, ok := ctx.Value(lackingKey{}).(*error); ok {
			*lacking = err
		}
		return nil, err
	}
	for i := range keys {
		if payload, err := signed.Verify(&keys[i]); err == nil {
			return payload, nil
		}
	}
	return nil, errors.New("no key of the issuer signed it")
}

// named returns the keys of that id, or where it is empty all.
func (s *keySet) named(ctx context.Context, kid string) ([]jose.JSONWebKey, error) {
	keys, fresh := s.cached(kid)
	if fresh && len(keys) > 0 {
		return keys, nil
	}
	select {
	case s.fetching <- struct{}{}:
		defer func() { <-s.fetching }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if keys, fresh = s.cached(kid); fresh && len(keys) > 0 || !s.due() {
		return keys, s.none()
	}
	if err := s.fetch(ctx); err != nil && len(keys) == 0 {
		return nil, fmt.Errorf("%w: %w", errNoKeys, err)
	}
	keys, _ = s.cached(kid)
	return keys, s.none()
}

func (s *keySet) cached(kid string) (keys []jose.JSONWebKey, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.keys {
		if kid == "" || k.KeyID == kid {
			keys = append(keys, k)
		}
	}
	return keys, time.Since(s.fetched) < keysFor
}

// none is an error while no key was ever there.
func (s *keySet) none() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		return errNoKeys
	}
	return nil
}

// due says whether the issuer may be asked now, and counts that it is.
func (s *keySet) due() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.asked) < fetchEvery {
		return false
	}
	s.asked = time.Now()
	return true
}

// fetch fetches the keys. One request's end does not end it for those who wait.
func (s *keySet) fetch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fetchTimeout)
	defer cancel()
	if s.url == "" {
		var said struct {
			Issuer  string `json:"issuer"`
			KeysURL string `json:"jwks_uri"`
		}
		if err := s.get(ctx, strings.TrimSuffix(s.issuer, "/")+"/.well-known/openid-configuration", &said); err != nil {
			return err
		}
		if said.Issuer != s.issuer || said.KeysURL == "" {
			return fmt.Errorf("the OpenID configuration is of issuer %q", onejob.Shorten(said.Issuer, 200))
		}
		s.url = said.KeysURL
	}
	var set jose.JSONWebKeySet
	if err := s.get(ctx, s.url, &set); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.keys = slices.DeleteFunc(append([]jose.JSONWebKey{}, set.Keys...), func(k jose.JSONWebKey) bool { return !k.Valid() || !k.IsPublic() || k.Use != "" && k.Use != "sig" })
	s.fetched = time.Now()
	return nil
}

func (s *keySet) get(ctx context.Context, url string, v any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %d", url, response.StatusCode)
	}
	return json.NewDecoder(io.LimitReader(response.Body, mostKeysBytes)).Decode(v)
}
