package e2e

import (
	"context"
	"errors"
	"fmt"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"

	"github.com/onejob/onejob"
)

func lazyClient(address string) (client.Client, error) {
	return client.NewLazyClient(client.Options{HostPort: address, Logger: log.NewStructuredLogger(quiet)})
}

// count runs a SQL query that returns one number.
func (s *system) count(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.conn().QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// jobIDs lists the ids of all jobs.
func (s *system) jobIDs() (ids []string) {
	s.t.Helper()
	rows, err := s.conn().Query(s.t.Context(), `SELECT id::text FROM jobs ORDER BY id`)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			s.t.Fatal(err)
		}
		ids = append(ids, id)
	}
	if err := rows.Err(); err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// wantOneRunAndRow checks that the job is one row, ran as one workflow run, and was
// executed by the provider as often as given.
func (s *system) wantOneRunAndRow(job onejob.View, executions int) {
	s.t.Helper()
	if n := s.count(`SELECT count(*) FROM jobs WHERE owner_id = $1 AND idempotency_key = $2`, job.Owner, job.Key); n != 1 {
		s.t.Errorf("%d rows under the key", n)
	}
	if runs := s.runs(job.WorkflowID); len(runs) != 1 {
		s.t.Errorf("the workflow ran %d times: %v", len(runs), runs)
	}
	if n := s.executions(job.JobID); n != executions {
		s.t.Errorf("the provider executed the job %d times, want %d", n, executions)
	}
}

// runs lists the run ids of the workflow, as far as Temporal's visibility has them.
func (s *system) runs(workflowID string) (runs []string) {
	s.t.Helper()
	s.eventually("the workflow is visible", func() bool {
		list, err := s.temporal.ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: fmt.Sprintf("WorkflowId = '%s'", workflowID)})
		if err != nil {
			s.t.Fatal(err)
		}
		runs = nil
		for _, e := range list.Executions {
			runs = append(runs, e.Execution.RunId)
		}
		return len(runs) > 0
	})
	return runs
}

// history returns the events of the workflow's latest run.
func (s *system) history(workflowID string) *historypb.History {
	s.t.Helper()
	events := &historypb.History{}
	for it := s.temporal.GetWorkflowHistory(s.t.Context(), workflowID, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		event, err := it.Next()
		if err != nil {
			s.t.Fatal(err)
		}
		events.Events = append(events.Events, event)
	}
	return events
}

// forget deletes the workflow from Temporal and waits until it is gone.
func (s *system) forget(workflowID string) {
	s.t.Helper()
	s.awaitRunClosed(workflowID)
	if _, err := s.temporal.WorkflowService().DeleteWorkflowExecution(s.t.Context(), &workflowservice.DeleteWorkflowExecutionRequest{
		Namespace: client.DefaultNamespace, WorkflowExecution: &commonpb.WorkflowExecution{WorkflowId: workflowID},
	}); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("Temporal has forgotten the workflow", func() bool {
		_, err := s.temporal.DescribeWorkflow(s.t.Context(), workflowID, "")
		_, gone := err.(*serviceerror.NotFound)
		return gone
	})
}

// awaitRunClosed waits until the workflow's latest run is closed.
func (s *system) awaitRunClosed(workflowID string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	err := s.temporal.GetWorkflow(ctx, workflowID, "").Get(ctx, nil)
	if _, failed := errors.AsType[*temporal.WorkflowExecutionError](err); err != nil && !failed { // a failed run is closed too
		s.t.Fatalf("workflow %s did not close: %v", workflowID, err)
	}
}

// query asks the workflow for its job.
func (s *system) query(workflowID string) (view onejob.View) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	answer, err := s.temporal.QueryWorkflow(ctx, workflowID, "", "job")
	if err != nil {
		s.t.Fatalf("query: %v", err)
	}
	if err := answer.Get(&view); err != nil {
		s.t.Fatal(err)
	}
	return view
}

// stuck lists the workflows of the system's owner that OnejobStatus shows as unknown.
func (s *system) stuck() (ids []string) {
	s.t.Helper()
	list, err := s.temporal.ListWorkflow(s.t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("OnejobStatus = 'unknown' AND OnejobOwner = '%s'", s.owner)})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range list.Executions {
		ids = append(ids, e.Execution.WorkflowId)
	}
	return ids
}
