package postgres

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/onejob/onejob"
)

const insertJob = `
	INSERT INTO jobs (id, owner_id, idempotency_key, workflow_id, kind, provider, fallbacks, hedge_after_ms, callback_url,
	                  input, fingerprint, fingerprint_version, timeout_ms, listen_for_ms, max_attempts, labels)
	VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
	ON CONFLICT DO NOTHING`

func insertJobArgs(j onejob.Job) ([]any, error) {
	labels, err := json.Marshal(j.Labels)
	if j.Labels == nil {
		labels = []byte("{}")
	}
	return []any{
		j.ID, j.Owner, j.Key, j.WorkflowID, j.Kind, j.Provider, j.Fallbacks,
		nullable(milliseconds(j.HedgeAfter)), nullable(j.CallbackURL),
		string(j.Input), j.Fingerprint, j.FingerprintVersion,
		milliseconds(j.Timeout), milliseconds(j.ListenFor), j.MaxAttempts, string(labels),
	}, err
}

// Registered is what became of a job that was to be inserted.
type Registered struct {
	Job     onejob.Job // the row under the key, without payloads
	Created bool       // by this call, or by an earlier try of it
	Err     error      // [onejob.ErrConflict]: the row is another intent's; otherwise the job was refused: see [Store.InsertJobs]
}

// InsertJobs inserts the jobs unless their keys are taken, and reserves what they may come
// to where their owner has a budget, all in one transaction and one round trip, and returns
// for each the row that its key has now. The insert is the check; the row is read, in a round
// trip of its own, only where it did not take.
//
// A new job that does not fit into its owner's budget is refused, with
// [onejob.ErrBudgetExceeded], or with [onejob.ErrInvalidRequest] if the two are in different
// currencies. Nothing is stored of it, and it does not stop the others.
func (s *Store) InsertJobs(ctx context.Context, jobs ...onejob.Job) ([]Registered, error) {
	inserted, refused, err := s.insertThoseThatFit(ctx, jobs)
	if err != nil {
		return nil, err
	}
	registered := make([]Registered, len(jobs))
	for i, job := range jobs {
		if refused[job.ID] != nil {
			registered[i].Err = refused[job.ID]
			continue
		}
		if inserted[job.ID] {
			registered[i] = Registered{Job: job, Created: true}
			continue
		}
		if registered[i], err = s.registeredBefore(ctx, job); err != nil {
			return nil, err
		}
	}
	return registered, nil
}

// mostInserts bounds how often a transaction is made that Postgres rolled back.
const mostInserts = 3

// insertThoseThatFit inserts the jobs, again without those that are refused until none is:
// the transaction is all or nothing, and the row of a job cannot be taken back by itself.
func (s *Store) insertThoseThatFit(ctx context.Context, jobs []onejob.Job) (inserted map[string]bool, refused refusals, err error) {
	refused = refusals{}
	for again := 0; ; {
		rest := slices.DeleteFunc(slices.Clone(jobs), func(j onejob.Job) bool { return refused[j.ID] != nil })
		inserted, err = s.insertIfAbsent(ctx, rest)
		if again++; rolledBack(err) && again < mostInserts {
			continue // a limit was set meanwhile, for instance: it is seen now
		}
		more := refusalsIn(err)
		if len(more) == 0 {
			return inserted, refused, translate("insert the job", err)
		}
		maps.Copy(refused, more)
	}
}

// insertIfAbsent inserts in the order of the keys, not of the jobs: two calls with the
// same keys wait for each other in one direction only. Budgets are touched after all keys,
// as in every transaction that ends a job.
func (s *Store) insertIfAbsent(ctx context.Context, jobs []onejob.Job) (map[string]bool, error) {
	inserted := map[string]bool{}
	if len(jobs) == 0 {
		return inserted, nil
	}
	order := byKey(jobs)
	batch := &pgx.Batch{}
	for _, i := range order {
		args, err := insertJobArgs(jobs[i])
		if err != nil {
			return nil, err
		}
		batch.Queue(insertJob, args...)
	}
	if err := queueReserve(batch, jobs); err != nil {
		return nil, err
	}
	results := s.pool.SendBatch(ctx, batch)
	for _, i := range order {
		tag, err := results.Exec()
		if err != nil {
			_ = results.Close() // it says the same again
			return nil, err
		}
		inserted[jobs[i].ID] = tag.RowsAffected() == 1
	}
	return inserted, results.Close()
}

// byKey returns the places of the jobs in the order of owners and keys; jobs of one key
// stay in their order.
func byKey(jobs []onejob.Job) []int {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, k int) int {
		return cmp.Or(cmp.Compare(jobs[i].Owner, jobs[k].Owner), cmp.Compare(jobs[i].Key, jobs[k].Key))
	})
	return order
}

