package dev

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// installedPatterns are the folders where systems keep server binaries outside PATH.
var installedPatterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/opt/homebrew/opt/postgresql*/bin",
	"/usr/local/opt/postgresql*/bin",
	"/usr/pgsql-*/bin",
}

// postgresBinaries is the folder of initdb and postgres: of an installed Postgres, else
// of a downloaded one. version is the major version that existing data needs; empty: any.
func postgresBinaries(ctx context.Context, a account, version string, progress *progress) (string, error) {
	for _, folder := range installedFolders(ctx) {
		if !a.canReach(folder) {
			continue
		}
		if found, err := serverVersion(ctx, folder); err == nil && (version == "" || found == version) {
			return folder, nil
		}
	}
	return downloadedBinaries(ctx, a, version, progress)
}

// installedFolders are the folders which hold both binaries, the preferred one first.
func installedFolders(ctx context.Context) []string {
	var folders []string
	if path, err := exec.LookPath("postgres"); err == nil {
		folders = append(folders, filepath.Dir(realPath(path)))
	}
	if output, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output(); err == nil {
		folders = append(folders, strings.TrimSpace(string(output)))
	}
	for _, pattern := range installedPatterns {
		found, _ := filepath.Glob(pattern)
		slices.SortFunc(found, newestFirst)
		folders = append(folders, found...)
	}
	return slices.DeleteFunc(folders, func(folder string) bool {
		return !isExecutable(filepath.Join(folder, "postgres")) || !isExecutable(filepath.Join(folder, "initdb"))
	})
}

var digits = regexp.MustCompile(`\d+`)

// newestFirst orders folders by the version number in their path: 17 before 9.6.
func newestFirst(a, b string) int {
	return pathVersion(b) - pathVersion(a)
}

func pathVersion(path string) int {
	version, _ := strconv.Atoi(digits.FindString(path))
	return version
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// serverVersion is the major version of the server in the folder, as PG_VERSION has it.
func serverVersion(ctx context.Context, folder string) (string, error) {
	output, err := exec.CommandContext(ctx, filepath.Join(folder, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w", filepath.Join(folder, "postgres"), err)
	}
	major := digits.FindString(string(output))
	if major == "" {
		return "", fmt.Errorf("%s says no version: %q", folder, output)
	}
	return major, nil
}
