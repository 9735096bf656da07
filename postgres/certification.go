package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// ContractText is a contract as its files have it.
type ContractText struct {
	SHA256  string // the contract's identity
	Kind    string
	Version int
	File    string            // which of the files is the contract
	Files   map[string]string // text by name
}

// StoreContractOnce stores the text, unless it is there.
func (s *Store) StoreContractOnce(ctx context.Context, c ContractText) error {
	files, err := json.Marshal(c.Files)
	if err != nil {
		return err
	}
	_, err = s.pool.Exec(ctx, `
		INSERT INTO contract_texts (sha256, kind, version, file, files) VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING`,
		c.SHA256, c.Kind, c.Version, c.File, string(files))
	return translate("store the contract", err)
}

// ContractText returns the contract with the identity. It fails with [onejob.ErrNotFound].
func (s *Store) ContractText(ctx context.Context, sha256 string) (c ContractText, err error) {
	var files []byte
	err = s.pool.QueryRow(ctx, `SELECT sha256, kind, version, file, files FROM contract_texts WHERE sha256 = $1`, sha256).
		Scan(&c.SHA256, &c.Kind, &c.Version, &c.File, &files)
	if err == nil {
		err = json.Unmarshal(files, &c.Files)
	}
	return c, translate("read the contract", orNotFound(err, "contract %.20s is not stored: 'onejob contract verify FILE' stores it", sha256))
}

// CertificationState is how far a run is.
type CertificationState string

// The states of a run. It ends once.
const (
	CertificationRunning   CertificationState = "running"
	CertificationPassed    CertificationState = "passed"
	CertificationFailed    CertificationState = "failed"
	CertificationCancelled CertificationState = "cancelled"
)

// Certification is a run of a contract against a model of a provider.
type Certification struct {
	ID             string             `json:"id"` // a UUID
	Contract       string             `json:"contract"`
	ContractSHA256 string             `json:"contract_sha256"`
	Provider       string             `json:"provider"`
	Model          string             `json:"model"`
	Adapter        string             `json:"adapter"`
	RequestedBy    string             `json:"requested_by"`
	Calls          int                `json:"calls"`     // planned
	MustPass       int                `json:"must_pass"` // of the calls
	State          CertificationState `json:"state"`
	Estimate       onejob.Amount      `json:"estimate"` // of all calls
	Currency       string             `json:"currency"` // XXX: nothing has a price
	StartedAt      time.Time          `json:"started_at"`
	FinishedAt     time.Time          `json:"finished_at,omitzero"`
	Certificate    int64              `json:"certificate,omitempty"` // of a run that passed
}

