package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/onejob/onejob/dev/testservers"
	"github.com/onejob/onejob/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(withCommand(m)) }

// withCommand builds the command as its users do, and puts it before all others on the PATH of the scripts.
func withCommand(m *testing.M) int {
	folder, err := os.MkdirTemp("", "onejob-command-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(folder)
	if output, err := exec.Command("go", "build", "-o", filepath.Join(folder, "onejob"), ".").CombinedOutput(); err != nil {
		return failed(fmt.Errorf("%w: %s", err, output))
	}
	err = errors.Join(os.Chmod(folder, 0o755), os.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH")))
	if err != nil {
		return failed(err)
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintln(os.Stderr, "scripts:", err)
	return 1
}

// TestScripts runs testdata/script. Each script is one command line after the other, on
// real servers, with a database, a task queue and an owner of its own. Beside the commands
// of testscript they have these:
//
//	code N PROGRAM ARGUMENT…   the program exits with N
//	line REGEXP                standard error was exactly one line: onejob: REGEXP
//	field PATH VALUE           standard output was JSON with the value at the path
//	keep PATH VARIABLE         the variable is what is there
//	await FILE REGEXP [VAR…]   waits until the file matches; the variables are its groups
//	status JOB STATUS          waits until the job is in the state
//	database VARIABLE          the variable is the URL of an empty database
//	sql FILE                   the file's statements run in the script's database
//	dropped DATABASE           the server has no such database
//	folder VARIABLE            the variable is a folder that every account can reach
//	request METHOD PATH [KEY BODY]  what the door at $DOOR answers, with the token $TOKEN, is standard output
//	gone TEXT                  no process has the text in its command line or environment
func TestScripts(t *testing.T) {
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("scripts: %d, %v", len(scripts), err)
	}
	for _, script := range scripts {
		t.Run(strings.TrimSuffix(filepath.Base(script), ".txtar"), func(t *testing.T) {
			t.Parallel()
			testscript.Run(t, testscript.Params{
				Files:               []string{script},
				RequireExplicitExec: true,
				Setup:               func(env *testscript.Env) error { return setUp(t, env) },
				Cmds:                commands(t),
			})
		})
	}
}

func setUp(t *testing.T, env *testscript.Env) error {
	address, namespace := testservers.Temporal(t)
	for name, value := range map[string]string{
		"DATABASE_URL":         patient(t, pgtest.URL(t)),
		"TEMPORAL_ADDRESS":     address,
		"TEMPORAL_NAMESPACE":   namespace,
		"TEMPORAL_CONFIG_FILE": os.DevNull,
		"ONEJOB_TEMPORAL_CLI":  testservers.TemporalCLI(t),
		"ONEJOB_TASK_QUEUE":    "cli-" + uuid.NewString(),
		"ONEJOB_CONFIG":        filepath.Join(env.WorkDir, "onejob.yaml"),
		"ONEJOB_SIMULATOR":     "http://127.0.0.1:1",
		"OWNER":                "o-" + uuid.NewString(),
		"USER":                 "ana",
		"XDG_CACHE_HOME":       os.Getenv("XDG_CACHE_HOME"),
	} {
		env.Setenv(name, value)
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "readme.sh"), readmeExample(t), 0o644); err != nil {
		return err
	}
	return writeFileUnlessThere(filepath.Join(env.WorkDir, "onejob.yaml"), localConfig)
}

// readmeExample is the README's first example as a script: the block behind the words 'by curl alone'.
func readmeExample(t *testing.T) (script []byte) {
	text, err := os.ReadFile(filepath.Join("..", "..", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "by curl alone:\n\n")
	for line := range strings.Lines(rest) {
		command, indented := strings.CutPrefix(line, "    ")
		if !indented {
			break
		}
		script = append(script, command...)
	}
	if !found || len(script) == 0 {
		t.Fatal("the README has no example by curl alone")
	}
	return script
}

// patient is the URL with more time to connect: a machine that builds and runs everything
// at once may stall a new session for seconds, and no script is about that.
func patient(t *testing.T, address string) string {
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("connect_timeout", "60")
	u.RawQuery = query.Encode()
	return u.String()
}

// writeFileUnlessThere leaves the file that a script brings as it is.
func writeFileUnlessThere(path string, text []byte) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	return os.WriteFile(path, text, 0o644)
}

func commands(t *testing.T) map[string]func(*testscript.TestScript, bool, []string) {
	return map[string]func(*testscript.TestScript, bool, []string){
		"code":   expectCode,
		"line":   expectLine,
		"field":  expectField,
		"keep":   keepField,
		"await":  awaitText,
		"status": awaitStatus,
		"gone":   expectGone,
		"request": func(ts *testscript.TestScript, _ bool, args []string) {
			request(t.Context(), ts, args)
		},
		"database": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Setenv(args[0], testservers.Database(t))
		},
		"dropped": func(ts *testscript.TestScript, _ bool, args []string) {
			conn := pgtest.Connect(t, testservers.PostgresURL(t))
			var there bool
			ts.Check(conn.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)`, args[0]).Scan(&there))
			if there {
				ts.Fatalf("database %s is left", args[0])
			}
		},
		"sql": func(ts *testscript.TestScript, _ bool, args []string) {
			_, err := pgtest.Connect(t, ts.Getenv("DATABASE_URL")).Exec(t.Context(), ts.ReadFile(args[0]))
			ts.Check(err)
		},
		"folder": func(ts *testscript.TestScript, _ bool, args []string) {
			ts.Setenv(args[0], openFolder(t))
		},
	}
}

// request is what curl would do, which not every machine has.
func request(ctx context.Context, ts *testscript.TestScript, args []string) {
	body := ""
	if len(args) == 4 {
		body = args[3]
	}
	r, err := http.NewRequestWithContext(ctx, args[0], "http://"+ts.Getenv("DOOR")+args[1], strings.NewReader(body))
	ts.Check(err)
	r.Header.Set("Authorization", "Bearer "+ts.Getenv("TOKEN"))
	if len(args) == 4 {
		r.Header.Set("Idempotency-Key", args[2])
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(r)
	ts.Check(err)
	defer response.Body.Close()
	_, err = io.Copy(ts.Stdout(), response.Body)
	ts.Check(err)
}

func expectCode(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	code := 0
	err = ts.Exec(args[1], args[2:]...)
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		code, err = ended.ExitCode(), nil
	}
	ts.Check(err)
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
}

func expectLine(ts *testscript.TestScript, _ bool, args []string) {
	text := ts.ReadFile("stderr")
	if strings.Count(text, "\n") != 1 || !strings.HasSuffix(text, "\n") {
		ts.Fatalf("standard error is not one line:\n%s", text)
	}
	if matched, err := regexp.MatchString(`^onejob: `+args[0], text); err != nil || !matched {
		ts.Fatalf("%v: %q is not onejob: %s", err, text, args[0])
	}
}

func awaitStatus(ts *testscript.TestScript, _ bool, args []string) {
	ticker := time.NewTicker(50 * time.Millisecond)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < 60*time.Second; <-ticker.C {
		ts.Check(ts.Exec("onejob", "job", "get", args[0], "-o", "json"))
		if fieldOf(ts, "status") == args[1] {
			return
		}
	}
	ts.Fatalf("job %s is not %s: %s", args[0], args[1], ts.ReadFile("stdout"))
}

func awaitText(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[1])
	ts.Check(err)
	path := ts.MkAbs(args[0])
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for began := time.Now(); time.Since(began) < 60*time.Second; <-ticker.C {
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if groups := pattern.FindStringSubmatch(string(text)); groups != nil {
			for i, name := range args[2:] {
				ts.Setenv(name, groups[i+1])
			}
			return
		}
	}
	text, _ := os.ReadFile(path)
	ts.Fatalf("%s does not say %s:\n%s", args[0], args[1], text)
}

// openFolder is a folder that the account of a Postgres started by root reaches too.
func openFolder(t *testing.T) string {
	folder, err := os.MkdirTemp("", "onejob-cli-*")
	if err == nil {
		err = os.Chmod(folder, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	return folder
}

// expectGone checks that no process has the text in its command line, or where the
// system shows that, in its environment.
func expectGone(ts *testscript.TestScript, _ bool, args []string) {
	output, err := exec.Command("ps", "-A", "-o", "pid=,args=").Output()
	ts.Check(err)
	for line := range strings.Lines(string(output)) {
		pid, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		environ, _ := os.ReadFile("/proc/" + pid + "/environ")
		if strings.Contains(line, args[0]) || strings.Contains(string(environ), args[0]) {
			ts.Fatalf("left behind: %s", line)
		}
	}
}
