package worker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/onejob/onejob"
	"github.com/onejob/onejob/activities"
	"github.com/onejob/onejob/callbacks"
	"github.com/onejob/onejob/contract"
	"github.com/onejob/onejob/messages"
	"github.com/onejob/onejob/postgres"
	"github.com/onejob/onejob/provider"
	"github.com/onejob/onejob/webhooks"
	"github.com/onejob/onejob/workflows"
)

// Config is what a worker works with.
type Config struct {
	Store            *postgres.Store
	Temporal         client.Client
	Namespace        string // of the client
	Providers        *provider.Registry
	Kinds            map[string]onejob.Kind
	Contracts        map[string]*contract.Contract // of the kinds that have one, by kind
	Limits           onejob.Limits
	Prices           []onejob.Price      // stored before the first job, where they differ; see [postgres.Store.ImportPrices]
	CallbackURL      string              // base URL at which providers reach [Worker.Callbacks]; empty: they do not
	TaskQueue        string              // default [workflows.TaskQueue]
	HeartbeatTimeout time.Duration       // default 30 s; silence of a worker that makes its attempts unknown
	FirstLook        time.Duration       // default a minute; when a job that waits looks for news nobody told it of, at first
	Drain            time.Duration       // default 30 s; what calls in flight get when the worker stops
	Working          int                 // default 4000; attempts at once whose providers are not silent yet
	Listening        int                 // default 2000; attempts at once that listen to one silent provider, before it is not called
	CircuitFailures  int                 // default 20; calls in a row that were not served, after which a provider is not called for a while
	CircuitOpenFor   time.Duration       // default 30 s; that while, at first
	ReconcileEvery   time.Duration       // default 5 s; how often the reconciler looks
	RelaunchAfter    time.Duration       // default 1 min; how often an open job's workflow is looked for
	Consumers        []messages.Consumer // of messages, beside onejob's own
	KeepMessages     time.Duration       // default 90 days; how long messages are kept that every consumer has done
	WithoutMessages  bool                // other workers carry them
	Tokens           activities.Tokens   // of certifications; default: no model's tokens can be counted
	Webhooks         webhooks.Policy     // of what owners are told
	Metrics          *Metrics            // default: counted and not served
	Logger           *slog.Logger        // default [slog.Default]
}

// Option changes a worker.
type Option func(*Config)

// WithProvider adds a provider of the program's own; it replaces a configured one of the
// same name.
func WithProvider(p provider.Provider) Option {
	return func(c *Config) { c.Providers = c.Providers.With(p) }
}

// WithConsumer adds a consumer of messages.
func WithConsumer(consumer messages.Consumer) Option {
	return func(c *Config) { c.Consumers = append(slices.Clone(c.Consumers), consumer) }
}

// Worker runs jobs.
type Worker struct {
	config     Config
	temporal   worker.Worker
	limited    []worker.Worker // of the limited providers
	reconciler *reconciler
	slots      *attemptSlots
	circuits   *activities.Circuits
	runs       workflows.Runs
	fatal      chan error // what ends Run
}

// How many of each run at once in one process. An attempt that only listens costs a
// goroutine and a connection, so there is room for thousands beside those that work.
const (
	concurrentAttempts      = 4000
	listeningAttempts       = 2000 // on one provider
	concurrentLocal         = 200
	concurrentWorkflowTasks = 100
	pollers                 = 10 // of each kind; see docs/performance.md for what other numbers did
)

// New returns a worker. It does nothing before [Worker.Run].
func New(config Config, options ...Option) (*Worker, error) {
	config = config.orDefault()
	for _, option := range options {
		option(&config)
	}
	if config.Namespace == "" {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "no namespace is configured: give the one of the Temporal client")
	}
	if len(config.Providers.Names()) == 0 {
		return nil, onejob.Errorf(onejob.CodeMisconfigured, "no provider is configured: name one in onejob.yaml, or pass worker.WithProvider")
	}
	if err := config.checkContracts(); err != nil {
		return nil, err
	}
	if err := messages.Check(config.consumers()); err != nil {
		return nil, err
	}
	runs := workflows.Runs{Client: config.Temporal, TaskQueue: config.TaskQueue}
	w := &Worker{
		config: config, reconciler: newReconciler(config, runs), fatal: make(chan error, 1),
		slots: newAttemptSlots(config.Working, config.Listening), runs: runs,
	}
	w.circuits = activities.NewCircuits(activities.CircuitOptions{
		Store: config.Store, Failures: config.CircuitFailures, OpenFor: config.CircuitOpenFor, Logger: config.Logger,
	})
	w.reconciler.slots, w.reconciler.circuits = []*attemptSlots{w.slots}, w.circuits
	if err := w.makeWorkers(); err != nil {
		return nil, err
	}
	return w, nil
}