// BeginCertificationOnce inserts the run under its id, unless it is there, and sets aside in its
// owner's budget what calls of the usages may come to. It returns the run as it is stored. It
// fails with [onejob.ErrBudgetExceeded] before a call is made, with [onejob.ErrInvalidRequest]
// if the budget is in another currency, and with [onejob.ErrConflict] if the id belongs to
// another run. One workflow at a time runs a contract against a provider, so a run that is still
// under way was abandoned by its own, which was terminated for instance: it ends, and what it set
// aside is free.
func (s *Store) BeginCertificationOnce(ctx context.Context, c Certification, usages []json.RawMessage) (run Certification, err error) {
	texts := make([]string, len(usages))
	for i, usage := range usages {
		texts[i] = string(usage)
	}
	err = s.inTx(ctx, "begin the certification", func(tx pgx.Tx) error {
		if err := endAbandoned(ctx, tx, c); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			INSERT INTO certification_runs (id, contract, contract_sha256, provider, model, adapter, requested_by, calls, must_pass, owner_id, estimate, currency)
			SELECT $1, $2, $3, $4::text, $5::text, $6, $7, $8, $11, $9, coalesce(sum(p.cost), 0), coalesce(min(p.currency), 'XXX')
			FROM unnest($10::text[]) AS u (usage), LATERAL onejob_priced($4::text, $5::text, u.usage::json, clock_timestamp()) p
			ON CONFLICT DO NOTHING`,
			c.ID, c.Contract, c.ContractSHA256, c.Provider, c.Model, c.Adapter, c.RequestedBy, c.Calls, onejob.CertificationOwner, texts, c.MustPass)
		if err != nil {
			return err
		}
		run, err = certificationOf(ctx, tx, c.ID)
		return sameRun(err, run, c)
	})
	return run, err
}

// endAbandoned ends the runs of the contract and the provider that are under way, c itself aside.
func endAbandoned(ctx context.Context, tx pgx.Tx, c Certification) error {
	rows, err := tx.Query(ctx, `
		SELECT id::text FROM certification_runs WHERE contract_sha256 = $1 AND provider = $2 AND state = 'running' AND id <> $3 ORDER BY id FOR NO KEY UPDATE`,
		c.ContractSHA256, c.Provider, c.ID)
	if err != nil {
		return err
	}
	abandoned, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(abandoned) == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, `
		UPDATE certification_calls SET state = 'unknown', reason = $2, detail = 'its run was abandoned', finished_at = clock_timestamp()
		WHERE run_id = ANY ($1::uuid[]) AND state = 'calling'`, abandoned, onejob.ReasonWorkerLost); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `
		UPDATE certification_runs SET state = 'cancelled', report = json_build_object('run_id', id, 'contract', contract, 'contract_sha256', contract_sha256,
			'provider', provider, 'model', model, 'adapter', adapter, 'passed', false, 'summary', 'it was abandoned: its workflow ended before it')
		WHERE id = ANY ($1::uuid[]) AND state = 'running'`, abandoned)
	return err
}

// sameRun refuses a run that is not the one that was asked for.
func sameRun(err error, there, asked Certification) error {
	if err == nil && (there.ContractSHA256 != asked.ContractSHA256 || there.Provider != asked.Provider || there.Model != asked.Model || there.Adapter != asked.Adapter) {
		return onejob.Errorf(onejob.CodeConflict, "certification %s is of contract %.12s and %s %s by %s, not of contract %.12s and %s %s by %s: start another one",
			asked.ID, there.ContractSHA256, there.Provider, there.Model, there.Adapter, asked.ContractSHA256, asked.Provider, asked.Model, asked.Adapter)
	}
	return err
}

const certificationColumns = `r.id::text, r.contract, r.contract_sha256, r.provider, r.model, r.adapter, r.requested_by, r.calls, r.must_pass, r.state,
	r.estimate, r.currency, r.started_at, r.finished_at, coalesce(c.id, 0)`

// Certification returns the run. It fails with [onejob.ErrNotFound].
func (s *Store) Certification(ctx context.Context, id string) (Certification, error) {
	run, err := certificationOf(ctx, s.pool, id)
	return run, translate("read the certification", err)
}

func certificationOf(ctx context.Context, q querier, id string) (run Certification, err error) {
	if uuid.Validate(id) != nil {
		return run, onejob.Errorf(onejob.CodeNotFound, "certification %.60q does not exist: ids are UUIDs", id)
	}
	rows, err := q.Query(ctx, `SELECT `+certificationColumns+` FROM certification_runs r LEFT JOIN certificates c ON c.run_id = r.id WHERE r.id = $1`, id)
	if err != nil {
		return run, err
	}
	run, err = pgx.CollectExactlyOneRow(rows, scanCertification)
	return run, orNotFound(err, "certification %s does not exist", id)
}

func scanCertification(row pgx.CollectableRow) (r Certification, err error) {
	var finished *time.Time
	err = row.Scan(&r.ID, &r.Contract, &r.ContractSHA256, &r.Provider, &r.Model, &r.Adapter, &r.RequestedBy, &r.Calls, &r.MustPass, &r.State,
		&r.Estimate, &r.Currency, &r.StartedAt, &finished, &r.Certificate)
	r.StartedAt, r.FinishedAt = r.StartedAt.UTC(), orZero(finished).UTC()
	return r, err
}

// CertificationReport returns the report of a run that has ended; nil: it has not. It fails with
// [onejob.ErrNotFound].
func (s *Store) CertificationReport(ctx context.Context, id string) (json.RawMessage, error) {
	if _, err := s.Certification(ctx, id); err != nil {
		return nil, err
	}
	var report []byte
	err := s.pool.QueryRow(ctx, `
		SELECT coalesce(c.report, r.report) FROM certification_runs r LEFT JOIN certificates c ON c.run_id = r.id WHERE r.id = $1`, id).Scan(&report)
	return report, translate("read the certification's report", err)
}

// LatestCertification returns the newest run of the contract against the provider that has an
// answer; the zero value: there is none.
func (s *Store) LatestCertification(ctx context.Context, contractSHA256, provider string) (run Certification, err error) {
	rows, err := s.pool.Query(ctx, `
		SELECT `+certificationColumns+` FROM certification_runs r LEFT JOIN certificates c ON c.run_id = r.id
		WHERE r.contract_sha256 = $1 AND r.provider = $2 AND r.state <> 'running'
		  AND EXISTS (SELECT FROM certification_calls k WHERE k.run_id = r.id AND k.state = 'answered')
		ORDER BY r.started_at DESC LIMIT 1`, contractSHA256, provider)
	if err != nil {
		return run, translate("read the certifications", err)
	}
	found, err := pgx.CollectRows(rows, scanCertification)
	return append(found, Certification{})[0], translate("read the certifications", err)
}

// CertificationCall names a call of a run.
type CertificationCall struct {
	RunID  string `json:"run_id"`
	Case   string `json:"case"` // empty: the canary
	Repeat int    `json:"repeat"`
	Try    int    `json:"try"`
}

// CallStart is a call that an execution asks to make.
type CallStart struct {
	CertificationCall
	Execution  string        // UUID of this execution of the activity
	ListenFor  time.Duration // how long the answer is waited for
	Provider   string
	Model      string // that this worker's provider has
	Adapter    string // by which this worker asks it
	MostAtOnce int    // calls on the provider under way at once, those of jobs among them; 0: no bound
}

// StartCallIfNew commits the call's row, which is the permission to make it, once. Mine false
// means that it was made before, or that the run has ended. It fails with [onejob.ErrNotFound],
// and with [onejob.ErrConflict] if this worker would ask another model or by another adapter
// than the run is of.
func (s *Store) StartCallIfNew(ctx context.Context, c CallStart) (mine, isBusy bool, err error) {
	err = s.inTx(ctx, "start the call", func(tx pgx.Tx) error {
		if isBusy, err = busy(ctx, tx, Start{Provider: c.Provider, Execution: c.Execution, MostAtOnce: c.MostAtOnce}); err != nil || isBusy {
			return err
		}
		run, err := lockCertification(ctx, tx, c.RunID)
		if err != nil || run != CertificationRunning {
			return err
		}
		if err := checkAsks(ctx, tx, c); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO certification_calls (run_id, model, adapter, case_name, repeat, try, execution, listen_until)
			VALUES ($1, $7, $8, $2, $3, $4, $5, clock_timestamp() + $6 * interval '1 millisecond') ON CONFLICT DO NOTHING`,
			c.RunID, c.Case, c.Repeat, c.Try, c.Execution, milliseconds(c.ListenFor), c.Model, c.Adapter); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `
			SELECT EXISTS (SELECT FROM certification_calls WHERE run_id = $1 AND case_name = $2 AND repeat = $3 AND try = $4 AND execution = $5 AND state = 'calling')`,
			c.RunID, c.Case, c.Repeat, c.Try, c.Execution).Scan(&mine)
	})
	return mine, isBusy, err
}

