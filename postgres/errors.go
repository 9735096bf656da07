package postgres

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob"
)

// SQLSTATEs and constraints that the code branches on.
const (
	stateUniqueViolation   = "23505"
	stateUndefinedTable    = "42P01"
	stateUndefinedColumn   = "42703"
	stateInvalidText       = "22P02"
	stateIllegalMove       = "OJ001" // raised by the triggers of the migrations
	constraintOneLive      = "attempts_one_live"
	constraintWorkflowID   = "jobs_workflow_id"
	classConnection        = "08"
	classOperatorInterrupt = "57P"
	classRollback          = "40"
	classResources         = "53"
)

// translate turns what the database or the network said into the errors of package
// onejob. What names the work. It is the only place that does.
func translate(what string, err error) error {
	if err == nil || onejob.CodeOf(err) != "" {
		return err
	}
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return translateServer(what, pg, err)
	}
	if errors.Is(err, context.Canceled) {
		return err
	}
	if unreachable(err) {
		return onejob.Errorf(onejob.CodeServerUnreachable, "postgres does not answer (%s): %w", what, err)
	}
	return onejob.Errorf("", "%s: %w", what, err)
}

func translateServer(what string, pg *pgconn.PgError, err error) error {
	switch {
	case pg.Code == stateUndefinedTable || pg.Code == stateUndefinedColumn:
		return onejob.Errorf(onejob.CodeMisconfigured, "the database lacks onejob's tables (%s): run 'onejob migrate up'", pg.Message)
	case pg.Code == stateUniqueViolation && pg.ConstraintName == constraintOneLive:
		return onejob.Errorf(onejob.CodeAttemptUnresolved, "an attempt of this job is unresolved: wait for it, cancel it or resolve it")
	case pg.Code == stateInvalidText && strings.Contains(pg.Message, "uuid"):
		return onejob.Errorf(onejob.CodeNotFound, "%w: job ids are UUIDs, as 'onejob start' prints them", err)
	case hasClass(pg, classConnection, classOperatorInterrupt, classRollback, classResources):
		return onejob.Errorf(onejob.CodeServerUnreachable, "postgres cannot serve now (%s): %w", what, err)
	}
	return onejob.Errorf("", "%s: %w", what, err)
}

func hasClass(pg *pgconn.PgError, classes ...string) bool {
	for _, class := range classes {
		if strings.HasPrefix(pg.Code, class) {
			return true
		}
	}
	return false
}

// unreachable says that the connection failed rather than the statement.
func unreachable(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	_, isConnect := errors.AsType[*pgconn.ConnectError](err)
	return isNet || isConnect || pgconn.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "unexpected EOF")
}

func orNotFound(err error, format string, args ...any) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return onejob.Errorf(onejob.CodeNotFound, format, args...)
	}
	return err
}