// checkContracts refuses a contract that is not its kind's.
func (c Config) checkContracts() error {
	for name, its := range c.Contracts {
		kind, ok := c.Kinds[name]
		if err := its.CheckKind(name, kind.SideEffects); err != nil {
			return onejob.Errorf(onejob.CodeMisconfigured, "contract %s: %w", its.File, err)
		}
		if !ok {
			return onejob.Errorf(onejob.CodeMisconfigured, "contract %s is of kind %q, which is not configured: add it to the kinds", its.File, name)
		}
	}
	return nil
}

func (c Config) orDefault() Config {
	c.TaskQueue = cmp.Or(c.TaskQueue, workflows.TaskQueue)
	c.HeartbeatTimeout = cmp.Or(c.HeartbeatTimeout, 30*time.Second)
	c.Drain = cmp.Or(c.Drain, 30*time.Second)
	c.Working = cmp.Or(c.Working, concurrentAttempts)
	c.Listening = cmp.Or(c.Listening, listeningAttempts)
	c.CircuitFailures = cmp.Or(c.CircuitFailures, 20)
	c.CircuitOpenFor = cmp.Or(c.CircuitOpenFor, 30*time.Second)
	c.ReconcileEvery = cmp.Or(c.ReconcileEvery, 5*time.Second)
	c.KeepMessages = cmp.Or(c.KeepMessages, keepMessages)
	c.RelaunchAfter = cmp.Or(c.RelaunchAfter, time.Minute)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	if c.Metrics == nil {
		c.Metrics = NewMetrics()
	}
	if c.Providers == nil {
		c.Providers = provider.NewRegistry()
	}
	return c
}

// temporalOptions are those of a worker whose activities take the slots.
func (c Config) temporalOptions(slots *attemptSlots) (worker.Options, error) {
	tuner, err := worker.NewFixedSizeTuner(worker.FixedSizeTunerOptions{
		NumWorkflowSlots: concurrentWorkflowTasks, NumLocalActivitySlots: concurrentLocal,
	})
	every := c.HeartbeatTimeout / 3
	return worker.Options{
		Tuner:                            attemptTuner{tuner, slots},
		MaxConcurrentActivityTaskPollers: pollers,
		MaxConcurrentWorkflowTaskPollers: pollers,
		MaxHeartbeatThrottleInterval:     every,
		DefaultHeartbeatThrottleInterval: every,
		WorkerStopTimeout:                c.Drain + recordingTime,
		DisableRegistrationAliasing:      true,
	}, err
}

// recordingTime is what writing the last outcomes gets after the drain.
const recordingTime = 10 * time.Second

// makeWorkers makes the workers of the task queues.
func (w *Worker) makeWorkers() error {
	options, err := w.config.temporalOptions(w.slots)
	if err != nil {
		return err
	}
	options.OnFatalError = w.giveUpTemporal
	w.temporal = worker.New(w.config.Temporal, w.config.TaskQueue, options)
	w.register()
	for _, p := range w.config.Providers.Limited() {
		limited, err := w.limitedWorker(p)
		if err != nil {
			return err
		}
		w.limited = append(w.limited, limited)
	}
	return nil
}

// register tells Temporal's worker what it runs.
func (w *Worker) register() {
	runs := &workflows.Workflows{HeartbeatTimeout: w.config.HeartbeatTimeout, FirstLook: w.config.FirstLook}
	w.temporal.RegisterWorkflowWithOptions(runs.Job, workflow.RegisterOptions{Name: workflows.JobType})
	w.temporal.RegisterWorkflowWithOptions(runs.UsageRebuild, workflow.RegisterOptions{Name: workflows.UsageRebuildType})
	w.temporal.RegisterWorkflowWithOptions(runs.Audit, workflow.RegisterOptions{Name: workflows.AuditType})
	w.temporal.RegisterWorkflowWithOptions(runs.Certification, workflow.RegisterOptions{Name: workflows.CertificationType})
	w.temporal.RegisterWorkflowWithOptions(runs.CertificationRenewal, workflow.RegisterOptions{Name: workflows.CertificationRenewalType})
	w.temporal.RegisterActivity(w.activities(w.slots))
}

// activities are those whose attempts take the slots.
func (w *Worker) activities(slots *attemptSlots) *activities.Activities {
	return activities.New(activities.Options{
		Store:     w.config.Store,
		Providers: w.config.Providers,
		Catalog:   w.Catalog(),
		Contracts: w.config.Contracts,
		Tell:      w.runs,
		Observer:  w.config.Metrics,
		Listening: slots,
		Circuits:  w.circuits,
		Logger:    w.config.Logger,
		Callbacks: w.config.CallbackURL,
		Drain:     w.config.Drain,
		Retention: w.config.KeepMessages,
		Tokens:    w.config.Tokens,
	})
}

