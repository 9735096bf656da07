package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/onejob/onejob"
)

// requireFlags returns an error that names those of the flags which were not given.
func requireFlags(cmd *cobra.Command, names ...string) error {
	var missing []string
	for _, name := range names {
		if !cmd.Flags().Changed(name) {
			missing = append(missing, "--"+name)
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return usagef("%s is missing: see '%s --help'", strings.Join(missing, ", "), cmd.CommandPath())
}

// readArgument returns what an argument of the form JSON, @FILE or - (standard input)
// stands for, read no further than a little past most bytes. Name is the flag.
func readArgument(name, argument string, stdin io.Reader, most int) ([]byte, error) {
	switch {
	case argument == "":
		return nil, nil
	case argument == "-":
		return readBounded(name, "standard input", stdin, most)
	case !strings.HasPrefix(argument, "@"):
		return []byte(argument), nil
	}
	path := argument[1:]
	file, err := os.Open(path)
	if err != nil {
		return nil, usagef("--%s cannot be read: %w", name, err)
	}
	defer file.Close()
	return readBounded(name, path, file, most)
}

func readBounded(name, from string, r io.Reader, most int) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, usagef("--%s cannot be read from %s: %w", name, from, err)
	}
	if len(text) > most {
		return nil, onejob.Errorf(onejob.CodeInvalidRequest, "%s of %s has more than %d bytes: the limit is %d", name, from, most, most)
	}
	return text, nil
}

// jobFlags name a job by id or by owner and key.
type jobFlags struct{ owner, key string }

func (f *jobFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.owner, "owner", "", "owner of the job, with --key")
	cmd.Flags().StringVar(&f.key, "key", "", "idempotency key of the job, with --owner")
}

// check returns the id, "" where owner and key name the job.
func (f *jobFlags) check(cmd *cobra.Command, args []string) (jobID string, err error) {
	byKey := cmd.Flags().Changed("owner") || cmd.Flags().Changed("key")
	switch {
	case len(args) == 1 && !byKey:
		return args[0], nil
	case len(args) == 0 && f.owner != "" && f.key != "":
		return "", nil
	}
	return "", usagef("name the job by its id, or by --owner and --key: see '%s --help'", cmd.CommandPath())
}

// decisionFlags say who decides and why.
type decisionFlags struct{ by, reason string }

func (f *decisionFlags) add(cmd *cobra.Command) {
	f.addBy(cmd)
	cmd.Flags().StringVar(&f.reason, "reason", "", "why; recorded")
}

// addBy adds who decides, for what needs no reason.
func (f *decisionFlags) addBy(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.by, "by", whoever(), "who decides; recorded")
}

// whoever is who runs this process, as far as it can be told.
func whoever() string {
	if user := os.Getenv("USER"); user != "" {
		return user
	}
	host, err := os.Hostname()
	if err != nil {
		host = ""
	}
	return fmt.Sprintf("uid %d@%s", os.Getuid(), cmp.Or(host, "localhost"))
}

var errNoReason = errors.New("--reason is missing: say why, it is recorded")
