package postgres

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

// Circuit is a provider that is not called for now.
type Circuit struct {
	Provider  string
	OpenFor   time.Duration // from now on, by the database's clock; not above 0: one attempt every 30 s at most may try
	OpenUntil time.Time
	OpenedAt  time.Time
	Times     int // it was opened since it was last closed
	Reason    string
	PausedBy  string // empty: a worker opened it
}

// Circuits returns the circuits that are not closed, by provider.
func (s *Store) Circuits(ctx context.Context) ([]Circuit, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT provider, (extract(epoch FROM open_until - clock_timestamp()) * 1000)::bigint, open_until, opened_at, times, reason, paused_by
		FROM circuits ORDER BY provider`)
	if err != nil {
		return nil, translate("read the circuits", err)
	}
	circuits, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (c Circuit, err error) {
		var openMs int64
		var pausedBy *string
		err = row.Scan(&c.Provider, &openMs, &c.OpenUntil, &c.OpenedAt, &c.Times, &c.Reason, &pausedBy)
		c.OpenFor, c.PausedBy = time.Duration(openMs)*time.Millisecond, orZero(pausedBy)
		c.OpenUntil, c.OpenedAt = c.OpenUntil.UTC(), c.OpenedAt.UTC()
		return c, err
	})
	return circuits, translate("read the circuits", err)
}

// OpenCircuitUnlessThere opens the provider's circuit for that time. One that is there stays
// as it is. It returns for how long it is open from now on.
func (s *Store) OpenCircuitUnlessThere(ctx context.Context, provider, reason string, openFor time.Duration) (time.Duration, error) {
	var openMs int64
	err := s.pool.QueryRow(ctx, `
		INSERT INTO circuits (provider, open_until, reason) VALUES ($1, clock_timestamp() + $3::bigint * interval '1 millisecond', $2)
		ON CONFLICT (provider) DO UPDATE SET provider = excluded.provider
		RETURNING (extract(epoch FROM circuits.open_until - clock_timestamp()) * 1000)::bigint`,
		provider, reason, milliseconds(openFor)).Scan(&openMs)
	return time.Duration(openMs) * time.Millisecond, translate("open the circuit", err)
}

// TryProviderIfDue lets the caller try the provider whose circuit was open long enough; for
// the time of one try nobody else may. It returns for how long the circuit is open where
// the caller may not, 0 where it may.
func (s *Store) TryProviderIfDue(ctx context.Context, provider string, try time.Duration) (openFor time.Duration, err error) {
	tag, err := s.pool.Exec(ctx, `
		UPDATE circuits SET try_until = clock_timestamp() + $2::bigint * interval '1 millisecond'
		WHERE provider = $1 AND greatest(open_until, try_until) <= clock_timestamp()`, provider, milliseconds(try))
	if err != nil || tag.RowsAffected() == 1 {
		return 0, translate("try the provider", err)
	}
	var openMs int64
	err = s.pool.QueryRow(ctx, `
		SELECT (extract(epoch FROM greatest(open_until, try_until) - clock_timestamp()) * 1000)::bigint
		FROM circuits WHERE provider = $1`, provider).Scan(&openMs)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil // closed meanwhile
	}
	return time.Duration(openMs) * time.Millisecond, translate("try the provider", err)
}

// ReopenCircuitIfDue opens a circuit again that was open long enough and whose provider
// still does not serve: each time for twice as long, at most longest. It returns for how
// long it is open from now on, not above 0 if it is closed.
func (s *Store) ReopenCircuitIfDue(ctx context.Context, provider, reason string, first, longest time.Duration) (time.Duration, error) {
	var openMs int64
	err := s.pool.QueryRow(ctx, `
		UPDATE circuits SET times = times + 1, reason = $2, paused_by = NULL, try_until = NULL,
			open_until = clock_timestamp() + least($4::bigint, $3::bigint * 2 ^ least(times, 20)) * interval '1 millisecond'
		WHERE provider = $1 AND open_until <= clock_timestamp()
		RETURNING (extract(epoch FROM open_until - clock_timestamp()) * 1000)::bigint`,
		provider, reason, milliseconds(first), milliseconds(longest)).Scan(&openMs)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	return time.Duration(openMs) * time.Millisecond, translate("open the circuit again", err)
}

// CloseCircuitUnlessPaused closes the circuit that a worker opened: the provider served a
// call. What somebody paused stays so until its time has passed.
func (s *Store) CloseCircuitUnlessPaused(ctx context.Context, provider string) error {
	_, err := s.pool.Exec(ctx, `
		DELETE FROM circuits WHERE provider = $1 AND (paused_by IS NULL OR open_until <= clock_timestamp())`, provider)
	return translate("close the circuit", err)
}

// PauseProvider opens the circuit for that time, whatever it is now. It fails with
// [onejob.ErrInvalidRequest] as [onejob.CheckSaid] does.
func (s *Store) PauseProvider(ctx context.Context, provider string, pause time.Duration, by, reason string) error {
	if err := onejob.CheckSaid(by, reason); err != nil {
		return err
	}
	_, err := s.pool.Exec(ctx, `
		INSERT INTO circuits (provider, open_until, reason, paused_by)
		VALUES ($1, clock_timestamp() + $2::bigint * interval '1 millisecond', $3, $4)
		ON CONFLICT (provider) DO UPDATE SET open_until = excluded.open_until, opened_at = excluded.opened_at,
			reason = excluded.reason, paused_by = excluded.paused_by, try_until = NULL, times = 1`, provider, milliseconds(pause), reason, by)
	return translate("pause the provider", err)
}

// ResumeProvider closes the circuit. It fails with [onejob.ErrNothingToResolve] if it is
// closed.
func (s *Store) ResumeProvider(ctx context.Context, provider string) error {
	tag, err := s.pool.Exec(ctx, `DELETE FROM circuits WHERE provider = $1`, provider)
	if err == nil && tag.RowsAffected() == 0 {
		return onejob.Errorf(onejob.CodeNothingToResolve, "provider %q is called as ever: there is nothing to resume", provider)
	}
	return translate("resume the provider", err)
}

// ProviderLoad is what a provider has under way.
type ProviderLoad struct {
	Provider string
	Underway int // attempts that started and have no outcome, the unknown ones among them
	Unknown  int
}

// ProviderLoads returns the providers that have attempts under way, by name.
func (s *Store) ProviderLoads(ctx context.Context) ([]ProviderLoad, error) {
	rows, err := s.pool.Query(ctx, `
		SELECT provider, count(*), count(*) FILTER (WHERE state = 'unknown') FROM attempts
		WHERE state IN ('starting', 'running', 'unknown') GROUP BY provider ORDER BY provider`)
	if err != nil {
		return nil, translate("count the attempts under way", err)
	}
	loads, err := pgx.CollectRows(rows, pgx.RowToStructByPos[ProviderLoad])
	return loads, translate("count the attempts under way", err)
}