// Catalog returns what requests may name at this worker.
func (w *Worker) Catalog() onejob.Catalog { return w.config.catalog() }

func (c Config) catalog() onejob.Catalog {
	kinds := maps.Clone(c.Kinds)
	for name, its := range c.Contracts {
		kind := kinds[name]
		kind.Contract = its.Known()
		kinds[name] = kind
	}
	return onejob.Catalog{Kinds: kinds, Providers: c.Providers.Defaults(), Limits: c.Limits}
}

// Callbacks returns the handler of the providers' callbacks, for a server that they reach
// at [Config.CallbackURL].
func (w *Worker) Callbacks() http.Handler {
	return callbacks.New(callbacks.Options{
		Store: w.config.Store, Providers: w.config.Providers, Limits: w.config.Limits, Judge: activities.JudgeOf(w.activities(w.slots).Options), Tell: w.runs,
		Observer: w.config.Metrics, Logger: w.config.Logger,
	})
}

// TaskQueue returns the task queue that the worker polls.
func (w *Worker) TaskQueue() string { return w.config.TaskQueue }

// Run works until ctx ends, then drains. It fails at once, with the remedy, if Postgres
// lacks the schema or Temporal the namespace or the search attributes; for a server
// that does not answer it waits up to a minute. An end by ctx is no error. A call is priced
// by what was stored when it started, so the configured prices are stored before the first.
func (w *Worker) Run(ctx context.Context) error {
	if err := w.awaitServers(ctx); ctx.Err() != nil {
		return nil // told to stop before it began
	} else if err != nil {
		return err
	}
	w.reconciler.readCircuits(ctx) // before the first call
	if err := w.start(); err != nil {
		return onejob.Errorf(onejob.CodeServerUnreachable, "the worker cannot start on temporal: %w", err)
	}
	w.ensureSchedules(ctx)
	w.config.Logger.Info("worker started", "task_queue", w.config.TaskQueue, "providers", w.config.Providers.Names())
	ctx, end := context.WithCancel(ctx)
	var beside sync.WaitGroup
	if !w.config.WithoutMessages {
		beside.Go(func() { w.carryMessages(ctx) })
	}
	err := w.reconcileUntil(ctx)
	end()
	w.config.Logger.Info("worker drains", "drain", w.config.Drain)
	w.stop()
	beside.Wait()
	return err
}

// reconcileUntil reconciles until ctx ends, or something without which the worker is of no
// use has given up.
func (w *Worker) reconcileUntil(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var watching sync.WaitGroup
	watching.Go(func() {
		select {
		case <-ctx.Done():
		case cause := <-w.fatal:
			err = cause
			cancel()
		}
	})
	w.reconciler.run(ctx)
	watching.Wait()
	return err
}

// giveUpTemporal takes an error after which Temporal's worker stops by itself.
func (w *Worker) giveUpTemporal(err error) {
	w.giveUp(onejob.Errorf(onejob.CodeServerUnreachable, "temporal's worker gave up: %w", err))
}

// giveUp takes the first error that ends Run.
func (w *Worker) giveUp(err error) {
	select {
	case w.fatal <- err:
	default: // one is enough to end Run
	}
}

const (
	serverPatience = time.Minute
	serverPause    = time.Second
)

// awaitServers returns nil when both servers have what the worker needs.
func (w *Worker) awaitServers(ctx context.Context) error {
	pause := time.NewTicker(serverPause)
	defer pause.Stop()
	for deadline := time.Now().Add(serverPatience); ; {
		err := w.checkServers(ctx)
		if err == nil {
			err = w.importPrices(ctx)
		}
		if !errors.Is(err, onejob.ErrServerUnreachable) || time.Now().After(deadline) {
			return err
		}
		w.config.Logger.Warn("a server does not answer; the worker waits for it", "error", err)
		select {
		case <-ctx.Done():
			return err
		case <-pause.C:
		}
	}
}

func (w *Worker) checkServers(ctx context.Context) error {
	if err := w.config.Store.Check(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reconcileTimeout)
	defer cancel()
	return workflows.CheckSearchAttributes(ctx, w.config.Temporal, w.config.Namespace)
}

func (w *Worker) importPrices(ctx context.Context) error {
	stored, err := w.config.Store.ImportPrices(ctx, "worker", w.config.Prices)
	if len(stored) > 0 {
		w.config.Logger.Info("stored prices", "new", len(stored), "configured", len(w.config.Prices))
	}
	return err
}
