package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// CertificateState says whether a certificate counts.
type CertificateState string

// The states of a certificate. Only a valid one allows anything; the others stay what they are.
const (
	CertificateValid     CertificateState = "valid"
	CertificateExpired   CertificateState = "expired"
	CertificateRevoked   CertificateState = "revoked"   // by somebody
	CertificateSuspended CertificateState = "suspended" // by what the provider answered in production
)

// Certificate is the proof that a model of a provider honours a contract.
type Certificate struct {
	ID              int64            `json:"id"`
	RunID           string           `json:"run_id"`   // of the certification that passed
	Contract        string           `json:"contract"` // its kind
	ContractSHA256  string           `json:"contract_sha256"`
	Provider        string           `json:"provider"`
	Model           string           `json:"model"`   // empty: the provider has none
	Adapter         string           `json:"adapter"` // version of the adapter that asked
	State           CertificateState `json:"state"`   // at the time of reading
	PassedAt        time.Time        `json:"passed_at"`
	ExpiresAt       time.Time        `json:"expires_at"`
	RevokedAt       time.Time        `json:"revoked_at,omitzero"`
	RevokedBy       string           `json:"revoked_by,omitempty"`
	RevokedReason   string           `json:"revoked_reason,omitempty"`
	SuspendedAt     time.Time        `json:"suspended_at,omitzero"`
	SuspendedReason string           `json:"suspended_reason,omitempty"`
}

const certificateColumns = `c.id, c.run_id::text, c.contract, c.contract_sha256, c.provider, c.model, c.adapter,
	CASE WHEN onejob_certificate_valid(c) THEN 'valid' WHEN c.revoked_at IS NOT NULL THEN 'revoked' WHEN c.suspended_at IS NOT NULL THEN 'suspended' ELSE 'expired' END,
	c.passed_at, c.expires_at, c.revoked_at, c.revoked_by, c.revoked_reason, c.suspended_at, c.suspended_reason`

func scanCertificate(row pgx.CollectableRow) (c Certificate, err error) {
	var revokedAt, suspendedAt *time.Time
	var revokedBy, revokedReason, suspendedReason *string
	err = row.Scan(&c.ID, &c.RunID, &c.Contract, &c.ContractSHA256, &c.Provider, &c.Model, &c.Adapter, &c.State, &c.PassedAt, &c.ExpiresAt,
		&revokedAt, &revokedBy, &revokedReason, &suspendedAt, &suspendedReason)
	c.PassedAt, c.ExpiresAt, c.RevokedAt, c.SuspendedAt = c.PassedAt.UTC(), c.ExpiresAt.UTC(), orZero(revokedAt).UTC(), orZero(suspendedAt).UTC()
	c.RevokedBy, c.RevokedReason, c.SuspendedReason = orZero(revokedBy), orZero(revokedReason), orZero(suspendedReason)
	return c, err
}

func queryCertificates(ctx context.Context, q querier, rest string, args ...any) ([]Certificate, error) {
	rows, err := q.Query(ctx, `SELECT `+certificateColumns+` FROM certificates c `+rest, args...)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, scanCertificate)
}

// CertificateFilter selects certificates. A zero field selects all.
type CertificateFilter struct {
	Contract       string // kind
	ContractSHA256 string
	Provider       string
	Valid          bool  // only those that count now
	Before         int64 // id of the last certificate of the page before
	Limit          int   // rows at most; 0: 100
}

// Certificates returns the selected certificates, the newest first.
func (s *Store) Certificates(ctx context.Context, f CertificateFilter) ([]Certificate, error) {
	certificates, err := queryCertificates(ctx, s.pool, `
		WHERE ($1 = '' OR c.contract = $1) AND ($2 = '' OR c.contract_sha256 = $2) AND ($3 = '' OR c.provider = $3)
		  AND (NOT $4 OR onejob_certificate_valid(c)) AND ($5 = 0 OR c.id < $5) ORDER BY c.id DESC LIMIT $6`,
		f.Contract, f.ContractSHA256, f.Provider, f.Valid, f.Before, cmp.Or(f.Limit, 100))
	return certificates, translate("list the certificates", err)
}

