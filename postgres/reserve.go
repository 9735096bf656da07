package postgres

import (
	"encoding/json"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/onejob/onejob"
)

// queueReserve reserves, for those of the jobs that the batch inserted and whose owner has a
// budget, what they may come to: the charge of what is reckoned with at the dearest of the
// providers. It fails as a whole, and says by [refusals] which jobs may not be.
func queueReserve(batch *pgx.Batch, jobs []onejob.Job) error {
	var ids, providers, models, usages []string
	for _, job := range jobs {
		usage, err := json.Marshal(map[string]int64{"input_tokens": job.Reckoning.InputTokens, "output_tokens": job.Reckoning.OutputTokens})
		if err != nil {
			return err
		}
		for _, candidate := range job.Reckoning.Candidates {
			ids, providers = append(ids, job.ID), append(providers, candidate.Provider)
			models, usages = append(models, candidate.Model), append(usages, string(usage))
		}
	}
	batch.Queue(`SELECT onejob_reserve($1, $2, $3, $4)`, ids, providers, models, usages)
	return nil
}

// refusals are the reasons why jobs may not be inserted, by their ids.
type refusals map[string]error

// refusalsIn returns which jobs the error refuses; none: it is another error.
func refusalsIn(err error) refusals {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if !ok || pg.Code != stateOverBudget || pg.Detail == "" {
		return nil
	}
	var byID map[string]struct{ State, Message string }
	if json.Unmarshal([]byte(pg.Detail), &byID) != nil {
		return nil
	}
	refused := refusals{}
	for id, why := range byID {
		refused[id] = refusal(why.State, why.Message)
	}
	return refused
}

// refusal returns the error for what the budget guard said.
func refusal(state, message string) error {
	if state == stateOverBudget {
		return onejob.Errorf(onejob.CodeBudgetExceeded, "%s: wait for jobs to end, or raise the limit with 'onejob budget set'", message)
	}
	return onejob.Errorf(onejob.CodeInvalidRequest, "%s: name providers that are priced in the budget's currency", message)
}
