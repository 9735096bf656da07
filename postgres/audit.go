package postgres

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

// AuditScope is what an audit looks at. A zero field bounds nothing.
type AuditScope struct {
	Owner string
	First time.Time // the first day, by UTC
	Last  time.Time // the last day

	// Patience is how long a message may be under way before that is a difference; default
	// [AuditPatience].
	Patience time.Duration
	// Retention is how old a message is at least when it is deleted; default [AuditRetention].
	Retention time.Duration
}

// The defaults of an audit.
const (
	AuditPatience  = 15 * time.Minute
	AuditRetention = 30 * 24 * time.Hour
)

// Audit is what an audit found: every check, in their order. One that failed is missing there,
// and named by the last, audit_failed.
type Audit struct {
	At          time.Time    `json:"at"`
	Differences int          `json:"differences"`
	Warnings    int          `json:"warnings"`
	WorstRatio  string       `json:"worst_ratio"` // of a summary to the ledger, the farthest from 1; "inf": the ledger has nothing
	Checks      []AuditCheck `json:"checks"`
	Groups      []GroupState `json:"groups"`
}

// AuditCheck is what one check found.
type AuditCheck struct {
	Name     string         `json:"name"`
	Severity Severity       `json:"severity"`
	Count    int            `json:"count"`
	Findings []AuditFinding `json:"findings"` // the first 100 of them
}

// Severity says what a finding means.
type Severity string

// The severities.
const (
	SeverityDifference Severity = "difference" // two halves of the same thing disagree
	SeverityWarning    Severity = "warning"    // allowed, and somebody should look at it
)

// AuditFinding is one thing that is not as it must be.
type AuditFinding struct {
	IDs  map[string]string `json:"ids"`
	Says string            `json:"says"`
}

// GroupState is how a consumer group stands. It is told and is no difference.
type GroupState struct {
	Group      string `json:"group"`
	Pending    int    `json:"pending"`
	Oldest     string `json:"oldest"`         // key of the oldest pending message; empty: none is
	OldestAge  int64  `json:"oldest_seconds"` // its age
	Dead       int    `json:"dead"`
	Duplicates int    `json:"duplicates"` // deliveries of what was done before
}

// auditCheck is a query for what should not be. It returns two columns, the ids as a JSON
// object of strings and a sentence, and has the scope as its parameters: owner $1, empty for
// all; first day $2; last day $3; patience $4; retention $5.
type auditCheck struct {
	name     string
	severity Severity
	query    string
}

// Audit compares both halves of all that must agree, at one moment. Each half is computed
// from the tables themselves. It calls each, which may be nil, after every check, and keeps
// of a check's findings no more than the first hundred.
func (s *Store) Audit(ctx context.Context, scope AuditScope, each func(AuditCheck)) (audit Audit, err error) {
	err = pgx.BeginTxFunc(ctx, s.pool, auditTx, func(tx pgx.Tx) error {
		audit, err = auditIn(ctx, tx, scope, each)
		return err
	})
	return audit, translate("audit", err)
}

// auditIn audits what the transaction sees.
func auditIn(ctx context.Context, tx pgx.Tx, scope AuditScope, each func(AuditCheck)) (audit Audit, err error) {
	if err := tx.QueryRow(ctx, `SELECT now()`).Scan(&audit.At); err != nil {
		return audit, err
	}
	tell := func(found AuditCheck) {
		audit.add(found)
		if each != nil {
			each(found)
		}
	}
	failed := AuditCheck{Name: "audit_failed", Severity: SeverityDifference, Findings: []AuditFinding{}}
	for _, check := range auditChecks() {
		found, err := check.runApart(ctx, tx, scope)
		switch {
		case err == nil:
			tell(found)
		case refused(err):
			failed.Count++
			failed.Findings = append(failed.Findings, AuditFinding{
				IDs: map[string]string{"check": check.name}, Says: fmt.Sprintf("%s could not look: %s", check.name, err)})
		default:
			return audit, fmt.Errorf("%s: %w", check.name, err)
		}
	}
	tell(failed)
	audit.Groups, err = groupStates(ctx, tx)
	audit.At, audit.WorstRatio = audit.At.UTC(), worstRatio(audit.Checks)
	return audit, err
}

