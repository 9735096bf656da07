package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob"
)

// SQLSTATEs and constraints that the code branches on.
const (
	stateUniqueViolation = "23505"
	stateNotNull         = "23502"
	stateUndefinedTable  = "42P01"
	stateOverBudget      = "OJ002" // of the budget guard
	stateOtherCurrency   = "OJ003" // of the budget guard
	stateNotCertified    = "OJ004" // of the gate
	stateUndefinedColumn = "42703"
	stateInvalidText     = "22P02"
	stateNoDatabase      = "3D000"
	constraintOneLive    = "attempts_one_live"
	routineReadsUUID     = "string_to_uuid" // of Postgres: the text that is none is an id
	classAuthorization   = "28"
	classRolledBack      = "40"
)

// interruptions are SQLSTATEs, and beginnings of such, of a server that could not do now
// what it may do later: nothing was committed, the same call may be repeated.
var interruptions = []string{
	"08",    // connection
	"25006", // it only reads: a standby that clients still reach
	"25P03", // idle in the transaction for too long
	classRolledBack,
	"53",    // out of memory, disk or connections
	"55P03", // a lock was not free in time
	"57014", // the statement was cancelled, or took too long
	"57P",   // shutting down, starting up
	"58",    // its system failed
}

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
	if errors.Is(err, errOvertaken) {
		return onejob.Errorf(onejob.CodeServerUnreachable, "rolled back (%s): %w", what, err)
	}
	if unreachable(err) {
		return onejob.Errorf(onejob.CodeServerUnreachable, "postgres does not answer (%s): %w", what, err)
	}
	return onejob.Errorf(onejob.CodeInternal, "%s: %w", what, err)
}

func translateServer(what string, pg *pgconn.PgError, err error) error {
	switch {
	case pg.Code == stateUndefinedTable || pg.Code == stateUndefinedColumn:
		return onejob.Errorf(onejob.CodeMisconfigured, "the database lacks onejob's tables (%s): run 'onejob migrate up'", pg.Message)
	case pg.Code == stateUniqueViolation && pg.ConstraintName == constraintOneLive:
		return onejob.Errorf(onejob.CodeAttemptUnresolved, "an attempt of this job is unresolved: wait for it, cancel it or resolve it")
	case pg.Code == stateOverBudget:
		return refusal(pg.Code, pg.Message)
	case pg.Code == stateOtherCurrency:
		return onejob.Errorf(onejob.CodeInvalidRequest, "%s: submit a new intention under a new key", pg.Message)
	case pg.Code == stateNotCertified:
		return onejob.Errorf(onejob.CodeNotCertified, "%s: get one with 'onejob contract verify'", pg.Message)
	case pg.Code == stateInvalidText && pg.Routine == routineReadsUUID:
		_, value, _ := strings.Cut(pg.Message, ": ")
		return onejob.Errorf(onejob.CodeNotFound, "%s is no job: job ids are UUIDs, as 'onejob start' prints them", value)
	case pg.Code == stateNoDatabase || strings.HasPrefix(pg.Code, classAuthorization):
		return onejob.Errorf(onejob.CodeMisconfigured, "postgres does not let onejob in (%s): %w: check DATABASE_URL", what, err)
	case interrupted(pg):
		return onejob.Errorf(onejob.CodeServerUnreachable, "postgres cannot serve now (%s): %w", what, err)
	}
	return onejob.Errorf(onejob.CodeInternal, "%s: %w", what, err)
}

func interrupted(pg *pgconn.PgError) bool {
	return slices.ContainsFunc(interruptions, func(class string) bool { return strings.HasPrefix(pg.Code, class) })
}

// lacks says that the statement gave the column of the table no value.
func lacks(err error, table, column string) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && pg.Code == stateNotNull && pg.TableName == table && pg.ColumnName == column
}

// refused says that the server was there and did not want the statement.
func refused(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && !interrupted(pg)
}

// rolledBack says that the server gave the transaction up for the sake of others: the same
// again may commit.
func rolledBack(err error) bool {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	return ok && strings.HasPrefix(pg.Code, classRolledBack)
}

// mostErrorBytes is what a row keeps of an error's text.
const mostErrorBytes = 4096

// storable returns the text as a column takes it: valid, without NUL, cut.
func storable(text string) string {
	text = strings.ReplaceAll(strings.ToValidUTF8(text, "\uFFFD"), "\x00", "")
	if len(text) <= mostErrorBytes {
		return text
	}
	return strings.ToValidUTF8(text[:mostErrorBytes], "")
}

// unreachable says that the connection failed rather than the statement.
func unreachable(err error) bool {
	_, isNet := errors.AsType[net.Error](err)
	_, isConnect := errors.AsType[*pgconn.ConnectError](err)
	return isNet || isConnect || pgconn.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "conn closed")
}

func orNotFound(err error, format string, args ...any) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return onejob.Errorf(onejob.CodeNotFound, format, args...)
	}
	return err
}
