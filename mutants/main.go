// Mutants proves that tests guard what they say they guard: it puts known mistakes back
// into a copy of the tree, one at a time, and demands that the tests named for each turn red.
//
//	go run ./dev/withservers --headless -- go run ./mutants [-run REGEXP] [-share K/N] [-list] [-copies N]
//
// A mistake is a patch in mutants/patches, named for it, under a header of its own:
//
//	Mistake: what is wrong, in one sentence
//	Guard: ./postgres TestThatTurnsRed TestThatTurnsRedToo/in_this_case
//	Spares: ./postgres TestThatStaysGreen
//
// Every test of a Guard must fail and every test of a Spares must pass: a program that does
// not run at all, for a slip in its SQL for instance, guards nothing. A patch that no longer
// applies, or does not compile, fails the run as a mistake that no test sees does. Before
// the first mistake and after the last the tests are run without any: they must be green.
//
// It copies what git would take from the folder it is called in, and exits with 0 when every
// mistake was seen, 1 when one was not, 2 when it could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
)

const (
	exitNotSeen = 1
	exitCannot  = 2
)

// options are what the user may choose.
type options struct {
	run    *regexp.Regexp // of the names
	share  share
	list   bool
	copies int // of the tree, each with one mistake at a time
}

func main() {
	o, err := parse(os.Args[1:])
	if err != nil {
		os.Exit(exitCannot)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(exitCode(run(ctx, o, ".", os.Stdout)))
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "mutants:", err)
	if errors.Is(err, errNotSeen) {
		return exitNotSeen
	}
	return exitCannot
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("mutants", flag.ContinueOnError)
	pattern := flags.String("run", "", "only the mistakes whose names match the regexp")
	flags.TextVar(&o.share, "share", share{1, 1}, "only every Nth of these, from the Kth on: K/N")
	flags.BoolVar(&o.list, "list", false, "print the mistakes and their guards, and run nothing")
	flags.IntVar(&o.copies, "copies", 2, "copies of the tree, used at the same time: 1 or 2")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if o.run, err = regexp.Compile(*pattern); err == nil && (flags.NArg() > 0 || o.copies < 1 || o.copies > 2) {
		err = errors.New("takes no arguments, and 1 or 2 copies: see -help")
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	return o, err
}

// run runs the mistakes of the tree at root that were chosen. It fails with [errNotSeen].
func run(ctx context.Context, o options, root string, w io.Writer) error {
	mutants, err := readMutants(filepath.Join(root, "mutants", "patches"), o.run)
	if err != nil {
		return err
	}
	if mutants = o.share.of(mutants); len(mutants) == 0 {
		return fmt.Errorf("share %d/%d of them has none", o.share.k, o.share.n)
	}
	if o.list {
		for _, m := range mutants {
			fmt.Fprintln(w, m)
		}
		return nil
	}
	return hunt(ctx, root, o.copies, mutants, w)
}
