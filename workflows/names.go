package workflows

import "go.temporal.io/sdk/temporal"

// The names under which Temporal knows a job. Programs outside this module rely on them.
const (
	TaskQueue = "onejob"
	JobType   = "Job"

	UsageRebuildType  = "UsageRebuild"
	AuditType         = "Audit"
	CertificationType = "Certification"

	CertificationRenewalType = "CertificationRenewal"

	SignalCancelAttempt  = "cancel-attempt"
	SignalCancelJob      = "cancel-job"
	SignalAttemptChanged = "attempt-changed" // somebody recorded something: read the rows

	UpdateSubmit         = "submit"
	UpdateStartAttempt   = "start-attempt"
	UpdateCancelAttempt  = "cancel-attempt"
	UpdateResolveAttempt = "resolve-attempt"

	QueryJob           = "job"
	QueryCertification = "certification"
)

// ProviderQueue returns the task queue in which the attempts on a limited provider wait, of
// the jobs of a task queue.
func ProviderQueue(taskQueue, provider string) string { return taskQueue + "/" + provider }

// The search attributes. Status is set at the start and changes only for a job that
// leaves the straight path: "unknown" lists the stuck ones. A job that went straight to
// its result closes as "running"; ask for ExecutionStatus beside it.
var (
	AttributeOwner    = temporal.NewSearchAttributeKeyKeyword("OnejobOwner")
	AttributeKind     = temporal.NewSearchAttributeKeyKeyword("OnejobKind")
	AttributeProvider = temporal.NewSearchAttributeKeyKeyword("OnejobProvider")
	AttributeStatus   = temporal.NewSearchAttributeKeyKeyword("OnejobStatus")
)

// SearchAttributes lists the names of the search attributes, all of type Keyword.
func SearchAttributes() []string {
	return []string{AttributeOwner.GetName(), AttributeKind.GetName(), AttributeProvider.GetName(), AttributeStatus.GetName()}
}
