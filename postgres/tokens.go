package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Token is who may use the HTTP door, for how long. Its secret is known to its holder only.
type Token struct {
	ID         string      `json:"id"`
	Owner      string      `json:"owner"`
	Role       onejob.Role `json:"role"`
	CreatedBy  string      `json:"created_by"`
	CreatedAt  time.Time   `json:"created_at"`
	ExpiresAt  time.Time   `json:"expires_at"`
	LastUsedAt time.Time   `json:"last_used_at,omitzero"` // the beginning of the hour
	RevokedAt  time.Time   `json:"revoked_at,omitzero"`
	RevokedBy  string      `json:"revoked_by,omitempty"`
}

// NewToken is a token that is to be stored.
type NewToken struct {
	ID        string
	SHA256    [32]byte // of the whole secret
	Owner     string
	Role      onejob.Role
	CreatedBy string
	ExpiresIn time.Duration // above zero, from now by the database's clock
}

const tokenColumns = `id::text, owner_id, role, created_by, created_at, expires_at, last_used_at, revoked_at, revoked_by`

func scanToken(row pgx.CollectableRow) (t Token, err error) {
	var used, revoked *time.Time
	var revokedBy *string
	err = row.Scan(&t.ID, &t.Owner, &t.Role, &t.CreatedBy, &t.CreatedAt, &t.ExpiresAt, &used, &revoked, &revokedBy)
	t.CreatedAt, t.ExpiresAt = t.CreatedAt.UTC(), t.ExpiresAt.UTC()
	t.LastUsedAt, t.RevokedAt, t.RevokedBy = orZero(used).UTC(), orZero(revoked).UTC(), orZero(revokedBy)
	return t, err
}

// AddToken stores the token.
func (s *Store) AddToken(ctx context.Context, t NewToken) (Token, error) {
	rows, err := s.pool.Query(ctx, `
		INSERT INTO tokens (id, sha256, owner_id, role, created_by, expires_at)
		VALUES ($1, $2, $3, $4, $5, clock_timestamp() + $6::bigint * interval '1 millisecond') RETURNING `+tokenColumns,
		t.ID, t.SHA256[:], t.Owner, t.Role, t.CreatedBy, milliseconds(t.ExpiresIn))
	if err != nil {
		return Token{}, translate("add the token", err)
	}
	added, err := pgx.CollectExactlyOneRow(rows, scanToken)
	return added, translate("add the token", err)
}

// UseToken returns the token whose secret has that SHA-256, if it has not ended, and notes the
// hour of its use where that is not noted yet. It fails with [onejob.ErrNotFound].
func (s *Store) UseToken(ctx context.Context, sha256 [32]byte) (Token, error) {
	var t Token
	var unnoted bool
	err := s.pool.QueryRow(ctx, `
		SELECT id::text, owner_id, role, expires_at, last_used_at IS NULL OR last_used_at < date_trunc('hour', clock_timestamp())
		FROM tokens WHERE sha256 = $1 AND revoked_at IS NULL AND expires_at > clock_timestamp()`, sha256[:]).
		Scan(&t.ID, &t.Owner, &t.Role, &t.ExpiresAt, &unnoted)
	if err != nil {
		return Token{}, translate("find the token", orNotFound(err, "no such token, or it has ended"))
	}
	if unnoted {
		err = s.noteTokenUseIfLater(ctx, t.ID)
	}
	return t, err
}

func (s *Store) noteTokenUseIfLater(ctx context.Context, id string) error {
	_, err := s.pool.Exec(ctx, `
		UPDATE tokens SET last_used_at = date_trunc('hour', clock_timestamp())
		WHERE id = $1 AND (last_used_at IS NULL OR last_used_at < date_trunc('hour', clock_timestamp()))`, id)
	return translate("note the token's use", err)
}

// TokenFilter selects tokens. An empty field takes all.
type TokenFilter struct {
	Owner  string
	Before string // id of the last token of the page before
	Limit  int    // rows at most
}

// Tokens returns tokens, also those that have ended, the newest first.
func (s *Store) Tokens(ctx context.Context, f TokenFilter) ([]Token, error) {
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM tokens
		WHERE ($1 = '' OR owner_id = $1) AND ($2::uuid IS NULL OR id < $2) ORDER BY tokens.id DESC LIMIT $3`, f.Owner, nullable(f.Before), f.Limit)
	if err != nil {
		return nil, translate("list the tokens", err)
	}
	tokens, err := pgx.CollectRows(rows, scanToken)
	return tokens, translate("list the tokens", err)
}

// RevokeTokenIfLive ends the token at once. One that was revoked before keeps who did so and
// when. It fails with [onejob.ErrNotFound].
func (s *Store) RevokeTokenIfLive(ctx context.Context, id, by string) (Token, error) {
	if uuid.Validate(id) != nil {
		return Token{}, noSuchToken(pgx.ErrNoRows, id)
	}
	if _, err := s.pool.Exec(ctx, `
		UPDATE tokens SET revoked_at = clock_timestamp(), revoked_by = $2 WHERE id = $1 AND revoked_at IS NULL`, id, by); err != nil {
		return Token{}, translate("revoke the token", err)
	}
	rows, err := s.pool.Query(ctx, `SELECT `+tokenColumns+` FROM tokens WHERE id = $1`, id)
	if err != nil {
		return Token{}, translate("read the token", err)
	}
	t, err := pgx.CollectExactlyOneRow(rows, scanToken)
	return t, translate("read the token", noSuchToken(err, id))
}

func noSuchToken(err error, id string) error {
	return orNotFound(err, "token %q does not exist: see 'onejob token list'", onejob.Shorten(id, 100))
}