// registeredBefore compares the job with the row that its key has. An id that is the
// job's own means that an earlier try inserted it and its acknowledgement was lost.
func (s *Store) registeredBefore(ctx context.Context, job onejob.Job) (Registered, error) {
	there, err := s.JobByKey(ctx, job.Owner, job.Key)
	if errors.Is(err, onejob.ErrNotFound) {
		return Registered{}, onejob.Errorf(onejob.CodeInternal, "job %s was not inserted: its id or its workflow ID %q is another job's", job.ID, job.WorkflowID)
	}
	if err != nil {
		return Registered{}, err
	}
	r := Registered{Job: there, Created: there.ID == job.ID}
	if there.FingerprintVersion != job.FingerprintVersion {
		r.Err = onejob.Errorf(onejob.CodeInternal, "job %s has a fingerprint of version %d, this program writes %d: use the program that wrote it", there.ID, there.FingerprintVersion, job.FingerprintVersion)
		return r, nil
	}
	if string(there.Fingerprint) != string(job.Fingerprint) {
		r.Err = onejob.Errorf(onejob.CodeConflict, "key %q of owner %q belongs to job %s with another intent: use a new key for a new intention", job.Key, job.Owner, there.ID)
	}
	return r, nil
}

// JobOf returns the job that the request is already, whatever the configuration has
// become since: [onejob.ErrNotFound] if its key has none or another intent's. It is for
// requests that cannot be a new job; nothing may be inserted on its word.
func (s *Store) JobOf(ctx context.Context, r onejob.Request) (onejob.Job, error) {
	if err := onejob.CheckIdentity(r.Owner, r.Key); err != nil {
		return onejob.Job{}, err
	}
	fingerprint, err := onejob.Fingerprint(r.Intent(), onejob.Limits{}.OrDefault().Depth)
	if err != nil {
		return onejob.Job{}, err
	}
	job, err := s.JobByKey(ctx, r.Owner, r.Key)
	if err == nil && string(job.Fingerprint) != string(fingerprint[:]) {
		err = onejob.Errorf(onejob.CodeNotFound, "owner %q has no job of this intent under key %q", r.Owner, r.Key)
	}
	return job, err
}

// Without the input: nobody who asks for a job needs it back.
const jobColumns = `id::text, owner_id, idempotency_key, workflow_id, kind, provider, fallbacks, hedge_after_ms, callback_url,
	fingerprint, fingerprint_version, timeout_ms, listen_for_ms, max_attempts, labels,
	status, version, completed_by, error, requested_provider, created_at, finished_at`

// Job returns the job of that id, without payloads. It fails with [onejob.ErrNotFound].
func (s *Store) Job(ctx context.Context, id string) (onejob.Job, error) {
	job, err := s.queryJob(ctx, `SELECT `+jobColumns+` FROM jobs WHERE id = $1`, id)
	return job, orNotFound(err, "job %s does not exist: check the id", id)
}

// JobByKey returns the owner's job of that key, without payloads. It fails with
// [onejob.ErrNotFound].
func (s *Store) JobByKey(ctx context.Context, owner, key string) (onejob.Job, error) {
	job, err := s.queryJob(ctx, `SELECT `+jobColumns+` FROM jobs WHERE owner_id = $1 AND idempotency_key = $2`, owner, key)
	return job, orNotFound(err, "owner %q has no job under key %q: check both", owner, key)
}

func (s *Store) queryJob(ctx context.Context, sql string, args ...any) (onejob.Job, error) {
	rows, err := s.pool.Query(ctx, sql, args...)
	if err != nil {
		return onejob.Job{}, translate("read the job", err)
	}
	job, err := pgx.CollectExactlyOneRow(rows, scanJob)
	if errors.Is(err, pgx.ErrNoRows) {
		return onejob.Job{}, err
	}
	return job, translate("read the job", err)
}

func scanJob(row pgx.CollectableRow) (j onejob.Job, err error) {
	var hedgeMs *int64
	var timeoutMs, listenMs int64
	var callback, requested *string
	var completedBy *int
	var finished *time.Time
	err = row.Scan(&j.ID, &j.Owner, &j.Key, &j.WorkflowID, &j.Kind, &j.Provider, &j.Fallbacks, &hedgeMs, &callback,
		&j.Fingerprint, &j.FingerprintVersion, &timeoutMs, &listenMs, &j.MaxAttempts, &j.Labels,
		&j.Status, &j.Version, &completedBy, &j.Error, &requested, &j.CreatedAt, &finished)
	j.HedgeAfter = time.Duration(orZero(hedgeMs)) * time.Millisecond
	j.Timeout = time.Duration(timeoutMs) * time.Millisecond
	j.ListenFor = time.Duration(listenMs) * time.Millisecond
	j.CallbackURL, j.Requested, j.CompletedBy = orZero(callback), orZero(requested), orZero(completedBy)
	j.CreatedAt, j.FinishedAt = j.CreatedAt.UTC(), orZero(finished).UTC()
	return j, err
}

// JobWithAttempts returns the job of that id with its result, its attempts by number, all
// of one moment. It fails with [onejob.ErrNotFound].
func (s *Store) JobWithAttempts(ctx context.Context, id string) (job onejob.Job, attempts []onejob.Attempt, err error) {
	oneMoment := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, s.pool, oneMoment, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT `+jobColumns+` FROM jobs WHERE id = $1`, id)
		if err != nil {
			return err
		}
		if job, err = pgx.CollectExactlyOneRow(rows, scanJob); err != nil {
			return orNotFound(err, "job %s does not exist: check the id", id)
		}
		var result []byte
		if err := tx.QueryRow(ctx, `SELECT result FROM jobs WHERE id = $1`, id).Scan(&result); err != nil {
			return err
		}
		job.Result = result
		attemptRows, err := readAttempts(ctx, tx, id)
		for _, row := range attemptRows {
			attempts = append(attempts, row.Attempt)
		}
		return err
	})
	return job, attempts, translate("read the job", err)
}
