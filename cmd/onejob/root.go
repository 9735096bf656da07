package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// execute runs the command line. An error that came up before the command itself ran is
// about its use.
func execute(ctx context.Context, args []string) error {
	ran := false
	root := newRoot()
	noteRuns(root, &ran)
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !ran {
		return usagef("%w: see '%s --help'", err, cmd.CommandPath())
	}
	return err
}

// noteRuns makes each command below cmd note that it ran.
func noteRuns(cmd *cobra.Command, ran *bool) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			*ran = true
			return run(cmd, args)
		}
	}
	for _, child := range cmd.Commands() {
		noteRuns(child, ran)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:               "onejob",
		Short:             "One job per intention, run on Temporal, kept in Postgres",
		Long:              rootHelp,
		SilenceErrors:     true,
		SilenceUsage:      true,
		CompletionOptions: cobra.CompletionOptions{HiddenDefaultCmd: true},
	}
	setUpLog(root)
	root.AddCommand(
		newStart(), newJob(), newAttempt(), newProvider(), newContract(), newConsumer(), newDeadLetter(), newWebhook(),
		newPrice(), newTopup(), newCredit(), newBalance(), newLedger(), newBudget(), newReferral(), newUsage(), newAudit(),
		newToken(), newWorker(), newServe(), newSimulator(), newMigrate(), newHealth(), newVersion(), newDev(), newDemo(),
	)
	return root
}

const rootHelp = `Onejob makes every intention exactly one job, however often it is submitted.

Environment:
  DATABASE_URL        the Postgres database
  TEMPORAL_ADDRESS    Temporal, and its other variables and profiles
  ONEJOB_CONFIG       the configuration (default onejob.yaml)
  ONEJOB_TASK_QUEUE   Temporal's task queue (default onejob)

Exit codes:
  0 done   1 failed for another reason   2 usage   3 the key belongs to another intent
  4 not found   5 the job failed or was cancelled   6 refused by the state of the job
  7 the owner's budget does not allow it   8 a server cannot be reached`

// setUpLog adds the flags of the log, and makes it the process's when a command runs.
func setUpLog(root *cobra.Command) {
	format := oneOf("text", "json")
	level := slog.LevelInfo
	flags := root.PersistentFlags()
	flags.Var(format, "log-format", "of the log on standard error: text or json")
	flags.TextVar(&level, "log-level", level, "least level of the log: debug, info, warn or error")
	root.PersistentPreRun = func(*cobra.Command, []string) {
		slog.SetDefault(newLogger(format.value, level))
	}
}

func newLogger(format string, level slog.Level) *slog.Logger {
	options := &slog.HandlerOptions{Level: level}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(os.Stderr, options))
	}
	return slog.New(slog.NewTextHandler(os.Stderr, options))
}

// newGroup returns a noun whose verbs are the commands.
func newGroup(noun, short string, verbs ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{
		Use:   noun,
		Short: short,
		Args:  cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("%s has no command %q: see '%s --help'", noun, args[0], cmd.CommandPath())
			}
			return usagef("%s needs a command: see '%s --help'", noun, cmd.CommandPath())
		},
	}
	group.AddCommand(verbs...)
	return group
}

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	words []string
}

// oneOf returns a choice of the words; the first is the default.
func oneOf(words ...string) *choice { return &choice{value: words[0], words: words} }

func (c *choice) String() string { return c.value }

func (c *choice) Type() string { return strings.Join(c.words, "|") }

func (c *choice) Set(word string) error {
	if !slices.Contains(c.words, word) {
		return fmt.Errorf("use one of %s", strings.Join(c.words, ", "))
	}
	c.value = word
	return nil
}
