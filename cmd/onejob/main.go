// Onejob is the command line of onejob: `onejob --help` lists what it does.
//
// Each noun has a file: start.go and bulk.go submit jobs, job.go and attempt.go read them
// and decide about them, provider.go shows the configuration, migrate.go, worker.go,
// simulator.go, health.go and dev.go run the servers, demo.go tells the story of all
// that. Every command is a thin layer over a package of the module.
//
// Data goes to standard output, everything else to standard error. An error is one line
// there, and the exit code says of which kind it is: see exit.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/onejob/onejob/cmd/onejob/internal/demo"
)

func main() { os.Exit(run(os.Args[1:])) }

// run runs one command line and returns its exit code. The first interrupt ends the
// command in order, the second one at once.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	context.AfterFunc(ctx, stop)
	if os.Getenv(demo.OwnedVariable) != "" {
		ctx = untilOrphaned(ctx, os.Stdin)
	}
	return report(os.Stderr, execute(ctx, args))
}
