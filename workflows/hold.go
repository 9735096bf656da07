package workflows

import (
	"cmp"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob/activities"
)

// hold waits while nobody is left who has a certificate, until one of those that were skipped
// has one, or somebody decides. That there is one is asked now and then: whoever gives
// certificates knows nothing of jobs.
func (j *jobRun) hold(ctx workflow.Context) error {
	if j.shouldContinueAsNew(ctx) {
		return workflow.NewContinueAsNewError(ctx, JobType, j.adopting())
	}
	skipped := j.plan.Skipped(j.progress)
	workflow.SetCurrentDetails(ctx, j.holdDetails(skipped))
	news, err := workflow.AwaitWithTimeout(ctx, j.untilNextLook(), j.hasNews)
	if err := cmp.Or(err, j.broken); err != nil || news {
		j.looks = 0
		return err
	}
	j.looks++
	var a *activities.Activities
	certified, err := durable[string](ctx, "look for a certificate", a.Certified, activities.CertifiedInput{Kind: j.ref.Kind, Providers: skipped})
	if certified != "" {
		j.looks = 0
	}
	j.progress.Certified = certified
	return err
}

func (j *jobRun) holdDetails(skipped []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**The job waits for a certificate**: the fallbacks %s have none for the contract of kind %s, and the kind says `uncertified: wait`.\n\n",
		strings.Join(skipped, ", "), j.ref.Kind)
	fmt.Fprintf(&b, "- get one: `onejob contract verify FILE --provider %s`; the run looks for it at most an hour later, `onejob job attempt %s --provider %[1]s` makes it look now\n", skipped[0], j.ref.JobID)
	fmt.Fprintf(&b, "- try without: `onejob job attempt %s --provider %s --uncertified`\n- give the job up: `onejob job cancel %[1]s`\n", j.ref.JobID, skipped[0])
	return b.String()
}
