package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// tree is a scratch copy of the tree, a git repository of its own that knows only what was
// copied.
type tree struct{ folder string }

// copyTree copies what git would take from root, with what is not committed yet.
func copyTree(ctx context.Context, root, folder string) (tree, error) {
	t := tree{folder}
	listed, err := git(ctx, root, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
	if err != nil {
		return t, err
	}
	for name := range strings.SplitSeq(strings.TrimRight(listed, "\x00"), "\x00") {
		if err := copyFile(filepath.Join(root, name), filepath.Join(folder, name)); err != nil {
			return t, err
		}
	}
	if _, err := git(ctx, folder, "init", "--quiet"); err != nil {
		return t, err
	}
	_, err = git(ctx, folder, "add", "--all", "--force")
	return t, err
}

// copyFile copies a file unless it is gone: one that was deleted and not committed.
func copyFile(from, to string) error {
	info, err := os.Stat(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, text, info.Mode().Perm())
}

// apply puts the mistake in.
func (t tree) apply(ctx context.Context, patch string) error {
	_, err := git(ctx, t.folder, "apply", patch)
	return err
}

// restore takes everything back that was changed since the copy, by a mistake or by tests.
func (t tree) restore(ctx context.Context) error {
	if _, err := git(ctx, t.folder, "checkout", "--quiet", "--", "."); err != nil {
		return err
	}
	_, err := git(ctx, t.folder, "clean", "-dffxq")
	return err
}

// git runs git in the folder, on that repository and by no settings but its own.
func git(ctx context.Context, folder string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = folder
	cmd.Env = append(environWithoutGit(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, strings.TrimSpace(said.String()))
	}
	return out.String(), nil
}

// environWithoutGit leaves out what a hook of git says of its own repository.
func environWithoutGit() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "GIT_") {
			kept = append(kept, variable)
		}
	}
	return kept
}