// checkAsks says for people what the foreign key of the call's row refuses.
func checkAsks(ctx context.Context, tx pgx.Tx, c CallStart) error {
	var model, adapter string
	err := tx.QueryRow(ctx, `SELECT model, adapter FROM certification_runs WHERE id = $1`, c.RunID).Scan(&model, &adapter)
	if err == nil && (model != c.Model || adapter != c.Adapter) {
		return onejob.Errorf(onejob.CodeConflict, "certification %s is of %s %s by %s, and this worker asks %s by %s: give all workers the same onejob.yaml and start another one",
			c.RunID, c.Provider, model, adapter, c.Model, c.Adapter)
	}
	return err
}

// lockCertification keeps the run from ending until the transaction does.
func lockCertification(ctx context.Context, tx pgx.Tx, id string) (state CertificationState, err error) {
	err = tx.QueryRow(ctx, `SELECT state FROM certification_runs WHERE id = $1 FOR SHARE`, id).Scan(&state)
	return state, orNotFound(err, "certification %s does not exist", id)
}

// CallState is what became of a call.
type CallState string

// The states of a call.
const (
	CallCalling  CallState = "calling"
	CallAnswered CallState = "answered"
	CallFailed   CallState = "failed"
	CallUnknown  CallState = "unknown"
)

// CallOutcome is what became of a call.
type CallOutcome struct {
	State       CallState
	Reason      onejob.Reason   // of failed and unknown
	Detail      string          // one line for people
	Usage       json.RawMessage // null: none
	ReplySHA256 []byte          // of answered
	Reply       []byte          // nil: it is not kept
	Verdict     json.RawMessage // of answered, and of a failure that was an answer
	Latency     time.Duration
}

