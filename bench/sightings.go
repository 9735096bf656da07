package main

import (
	"context"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// resultActivities are those after whose return a job's result is committed.
var resultActivities = map[string]bool{"CompleteJob": true, bareSecond: true}

// sighting is when a job was seen to be over, in nanoseconds of the machine's clock.
type sighting struct {
	Result int64 `json:"result"` // its last activity returned: the result is committed
	Closed int64 `json:"closed"` // its workflow returned
}

// sightings notes, inside a worker, when each workflow had its result and when it ended.
type sightings struct {
	interceptor.InterceptorBase
	mu     sync.Mutex
	byID   map[string]sighting
	closed int
	want   int
	enough chan struct{}
}

func newSightings() *sightings { return &sightings{byID: map[string]sighting{}} }

// closedCount returns a channel that is closed once n workflows have ended since the start.
func (s *sightings) closedCount(n int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want, s.enough = n, make(chan struct{})
	s.checkEnough()
	return s.enough
}

func (s *sightings) checkEnough() {
	if s.want > 0 && s.closed >= s.want {
		s.want = 0
		close(s.enough)
	}
}

func (s *sightings) all() map[string]sighting {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.byID
}

func (s *sightings) note(id string, change func(*sighting)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen := s.byID[id]
	change(&seen)
	s.byID[id] = seen
}

func (s *sightings) sawResult(id string) {
	s.note(id, func(seen *sighting) { seen.Result = time.Now().UnixNano() })
}

func (s *sightings) sawClosed(id string) {
	s.note(id, func(seen *sighting) {
		if seen.Closed == 0 {
			seen.Closed = time.Now().UnixNano()
			s.closed++
			s.checkEnough()
		}
	})
}

// InterceptActivity implements [interceptor.WorkerInterceptor].
func (s *sightings) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &activitySighting{interceptor.ActivityInboundInterceptorBase{Next: next}, s}
}

// InterceptWorkflow implements [interceptor.WorkerInterceptor].
func (s *sightings) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &workflowSighting{interceptor.WorkflowInboundInterceptorBase{Next: next}, s}
}

type activitySighting struct {
	interceptor.ActivityInboundInterceptorBase
	seen *sightings
}

func (a *activitySighting) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	result, err := a.Next.ExecuteActivity(ctx, in)
	if info := activity.GetInfo(ctx); err == nil && resultActivities[info.ActivityType.Name] {
		a.seen.sawResult(info.WorkflowExecution.ID)
	}
	return result, err
}

type workflowSighting struct {
	interceptor.WorkflowInboundInterceptorBase
	seen *sightings
}

func (w *workflowSighting) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	result, err := w.Next.ExecuteWorkflow(ctx, in)
	if err == nil {
		w.seen.sawClosed(workflow.GetInfo(ctx).WorkflowExecution.ID)
	}
	return result, err
}
