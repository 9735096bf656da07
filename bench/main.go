// Bench measures what a job costs, beside two floors in the same run: the SQL statements
// of a happy job without Temporal, and a bare Temporal workflow with two activities that
// do nothing, on the same workers' settings.
//
//	go run ./bench [-jobs N] [-rounds N] [-latency D] [-rate R] [-eager] [-o table|json]
//	go run ./bench -messages [-rounds N] [-backlog N] [-o table|json]
//	go run ./bench -door [-jobs N] [-rounds N] [-rate R] [-kill D] [-o table|json]
//
// With -messages it measures consumers of messages instead, beside their statements run
// bare, and needs no Temporal. With -door it measures two instances of `onejob serve`, beside
// an HTTP handler that does one INSERT, then kills one of them under load, and fails when an
// accepted job was lost or the audit finds anything.
//
// It starts a Postgres that survives a crash (fsync on) and a Temporal server on it, or
// uses those that DATABASE_URL and TEMPORAL_ADDRESS name. The server is built once from
// the module tools/server, which takes minutes. Worker, load generator and provider are
// processes of their own, so that the CPU of each can be told.
//
// Figures compare within one run only. Whatever they are, it exits with 0 and marks the
// targets that were missed; with 1 when it could not measure.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// options are what the user may choose.
type options struct {
	jobs    int           // of each run at saturation
	rounds  int           // of all the runs
	latency time.Duration // of the provider
	rate    float64       // jobs a second at half load; 0: half of onejob's throughput
	eager   bool          // Temporal's server may start activities without a poll

	messages bool // measure messages instead of jobs
	backlog  int  // of messages

	door bool          // measure the HTTP door instead of jobs
	kill time.Duration // of the load in which an instance is killed; 0: none is

	output string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == roleFlag {
		os.Exit(exitCode(playRole(os.Args[2])))
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(exitCode(run(ctx, o, os.Stdout)))
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.jobs, "jobs", 300, "jobs of each run at saturation")
	flags.IntVar(&o.rounds, "rounds", 3, "interleaved rounds")
	flags.DurationVar(&o.latency, "latency", 0, "latency of the provider")
	flags.Float64Var(&o.rate, "rate", 0, "jobs a second at half load (default half of onejob's throughput)")
	flags.BoolVar(&o.eager, "eager", false, "let Temporal's server start activities without a poll (it is off by default)")
	flags.BoolVar(&o.messages, "messages", false, "measure consumers of messages instead of jobs")
	flags.IntVar(&o.backlog, "backlog", 1_000_000, "with -messages: messages that two runners drain")
	flags.BoolVar(&o.door, "door", false, "measure the HTTP door instead of jobs")
	flags.DurationVar(&o.kill, "kill", 15*time.Second, "with -door: how long the load lasts in which an instance is killed; 0: none is")
	flags.StringVar(&o.output, "o", "table", "table or json")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	var err error
	switch {
	case flags.NArg() > 0:
		err = fmt.Errorf("%q is not a flag: see -help", flags.Arg(0))
	case o.jobs < 1 || o.rounds < 1 || o.backlog < 1 || o.rate < 0 || o.latency < 0 || o.kill < 0:
		err = errors.New("-jobs, -rounds and -backlog are at least 1, -rate, -latency and -kill are not negative")
	case o.door && o.messages:
		err = errors.New("-door and -messages are two benchmarks: choose one")
	case o.output != "table" && o.output != "json":
		err = fmt.Errorf("-o %s is unknown: use table or json", o.output)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	return o, err
}

// run measures everything and writes the report.
func run(ctx context.Context, o options, w io.Writer) (err error) {
	if o.messages {
		return runMessages(ctx, o, w)
	}
	if o.door {
		return runDoors(ctx, o, w)
	}
	where, err := openSite(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, where.close()) }()
	report, err := where.measure(ctx, o)
	if err != nil {
		return err
	}
	if o.output == "json" {
		return writeIndented(w, report)
	}
	return report.print(w)
}

func writeIndented(w io.Writer, report any) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	return encoder.Encode(report)
}

func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...)
}