// auditTx sees one moment, writes nothing, has each query planned for its own scope, and time.
var auditTx = pgx.TxOptions{BeginQuery: `begin isolation level repeatable read read only;
	set local plan_cache_mode = force_custom_plan; set local statement_timeout = 0; set local idle_in_transaction_session_timeout = '1min'`}

func auditChecks() []auditCheck {
	return append(append(usageChecks(), moneyChecks...), messageChecks...)
}

// keptFindings is how many of a check's findings are kept.
const keptFindings = 100

// runApart runs the check so that the others go on where it fails.
func (c auditCheck) runApart(ctx context.Context, tx pgx.Tx, scope AuditScope) (found AuditCheck, err error) {
	err = pgx.BeginFunc(ctx, tx, func(savepoint pgx.Tx) error {
		found, err = c.run(ctx, savepoint, scope)
		return err
	})
	return found, err
}

func (c auditCheck) run(ctx context.Context, tx pgx.Tx, scope AuditScope) (AuditCheck, error) {
	found := AuditCheck{Name: c.name, Severity: c.severity, Findings: []AuditFinding{}}
	rows, err := tx.Query(ctx, `
		SELECT count(*) OVER (), ids, says FROM (`+c.query+`) found
		WHERE num_nonnulls($1::text, $2::date, $3::date, $4::interval, $5::interval) = 5 LIMIT $6`,
		scope.Owner, dayOr(scope.First, "-infinity"), dayOr(scope.Last, "infinity"),
		cmp.Or(scope.Patience, AuditPatience), cmp.Or(scope.Retention, AuditRetention), keptFindings)
	if err != nil {
		return found, err
	}
	var one AuditFinding
	_, err = pgx.ForEachRow(rows, []any{&found.Count, &one.IDs, &one.Says}, func() error {
		found.Findings = append(found.Findings, one)
		one = AuditFinding{}
		return nil
	})
	return found, err
}

func dayOr(day time.Time, none string) string {
	if day.IsZero() {
		return none
	}
	return day.Format(time.DateOnly)
}

func (a *Audit) add(c AuditCheck) {
	a.Checks = append(a.Checks, c)
	if c.Severity == SeverityDifference {
		a.Differences += c.Count
	} else {
		a.Warnings += c.Count
	}
}

// worstRatio returns the ratio that is farthest from 1. Each check of a summary has its
// worst first.
func worstRatio(checks []AuditCheck) string {
	worst := "1"
	for _, c := range checks {
		if len(c.Findings) == 0 || c.Findings[0].IDs["ratio"] == "" {
			continue
		}
		if ratio := c.Findings[0].IDs["ratio"]; distance(ratio) > distance(worst) {
			worst = ratio
		}
	}
	return worst
}

// distance is how far a ratio is from 1; nothing is as far as too much without end.
func distance(ratio string) float64 {
	x := Ratio(ratio)
	if x <= 0 {
		return math.Inf(1)
	}
	return math.Abs(math.Log(x))
}

// Ratio returns an audit's ratio as a number: for gauges, money is compared exactly.
func Ratio(ratio string) float64 {
	x, err := strconv.ParseFloat(ratio, 64)
	if err != nil {
		return math.NaN() // no audit says so
	}
	return x
}

const selectGroupStates = `
	WITH states AS (
		SELECT consumer_group, count(*) FILTER (WHERE state = 'pending') AS pending, count(*) FILTER (WHERE state = 'dead') AS dead, sum(duplicates) AS duplicates
		FROM inbox GROUP BY consumer_group
	), oldest AS (
		SELECT DISTINCT ON (i.consumer_group) i.consumer_group, i.message_key, m.created_at
		FROM inbox i JOIN outbox m ON m.message_key = i.message_key WHERE i.state = 'pending'
		ORDER BY i.consumer_group, m.created_at
	)
	SELECT s.consumer_group, s.pending, coalesce(o.message_key, ''), coalesce(extract(epoch FROM now() - o.created_at), 0)::bigint, s.dead, s.duplicates
	FROM states s LEFT JOIN oldest o ON o.consumer_group = s.consumer_group ORDER BY s.consumer_group`

func groupStates(ctx context.Context, tx pgx.Tx) ([]GroupState, error) {
	rows, err := tx.Query(ctx, selectGroupStates)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowToStructByPos[GroupState])
}
