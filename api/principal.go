package api

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// Principal is who a request comes from.
type Principal struct {
	ID    string // of the token, or the issuer's subject: what rates are counted by
	Owner string
	Role  onejob.Role
	By    string // how decisions name it
}

// mayRead says whether p may see what belongs to the owner.
func (p Principal) mayRead(owner string) bool {
	return owner == p.Owner || p.Role.Includes(onejob.RoleOperator)
}

// mayChange says whether p may change what an owner has set up.
func (p Principal) mayChange(owner string) bool {
	return owner == p.Owner || p.Role.Includes(onejob.RoleAdmin)
}

// secretPrefix is what tokens of ours begin with: scanners of published secrets find them by it.
const secretPrefix = "oj_"

// The bounds of how long a token lasts.
const (
	ShortestToken = time.Second
	LongestToken  = 5 * 365 * 24 * time.Hour
)

// NewToken returns a token to be stored, and its secret, which is known to nobody else: 260
// random bits. It fails with [onejob.ErrInvalidRequest].
func NewToken(owner string, role onejob.Role, createdBy string, expiresIn time.Duration) (secret string, t postgres.NewToken, err error) {
	if err := onejob.CheckOwner(owner); err != nil {
		return "", t, err
	}
	if err := onejob.CheckName("by", createdBy, onejob.MaxOwnerBytes); err != nil {
		return "", t, err
	}
	if !role.Includes(onejob.RoleUser) {
		return "", t, onejob.Errorf(onejob.CodeInvalidRequest, "role %q is none: use one of %v", role, onejob.Roles())
	}
	if expiresIn < ShortestToken || expiresIn > LongestToken {
		return "", t, onejob.Errorf(onejob.CodeInvalidRequest, "a token that lasts %v is not made: use %v to %v", expiresIn, ShortestToken, LongestToken)
	}
	id, err := uuid.NewV7()
	if err != nil {
		return "", t, err
	}
	secret = secretPrefix + rand.Text() + rand.Text()
	return secret, postgres.NewToken{ID: id.String(), SHA256: sha256.Sum256([]byte(secret)), Owner: owner, Role: role, CreatedBy: createdBy, ExpiresIn: expiresIn}, nil
}

// mostTokenBytes bounds what is read as a token.
const mostTokenBytes = 8 << 10

// authenticate returns whom the header names. A token that is not known to be valid is looked up
// only while its address has something left.
func (d *Door) authenticate(ctx context.Context, header http.Header, from netip.Prefix) (Principal, error) {
	secret, err := bearer(header)
	token := sha256.Sum256([]byte(secret))
	known := err == nil && d.unknown.knows(token)
	if !known {
		if wait, ok := d.unknown.take(from, time.Now()); !ok {
			return Principal{}, d.options.Metrics.reject(forAddress, tooMany("without a valid token come from this address", wait))
		}
	}
	if err != nil {
		return Principal{}, d.options.Metrics.reject(forToken, err)
	}
	p, err := d.principal(ctx, secret, token)
	switch _, its := errors.AsType[*Problem](err); {
	case its:
		d.unknown.forget(token)
		return p, d.options.Metrics.reject(forToken, err)
	case err == nil && !known:
		d.unknown.welcome(token, from)
	}
	return p, err
}

// principal returns whose token it is, by its secret and the hash of that.
func (d *Door) principal(ctx context.Context, secret string, token [32]byte) (Principal, error) {
	if !strings.HasPrefix(secret, secretPrefix) && d.issuer != nil {
		return d.issuer.principal(ctx, secret)
	}
	t, err := d.options.Store.UseToken(ctx, token)
	if errors.Is(err, onejob.ErrNotFound) {
		return Principal{}, noToken("the token is unknown, has ended or was revoked: make another with 'onejob token create'")
	}
	if err != nil {
		return Principal{}, err
	}
	return Principal{ID: t.ID, Owner: t.Owner, Role: t.Role, By: byToken(t.Owner, t.ID)}, nil
}

// byToken is how the rows name a token's holder: at most as long as a name may be.
func byToken(owner, id string) string {
	name := fmt.Sprintf(" (token %s)", id)
	return onejob.Shorten(owner, onejob.MaxOwnerBytes-len(name)) + name
}

func bearer(header http.Header) (string, error) {
	values := header.Values("Authorization")
	if len(values) != 1 {
		return "", noToken("send one header Authorization: Bearer TOKEN")
	}
	scheme, secret, _ := strings.Cut(values[0], " ")
	secret = strings.TrimSpace(secret)
	if !strings.EqualFold(scheme, "Bearer") || secret == "" || len(secret) > mostTokenBytes {
		return "", noToken("the header Authorization is not Bearer TOKEN")
	}
	return secret, nil
}

func noToken(why string) *Problem {
	return newProblem(unauthorized, "%s", why).with("WWW-Authenticate", `Bearer realm="onejob"`)
}
