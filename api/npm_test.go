package api_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

//go:embed testdata/npm/ask.mjs
var askScript string

// npmAsk is what the script asks.
type npmAsk struct {
	Vendor  string `json:"vendor"`
	Address string `json:"address"`
	Token   string `json:"token"`
	Key     string `json:"key"`
	Stream  bool   `json:"stream"`
}

// npmGot is what the vendor's client made of the answer.
type npmGot struct {
	ID, Text, Job, Replayed string
	Status                  int
	Error                   string
}

// ask asks by the vendor's own npm package.
func (a npmAsk) ask(t *testing.T) (got npmGot) {
	t.Helper()
	question, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "--input-type=module", "-") // a module of standard input finds packages from where it runs
	cmd.Dir, cmd.Stdin, cmd.Env = npmPackages(t), strings.NewReader(askScript), append(os.Environ(), "ASK="+string(question))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	output, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v: %s", err, stderr.Bytes())
	}
	if err := json.Unmarshal(output, &got); err != nil {
		t.Fatalf("the script said %s: %v", output, err)
	}
	return got
}

// npmPackages returns the folder in which the pinned packages are installed.
func npmPackages(t *testing.T) string {
	t.Helper()
	folder, err := installedOnce()
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

var installedOnce = sync.OnceValues(installNPM)

// installNPM installs what the lock file pins into the cache, unless that was done before.
func installNPM() (folder string, err error) {
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not in PATH, and the vendors' npm packages need it: install Node.js 18 or later and npm (apt-get install nodejs npm)", program)
		}
	}
	files, sum := map[string][]byte{}, sha256.New()
	for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
		if files[name], err = os.ReadFile(filepath.Join("testdata", "npm", name)); err != nil {
			return "", err
		}
		sum.Write(files[name])
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	cache = filepath.Join(cache, "onejob", "npm")
	folder = filepath.Join(cache, fmt.Sprintf("%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(folder); err == nil {
		return folder, nil
	}
	return folder, installInto(folder, files)
}

// installInto installs beside the folder and renames what is whole. Of two at once one is kept.
func installInto(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(filepath.Dir(folder), 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(filepath.Dir(folder), "install-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(work, name), text, 0o644); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts")
	cmd.Dir = work
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w: %s", err, output)
	}
	if err := os.Rename(work, folder); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return nil
}

// TestNPMClientsRetriesAreOneJob: the vendors' own packages, their retries on, answers swallowed on
// the way, once as a stream and once whole, under one key.
func TestNPMClientsRetriesAreOneJob(t *testing.T) {
	npmPackages(t) // before the clock of a request runs
	for vendor, streamFirst := range map[string]bool{"openai": false, "anthropic": true} {
		t.Run(vendor, func(t *testing.T) {
			r := newRig(t)
			sim := r.work()
			var first npmGot
			for i, stream := range []bool{streamFirst, !streamFirst} {
				address, asked := r.swallowing(t, r.door, 1)
				got := npmAsk{vendor, address, r.token, "click", stream}.ask(t)
				if n := asked.Load(); n != 2 || got.Text != "done" || got.Replayed != "true" {
					t.Fatalf("streaming %t: after %d requests it got %+v", stream, n, got)
				}
				if job := r.mustBeOneJob(sim); got.Job != job {
					t.Errorf("streaming %t: it was told of job %s, there is %s", stream, got.Job, job)
				}
				if i == 0 {
					first = got
				}
				if got.ID != first.ID {
					t.Errorf("streaming %t: the answer is %s, and was %s", stream, got.ID, first.ID)
				}
			}
			address, asked := r.swallowing(t, r.door, 0)
			keyless := npmAsk{vendor, address, r.token, "", false}.ask(t)
			if n := asked.Load(); n != 1 || keyless.Status != 400 || !strings.Contains(keyless.Error, "Idempotency-Key") {
				t.Errorf("without a key it asked %d times and got %+v", n, keyless)
			}
			r.mustBeOneJob(sim)
		})
	}
}
