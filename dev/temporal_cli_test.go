package dev

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// onlyInPath gives the test a PATH of one folder with the scripts in it, no CLI of the
// environment, and a cache of its own.
func onlyInPath(t *testing.T, scripts map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, script := range scripts {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir)
	t.Setenv("ONEJOB_TEMPORAL_CLI", "")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// fakeGo stands for the go command: it wants the pinned module, and its product is a
// CLI as far as --version goes.
const fakeGo = `
echo compiling in $PWD >&2
/bin/grep -q "temporalio/cli v1.5.1" go.mod || exit 3
[ -s go.sum ] || exit 4
while [ "$1" != -o ]; do shift; done
echo '#!/bin/sh' >"$2"
echo 'echo temporal version 1.5.1' >>"$2"
/bin/chmod +x "$2"
`

func TestNoCLIAndNoGoIsOneClearError(t *testing.T) {
	onlyInPath(t, nil)
	_, err := StartTemporal(t.Context(), TemporalOptions{Own: true, Log: io.Discard})
	if !errors.Is(err, ErrNoCLI) || strings.Contains(err.Error(), "\n") {
		t.Fatalf("StartTemporal = %v, want ErrNoCLI in one line", err)
	}
}

func TestCLIInPathIsPreferredToABuild(t *testing.T) {
	onlyInPath(t, map[string]string{"temporal": "echo temporal version 9", "go": "exit 1"})
	path, err := findCLI(t.Context(), "", newProgress(io.Discard))
	if err != nil || filepath.Dir(path) != os.Getenv("PATH") {
		t.Fatalf("findCLI = %s, %v", path, err)
	}
}

func TestOtherProgramOfTheNameIsNotTakenForTheCLI(t *testing.T) {
	onlyInPath(t, map[string]string{"temporal": "echo a clock", "go": fakeGo})
	var log bytes.Buffer
	path, err := findCLI(t.Context(), "", newProgress(&log))
	if err != nil || filepath.Dir(path) == os.Getenv("PATH") {
		t.Fatalf("findCLI = %s, %v", path, err)
	}
	if !strings.Contains(log.String(), "not the Temporal CLI") {
		t.Errorf("the reason is not told:\n%s", log.String())
	}
	if _, err := findCLI(t.Context(), filepath.Join(os.Getenv("PATH"), "temporal"), newProgress(io.Discard)); err == nil {
		t.Error("it was taken when it was asked for")
	}
}

func TestCLIIsBuiltOnceForAll(t *testing.T) {
	onlyInPath(t, map[string]string{"go": fakeGo})
	var log bytes.Buffer
	progress := newProgress(&log)
	var builders sync.WaitGroup
	for range 3 {
		builders.Go(func() {
			if _, err := findCLI(t.Context(), "", progress); err != nil {
				t.Error(err)
			}
		})
	}
	builders.Wait()
	if built := strings.Count(log.String(), "built the temporal CLI"); built != 1 {
		t.Errorf("it was built %d times:\n%s", built, log.String())
	}
}

func TestFailedBuildTellsWhyAndLeavesNoCLI(t *testing.T) {
	onlyInPath(t, map[string]string{"go": "echo no space left >&2; exit 1"})
	for range 2 {
		_, err := findCLI(t.Context(), "", newProgress(io.Discard))
		if err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Fatalf("findCLI = %v, want what go said", err)
		}
	}
}

func TestPinnedCopiesEqualTheToolsModule(t *testing.T) {
	t.Parallel()
	for name, copied := range map[string][]byte{"go.mod": pinnedMod, "go.sum": pinnedSum} {
		text, err := os.ReadFile(filepath.Join("..", "tools", name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text, copied) {
			t.Errorf("dev/pinned differs from tools/%s: run make tidy", name)
		}
	}
	if !bytes.Contains(pinnedMod, []byte("github.com/temporalio/cli "+cliVersion+"\n")) &&
		!bytes.Contains(pinnedMod, []byte("github.com/temporalio/cli "+cliVersion+" ")) {
		t.Errorf("the module pins another version than %s", cliVersion)
	}
}

func TestLongBuildTellsThatItGoesOn(t *testing.T) {
	t.Parallel()
	var log buildOutput
	build := cliBuild{progress: newProgress(&log), began: time.Now(), every: time.Millisecond}
	output := &buildOutput{}
	output.Write([]byte("first\nat/this/package\n"))
	done := make(chan struct{})
	var reporter sync.WaitGroup
	reporter.Go(func() { build.report(done, output) })
	eventually(t, "the package is told", func() bool { return strings.Contains(log.text(), "at/this/package") })
	close(done)
	reporter.Wait()
}
