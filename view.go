package onejob

import "time"

// View is a job as people and programs see it, without the payloads.
type View struct {
	JobID       string            `json:"job_id"`
	WorkflowID  string            `json:"workflow_id"`
	Status      Status            `json:"status"`
	Owner       string            `json:"owner"`
	Key         string            `json:"key"`
	Kind        string            `json:"kind"`
	Provider    string            `json:"provider"`
	Fallbacks   []string          `json:"fallbacks"`
	Version     int               `json:"version"`
	CompletedBy int               `json:"completed_by"` // number of the winning attempt, 0: none
	Error       *JobError         `json:"error"`
	Attempts    []Attempt         `json:"attempts,omitzero"` // nil, and left out, in lists
	Labels      map[string]string `json:"labels,omitempty"`
	CreatedAt   time.Time         `json:"created_at,omitzero"`
	FinishedAt  time.Time         `json:"finished_at,omitzero"`
}

// View returns the job's view with its attempts; nil: they are left out.
func (j *Job) View(attempts []Attempt) View {
	return View{
		JobID: j.ID, WorkflowID: j.WorkflowID, Status: j.Status, Owner: j.Owner, Key: j.Key, Kind: j.Kind,
		Provider: j.Provider, Fallbacks: append([]string{}, j.Fallbacks...), Version: j.Version, CompletedBy: j.CompletedBy,
		Error: j.Error, Attempts: attempts, Labels: j.Labels,
		CreatedAt: j.CreatedAt, FinishedAt: j.FinishedAt,
	}
}