// RecordCallIfOpen records what became of the call and books what it cost, unless an outcome is
// recorded already. An unknown call becomes known so, even when its run has ended; its cost is
// booked all the same, and counts against the budget.
func (s *Store) RecordCallIfOpen(ctx context.Context, c CertificationCall, o CallOutcome) error {
	return s.inTx(ctx, "record the call", func(tx pgx.Tx) error {
		// No two share the lock: the cost of a late answer changes the run.
		if _, err := tx.Exec(ctx, `SELECT FROM certification_runs WHERE id = $1 FOR NO KEY UPDATE`, c.RunID); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `
			WITH done AS (
				UPDATE certification_calls SET state = $5, reason = $6, detail = $7, usage = $8, reply_sha256 = $9, reply = $10, verdict = $11,
					latency_ms = $12, finished_at = clock_timestamp()
				WHERE run_id = $1 AND case_name = $2 AND repeat = $3 AND try = $4
				  AND (state = 'calling' OR state = 'unknown' AND $5 <> 'unknown')
				RETURNING id, run_id, usage, started_at
			), entry AS (
				INSERT INTO ledger (source, owner_id, kind, amount, currency, certification_call, provider, model, usage, prices, estimated, unpriced, recorded_by)
				SELECT 'certification.cost:' || d.id, r.owner_id, 'cost', p.cost, p.currency, d.id, r.provider, r.model, d.usage,
				       p.prices, coalesce((d.usage ->> 'estimated')::boolean, false), p.unpriced, 'certification'
				FROM done d JOIN certification_runs r ON r.id = d.run_id, LATERAL onejob_priced(r.provider, r.model, d.usage, d.started_at) p
				WHERE d.usage IS NOT NULL
				RETURNING *
			)`+entryTold,
			c.RunID, c.Case, c.Repeat, c.Try, o.State, nullable(string(o.Reason)), nullable(storable(o.Detail)), nullable(string(o.Usage)),
			o.ReplySHA256, o.Reply, nullable(string(o.Verdict)), milliseconds(o.Latency))
		return err
	})
}

// FenceCall closes a call that nobody is making any more: one that has no row gets one, so that
// who wakes late does not make it; one that has no outcome is unknown. It returns the state.
func (s *Store) FenceCall(ctx context.Context, c CertificationCall) (state CallState, err error) {
	err = s.inTx(ctx, "close the call", func(tx pgx.Tx) error {
		if _, err := lockCertification(ctx, tx, c.RunID); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			INSERT INTO certification_calls (run_id, model, adapter, case_name, repeat, try, state, reason, listen_until, finished_at)
			SELECT id, model, adapter, $2, $3, $4, 'failed', $5, clock_timestamp(), clock_timestamp() FROM certification_runs WHERE id = $1
			ON CONFLICT DO NOTHING`,
			c.RunID, c.Case, c.Repeat, c.Try, onejob.ReasonNeverStarted); err != nil {
			return err
		}
		if _, err := tx.Exec(ctx, `
			UPDATE certification_calls SET state = 'unknown', reason = $5, detail = 'the worker that made the call was lost', finished_at = clock_timestamp()
			WHERE run_id = $1 AND case_name = $2 AND repeat = $3 AND try = $4 AND state = 'calling'`,
			c.RunID, c.Case, c.Repeat, c.Try, onejob.ReasonWorkerLost); err != nil {
			return err
		}
		return tx.QueryRow(ctx, `SELECT state FROM certification_calls WHERE run_id = $1 AND case_name = $2 AND repeat = $3 AND try = $4`,
			c.RunID, c.Case, c.Repeat, c.Try).Scan(&state)
	})
	return state, err
}

// CallRow is a call of a run as it is stored.
type CallRow struct {
	CertificationCall
	CallOutcome
	StartedAt time.Time
	Cost      onejob.Amount
	Currency  string // empty: nothing is booked
	Unpriced  bool   // some of the usage had no price
}

// CertificationCalls returns the calls of the run, in the order in which they were made.
func (s *Store) CertificationCalls(ctx context.Context, runID string) ([]CallRow, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT k.run_id::text, k.case_name, k.repeat, k.try, k.state, coalesce(k.reason, ''), coalesce(k.detail, ''), k.usage, k.reply_sha256, k.reply,
		       k.verdict, coalesce(k.latency_ms, 0), k.started_at, coalesce(l.amount, 0), coalesce(l.currency, ''), coalesce(l.unpriced, false)
		FROM certification_calls k LEFT JOIN ledger l ON l.certification_call = k.id AND l.corrects IS NULL
		WHERE k.run_id = $1 ORDER BY k.id`, runID)
	if err != nil {
		return nil, translate("read the calls", err)
	}
	calls, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c CallRow, err error) {
		var usage, verdict []byte
		var latency int64
		err = row.Scan(&c.RunID, &c.Case, &c.Repeat, &c.Try, &c.State, &c.Reason, &c.Detail, &usage, &c.ReplySHA256, &c.Reply,
			&verdict, &latency, &c.StartedAt, &c.Cost, &c.Currency, &c.Unpriced)
		c.Usage, c.Verdict, c.Latency, c.StartedAt = usage, verdict, time.Duration(latency)*time.Millisecond, c.StartedAt.UTC()
		return c, err
	})
	return calls, translate("read the calls", err)
}

