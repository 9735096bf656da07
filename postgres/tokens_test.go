package postgres_test

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/postgres"
)

// token stores a token for a second owner-less moment and returns it with its hash.
func (r rig) token(t *testing.T, lasting time.Duration) (postgres.Token, [32]byte) {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256([]byte(rand.Text()))
	added, err := r.store.AddToken(t.Context(), postgres.NewToken{
		ID: id.String(), SHA256: hash, Owner: "acme", Role: onejob.RoleOperator, CreatedBy: "ana", ExpiresIn: lasting,
	})
	if err != nil {
		t.Fatal(err)
	}
	return added, hash
}

func TestTokenIsFoundByItsHashUntilItEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	live, hash := r.token(t, time.Hour)
	ended, endedHash := r.token(t, time.Millisecond)
	used, err := r.store.UseToken(t.Context(), hash)
	if err != nil || used.ID != live.ID || used.Owner != "acme" || used.Role != onejob.RoleOperator {
		t.Errorf("the live token is %+v, %v", used, err)
	}
	for deadline := time.Now().Add(patience); ; { // the database's clock decides
		if _, err := r.store.UseToken(t.Context(), endedHash); errors.Is(err, onejob.ErrNotFound) {
			break
		} else if err != nil || time.Now().After(deadline) {
			t.Fatalf("token %s does not end: %v", ended.ID, err)
		}
	}
	if _, err := r.store.UseToken(t.Context(), sha256.Sum256(nil)); !errors.Is(err, onejob.ErrNotFound) {
		t.Errorf("an unknown hash got %v", err)
	}
	listed, err := r.store.Tokens(t.Context(), postgres.TokenFilter{Owner: "acme", Limit: 10})
	if err != nil || len(listed) != 2 || listed[0].ID != ended.ID || listed[1].LastUsedAt.IsZero() || !listed[0].LastUsedAt.IsZero() {
		t.Errorf("listed %+v, %v", listed, err)
	}
}

func TestRevokedTokenStaysRevoked(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token, hash := r.token(t, time.Hour)
	if got, err := r.store.RevokeTokenIfLive(t.Context(), token.ID, "ana"); err != nil || got.RevokedBy != "ana" {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, err := r.store.RevokeTokenIfLive(t.Context(), token.ID, "ben"); err != nil || got.RevokedBy != "ana" {
		t.Errorf("revoked again it is %+v, %v", got, err)
	}
	if _, err := r.store.UseToken(t.Context(), hash); !errors.Is(err, onejob.ErrNotFound) {
		t.Errorf("it is used: %v", err)
	}
	for _, id := range []string{uuid.NewString(), "none"} {
		if _, err := r.store.RevokeTokenIfLive(t.Context(), id, "ana"); !errors.Is(err, onejob.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	for _, sql := range []string{
		`UPDATE tokens SET revoked_at = NULL, revoked_by = NULL`,
		`UPDATE tokens SET role = 'admin'`,
		`UPDATE tokens SET owner_id = 'other'`,
		`UPDATE tokens SET expires_at = expires_at + interval '1 year'`,
		`DELETE FROM tokens`,
		`TRUNCATE tokens`,
	} {
		if _, err := r.hand.Exec(t.Context(), sql); err == nil {
			t.Errorf("the database takes %s", sql)
		}
	}
}