// Certificate returns the certificate and its report. It fails with [onejob.ErrNotFound].
func (s *Store) Certificate(ctx context.Context, id int64) (c Certificate, report json.RawMessage, err error) {
	err = s.inTx(ctx, "read the certificate", func(tx pgx.Tx) error {
		if c, err = certificateOf(ctx, tx, id); err != nil {
			return err
		}
		var text []byte
		err := tx.QueryRow(ctx, `SELECT report FROM certificates WHERE id = $1`, id).Scan(&text)
		report = text
		return err
	})
	return c, report, err
}

func certificateOf(ctx context.Context, q querier, id int64) (Certificate, error) {
	found, err := queryCertificates(ctx, q, `WHERE c.id = $1`, id)
	if err != nil || len(found) == 1 {
		return append(found, Certificate{})[0], err
	}
	return Certificate{}, orNotFound(pgx.ErrNoRows, "certificate %d does not exist: 'onejob contract list' prints them", id)
}

// RevokeCertificates revokes the certificate and, so that no older one stands in for it, every
// other of the same contract, provider and model that is not revoked yet. It returns those that
// this call revoked; none: they were revoked before. It fails with [onejob.ErrNotFound] and
// [onejob.ErrInvalidRequest].
func (s *Store) RevokeCertificates(ctx context.Context, id int64, by, reason string) (revoked []Certificate, err error) {
	if err := onejob.CheckSaid(by, reason); err != nil {
		return nil, err
	}
	if reason == "" {
		return nil, onejob.Errorf(onejob.CodeInvalidRequest, "a certificate is revoked for a reason: give one")
	}
	err = s.inTx(ctx, "revoke the certificate", func(tx pgx.Tx) error {
		c, err := certificateOf(ctx, tx, id)
		if err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `SELECT onejob_certification_lock($1, $2, $3)`, c.ContractSHA256, c.Provider, c.Model); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `
			UPDATE certificates SET revoked_at = clock_timestamp(), revoked_by = $2, revoked_reason = $3
			WHERE id IN (SELECT o.id FROM certificates c JOIN certificates o USING (contract_sha256, provider, model)
			             WHERE c.id = $1 AND o.revoked_at IS NULL ORDER BY o.id FOR UPDATE OF o)
			  AND revoked_at IS NULL RETURNING id`, id, by, reason)
		if err != nil {
			return err
		}
		ids, err := pgx.CollectRows(rows, pgx.RowTo[int64])
		if err != nil {
			return err
		}
		revoked, err = queryCertificates(ctx, tx, `WHERE c.id = ANY ($1) ORDER BY c.id DESC`, ids)
		return err
	})
	return revoked, err
}

// StandingCertificates returns the certificates that count now for the contracts, of each model of
// a provider the one that lasts longest; at most 1000, the first to expire first.
func (s *Store) StandingCertificates(ctx context.Context, contractSHA256s []string) ([]Certificate, error) {
	certificates, err := queryCertificates(ctx, s.pool, `
		WHERE c.id IN (
			SELECT DISTINCT ON (v.contract_sha256, v.provider, v.model, v.adapter) v.id FROM certificates v
			WHERE v.contract_sha256 = ANY ($1) AND onejob_certificate_valid(v)
			ORDER BY v.contract_sha256, v.provider, v.model, v.adapter, v.expires_at DESC)
		ORDER BY c.expires_at, c.id LIMIT 1000`, contractSHA256s)
	return certificates, translate("read the certificates", err)
}

// LastCertificationStart returns when the newest run of the contract against the provider began;
// the zero time: there is none.
func (s *Store) LastCertificationStart(ctx context.Context, contractSHA256, provider string) (time.Time, error) {
	var at *time.Time
	err := s.pool.QueryRow(ctx, `SELECT max(started_at) FROM certification_runs WHERE contract_sha256 = $1 AND provider = $2`, contractSHA256, provider).Scan(&at)
	return orZero(at).UTC(), translate("read the certifications", err)
}

// Now returns the time by the database's clock.
func (s *Store) Now(ctx context.Context) (now time.Time, err error) {
	err = s.pool.QueryRow(ctx, `SELECT clock_timestamp()`).Scan(&now)
	return now.UTC(), translate("read the clock", err)
}
