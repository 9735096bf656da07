package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// passage is by what an attempt is let in to its provider.
type passage struct {
	contract    string // hash of the contract that it is asked by; empty: its kind has none
	adapter     string // the version of the adapter, where there is a contract; empty: it has none
	certificate *int64
	decision    *int64 // by which somebody asked for the provider without a certificate
	closed      string // why it is not let in; empty: it is
}

// passGate looks by what the attempt may go to its provider. A certificate that it finds
// stays valid until the transaction ends: it is locked against whoever revokes it.
func passGate(ctx context.Context, tx pgx.Tx, a Start, t turn) (p passage, err error) {
	if a.Contract == nil {
		return p, nil
	}
	contract := a.Contract(t.kind)
	if contract == nil {
		return p, nil
	}
	p.contract, p.adapter = contract.SHA256, a.Adapter
	if t.own {
		return p, nil
	}
	proved := Proved{ContractSHA256: contract.SHA256, Provider: a.Provider, Model: a.Model, Adapter: a.Adapter}
	if p.certificate, err = lockCertificate(ctx, tx, proved); err != nil || p.certificate != nil {
		return p, err
	}
	if p.decision, err = unusedPermission(ctx, tx, a); err != nil || p.decision != nil {
		return p, err
	}
	why, err := lostCertificate(ctx, tx, t.kind, proved)
	p.closed = contract.Uncertified(a.Provider, why)
	return p, err
}

// Proved is what a certificate proves: that this model of this provider, asked by this
// version of its adapter, honours this contract.
type Proved struct {
	ContractSHA256 string
	Provider       string
	Model          string // empty: the provider has none
	Adapter        string // version; empty: there can be no certificate
}

// provedBy are the certificates c that prove $1 to $4 and count now.
const provedBy = `c.contract_sha256 = $1 AND c.provider = $2 AND c.model = $3 AND c.adapter = $4 AND onejob_certificate_valid(c)`

// lockCertificate returns the id of a valid certificate, nil if there is none.
func lockCertificate(ctx context.Context, tx pgx.Tx, p Proved) (id *int64, err error) {
	err = tx.QueryRow(ctx, `SELECT c.id FROM certificates c WHERE `+provedBy+` ORDER BY c.expires_at DESC LIMIT 1 FOR SHARE`,
		p.ContractSHA256, p.Provider, p.Model, p.Adapter).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return id, err
}

// unusedPermission returns the decision by which somebody asked for the provider without a
// certificate and for which no attempt was started yet, nil if there is none.
func unusedPermission(ctx context.Context, tx pgx.Tx, a Start) (id *int64, err error) {
	err = tx.QueryRow(ctx, `
		SELECT d.id FROM decisions d
		WHERE d.job_id = $1 AND d.action = 'start-attempt' AND d.provider = $2 AND d.uncertified AND d.refused IS NULL
		  AND NOT EXISTS (SELECT FROM attempts a WHERE a.uncertified = d.id)
		ORDER BY d.id DESC LIMIT 1`, a.JobID, a.Provider).Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return id, err
}

// lostCertificate says for people what became of the last certificate of the provider for
// the kind, "" if it had none.
func lostCertificate(ctx context.Context, tx pgx.Tx, kind string, p Proved) (why string, err error) {
	err = tx.QueryRow(ctx, `
		SELECT CASE
			WHEN c.contract_sha256 <> $3 THEN 'its last one is for another version of the contract'
			WHEN c.model <> $4 THEN format('its last one is for the model %s', c.model)
			WHEN c.adapter <> $5 THEN format('its last one is for the adapter %s, this worker has %s', c.adapter, $5::text)
			WHEN c.revoked_at IS NOT NULL THEN format('its last one was revoked by %s: %s', c.revoked_by, left(c.revoked_reason, 200))
			WHEN c.suspended_at IS NOT NULL THEN format('its last one is suspended: %s', left(c.suspended_reason, 200))
			ELSE to_char(c.expires_at AT TIME ZONE 'UTC', '"its last one expired at "YYYY-MM-DD"T"HH24:MI:SS"Z"') END
		FROM certificates c WHERE c.contract = $1 AND c.provider = $2 ORDER BY c.id DESC LIMIT 1`,
		kind, p.Provider, p.ContractSHA256, p.Model, p.Adapter).Scan(&why)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", nil
	}
	return why, err
}