// CallCost returns what a call of the usage comes to by the prices of now. Currency XXX: it has
// no price.
func (s *Store) CallCost(ctx context.Context, provider, model string, usage json.RawMessage) (cost onejob.Amount, currency string, err error) {
	err = s.pool.QueryRow(ctx, `SELECT cost, currency FROM onejob_priced($1, $2, $3::json, clock_timestamp())`, provider, model, string(usage)).Scan(&cost, &currency)
	return cost, currency, translate("price the call", err)
}

// CertificationEnd is how a run ends.
type CertificationEnd struct {
	State    CertificationState // not running
	Report   json.RawMessage
	ValidFor time.Duration // of the certificate, where the run passed
}

// EndCertificationIfRunning ends the run, and with it writes the certificate if it passed. It
// returns the run as it is stored: one that has ended before stays as it is. It fails with
// [onejob.ErrNotFound], and with [onejob.ErrConflict] if a certificate like the one it would
// write was revoked or suspended since the run began.
func (s *Store) EndCertificationIfRunning(ctx context.Context, id string, end CertificationEnd) (run Certification, err error) {
	err = s.inTx(ctx, "end the certification", func(tx pgx.Tx) error {
		if end.State == CertificationPassed {
			if err := checkNotTakenBack(ctx, tx, id); err != nil {
				return err
			}
		}
		var report *string
		if end.State != CertificationPassed {
			report = nullable(string(end.Report))
		}
		ended, err := tx.Exec(ctx, `UPDATE certification_runs SET state = $2, report = $3 WHERE id = $1 AND state = 'running'`, id, end.State, report)
		if err != nil {
			return err
		}
		if ended.RowsAffected() == 1 && end.State == CertificationPassed {
			_, err = tx.Exec(ctx, `
				INSERT INTO certificates (run_id, contract, contract_sha256, provider, model, adapter, passed_at, expires_at, report)
				SELECT id, contract, contract_sha256, provider, model, adapter, finished_at, finished_at + $2 * interval '1 millisecond', $3
				FROM certification_runs WHERE id = $1`, id, milliseconds(end.ValidFor), string(end.Report))
		}
		if err != nil {
			return err
		}
		run, err = certificationOf(ctx, tx, id)
		return err
	})
	return run, err
}

// checkNotTakenBack takes the turn of whoever writes, revokes or suspends such a certificate.
func checkNotTakenBack(ctx context.Context, tx pgx.Tx, runID string) error {
	if _, err := tx.Exec(ctx, `SELECT onejob_certification_lock(contract_sha256, provider, model) FROM certification_runs WHERE id = $1`, runID); err != nil {
		return err
	}
	var what string
	err := tx.QueryRow(ctx, `
		SELECT CASE WHEN c.revoked_at >= r.started_at THEN format('revoked by %s while the run was under way: %s', c.revoked_by, c.revoked_reason)
			ELSE format('suspended while the run was under way: %s', c.suspended_reason) END
		FROM certification_runs r JOIN certificates c USING (contract_sha256, provider, model)
		WHERE r.id = $1 AND r.state = 'running' AND greatest(c.revoked_at, c.suspended_at) >= r.started_at ORDER BY c.revoked_at DESC NULLS LAST LIMIT 1`, runID).Scan(&what)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil
	}
	if err != nil {
		return err
	}
	return onejob.Errorf(onejob.CodeConflict, "the certificate was %s", what)
}

// CertificationProgress returns how many calls of the run have an outcome, of how many. A run
// that has not begun has none.
func (s *Store) CertificationProgress(ctx context.Context, id string) (done, total int, err error) {
	err = s.pool.QueryRow(ctx, `
		SELECT count(k.id) FILTER (WHERE k.state <> 'calling'), coalesce(max(r.calls), 0)
		FROM certification_runs r LEFT JOIN certification_calls k ON k.run_id = r.id WHERE r.id = $1`, id).Scan(&done, &total)
	return done, total, translate("read the certification", err)
}