// insertSkipped records an attempt whose provider has no certificate: it failed and called
// nobody. It returns nil if its number is taken.
func insertSkipped(ctx context.Context, tx pgx.Tx, a Start, t turn, p passage) (*onejob.Attempt, error) {
	rows, err := tx.Query(ctx, `
		INSERT INTO attempts (job_id, number, lane, provider, model, job_version, execution, contract_sha256, adapter,
			state, reason, detail, recorded_by, finished_at)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'failed', $10, $11, $12, clock_timestamp())
		ON CONFLICT (job_id, number) DO NOTHING
		RETURNING `+attemptColumns,
		a.JobID, a.Number, a.Lane, a.Provider, a.Model, t.version, a.Execution, p.contract, nullable(p.adapter),
		onejob.ReasonNotCertified, storable(p.closed), a.Execution)
	if err != nil {
		return nil, err
	}
	skipped, err := pgx.CollectExactlyOneRow(rows, scanAttempt)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return &skipped.Attempt, err
}

// checkCertified fails with [onejob.ErrNotCertified] if the provider that somebody asks for
// needs a certificate and has none, unless they ask for it without.
func checkCertified(ctx context.Context, tx pgx.Tx, jobID, provider string, d Decision) error {
	var kind string
	var own bool
	if err := tx.QueryRow(ctx, `SELECT kind, provider = $2 FROM jobs WHERE id = $1`, jobID, provider).Scan(&kind, &own); err != nil {
		return err
	}
	contract := d.Catalog.Kinds[kind].Contract
	if contract == nil || own || d.Uncertified {
		return nil
	}
	known := d.Catalog.Providers[provider]
	proved := Proved{ContractSHA256: contract.SHA256, Provider: provider, Model: known.Model, Adapter: known.Adapter}
	certificate, err := lockCertificate(ctx, tx, proved)
	if err != nil || certificate != nil {
		return err
	}
	why, err := lostCertificate(ctx, tx, kind, proved)
	if err != nil {
		return err
	}
	return onejob.Errorf(onejob.CodeNotCertified, "%s, or ask for it all the same with --uncertified", contract.Uncertified(provider, why))
}

// checkResolved fails with [onejob.ErrInvalidRequest] if the result that somebody found out
// breaks the contract that the attempt was asked by.
func checkResolved(ctx context.Context, tx pgx.Tx, a attemptRow, result []byte, d Decision) error {
	var kind string
	var input []byte
	err := tx.QueryRow(ctx, `
		SELECT j.kind, j.input FROM attempts a JOIN jobs j ON j.id = a.job_id
		WHERE a.id = $1 AND a.contract_sha256 IS NOT NULL`, a.id).Scan(&kind, &input)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil // it was not asked by one
	}
	contract := d.Catalog.Kinds[kind].Contract
	if err != nil || contract == nil {
		return err
	}
	if err := contract.CheckReply(input, result); err != nil {
		return onejob.Errorf(onejob.CodeInvalidRequest, "the result breaks the contract %s: %w: correct it, or resolve the attempt as failed", contract.File, err)
	}
	return nil
}

// FirstCertified returns the first of those that have a valid certificate now, false if none
// has.
func (s *Store) FirstCertified(ctx context.Context, candidates []Proved) (Proved, bool, error) {
	for _, p := range candidates {
		var valid bool
		err := s.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM certificates c WHERE `+provedBy+`)`,
			p.ContractSHA256, p.Provider, p.Model, p.Adapter).Scan(&valid)
		if err != nil || valid {
			return p, valid, translate("look for a certificate", err)
		}
	}
	return Proved{}, false, nil
}

// SuspendCertificateIfViolated suspends the certificates of what is proved, if so many
// replies in production broke the contract within the time, and since the certificate was
// given. It returns how many it suspended. Whoever records such a reply calls it behind that,
// so of any number at once the last one counts all.
func (s *Store) SuspendCertificateIfViolated(ctx context.Context, p Proved, after onejob.Suspension) (suspended int64, err error) {
	after = after.OrDefault()
	err = s.inTx(ctx, "suspend the certificate", func(tx pgx.Tx) error {
		// A run that is about to pass waits, and finds the suspension.
		if _, err := tx.Exec(ctx, `SELECT onejob_certification_lock($1, $2, $3)`, p.ContractSHA256, p.Provider, p.Model); err != nil {
			return err
		}
		tag, err := tx.Exec(ctx, `
		UPDATE certificates c SET suspended_at = clock_timestamp(),
			suspended_reason = format('%s replies in production broke the contract within %s', $5::integer, $7::text)
		WHERE `+provedBy+` AND (
			SELECT count(*) FROM (
				SELECT FROM attempts a
				WHERE a.contract_sha256 = $1 AND a.provider = $2 AND a.model = $3 AND a.adapter = $4 AND a.reason = 'contract_violation'
				  AND a.finished_at > greatest(c.passed_at, clock_timestamp() - $6::bigint * interval '1 millisecond')
				LIMIT $5) violations) >= $5`,
			p.ContractSHA256, p.Provider, p.Model, p.Adapter, after.Violations, milliseconds(after.Within), after.Within.Round(time.Second).String())
		suspended = tag.RowsAffected()
		return err
	})
	return suspended, err
}
