package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestBareWorkerHasTheSettingsOfOurs: a floor measured with other settings is none.
func TestBareWorkerHasTheSettingsOfOurs(t *testing.T) {
	t.Parallel()
	ours, bare := workerSettings(t, "../worker/worker.go"), workerSettings(t, "bare.go")
	for name := range bare.values {
		if ours.values[name] != bare.values[name] {
			t.Errorf("%s is %s in package worker, %s in the benchmark", name, ours.values[name], bare.values[name])
		}
	}
	// The tuner holds the shared numbers. The others say how a worker stops and how often it
	// sends heartbeats, which no bare activity does.
	aside := []string{"Tuner", "MaxHeartbeatThrottleInterval", "DefaultHeartbeatThrottleInterval", "WorkerStopTimeout"}
	for _, option := range ours.options {
		if !slices.Contains(bare.options, option) && !slices.Contains(aside, option) {
			t.Errorf("package worker sets %s, the benchmark's bare worker does not", option)
		}
	}
}

type settings struct {
	values  map[string]string // of constants that the two files share by name
	options []string          // of worker.Options that are set
}

func workerSettings(t *testing.T, path string) settings {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	shared := []string{"concurrentAttempts", "concurrentLocal", "concurrentWorkflowTasks", "pollers"}
	s := settings{values: map[string]string{}}
	for node := range ast.Preorder(file) {
		switch n := node.(type) {
		case *ast.ValueSpec:
			if literal, ok := first(n.Values).(*ast.BasicLit); ok && slices.Contains(shared, n.Names[0].Name) {
				s.values[n.Names[0].Name] = literal.Value
			}
		case *ast.CompositeLit:
			if isSDKWorkerOptions(n.Type) {
				for _, element := range n.Elts {
					s.options = append(s.options, element.(*ast.KeyValueExpr).Key.(*ast.Ident).Name)
				}
			}
		}
	}
	if len(s.values) != len(shared) || len(s.options) < len(shared) {
		t.Fatalf("%s: found only %v %v", path, s.values, s.options)
	}
	return s
}

func isSDKWorkerOptions(e ast.Expr) bool {
	selector, ok := e.(*ast.SelectorExpr)
	if !ok || selector.Sel.Name != "Options" {
		return false
	}
	of, ok := selector.X.(*ast.Ident)
	return ok && of.Name == "worker"
}

func first(values []ast.Expr) ast.Expr {
	if len(values) == 0 {
		return nil
	}
	return values[0]
}

func TestReportJudgesByTheMedianOfRounds(t *testing.T) {
	t.Parallel()
	r := newReport(Conditions{Jobs: 2, Rounds: 3})
	for _, perSecond := range []float64{26, 30, 10} {
		r.add(sample{system: systemOnejob, load: saturated, jobs: 2, perSecond: perSecond, cpu: cpuSeconds{processWorker: 0.02}})
		r.add(sample{system: systemBare, load: saturated, jobs: 2, perSecond: 20})
		r.add(sample{system: systemOnejob, load: half, jobs: 2, perSecond: 10, resultMS: []float64{90, 110}})
		r.add(sample{system: systemBare, load: half, jobs: 2, perSecond: 10, resultMS: []float64{80, 100}})
	}
	r.conclude()
	throughput, latency := r.Ratios[0], r.Ratios[1]
	if throughput.Rounds != (Spread{Median: 1.3, Least: 0.5, Most: 1.5}) || throughput.Missed {
		t.Errorf("throughput: %+v, want 1.3 (0.5–1.5), reached", throughput)
	}
	if latency.Rounds.Median != 1.1 || !latency.Missed {
		t.Errorf("latency: %+v, want 1.1, missed", latency)
	}
	if ms := *r.system(systemOnejob).CPU[processWorker]; ms < 9.99 || ms > 10.01 {
		t.Errorf("CPU of the worker: %v ms per job, want 10", ms)
	}
	var text strings.Builder
	if err := r.print(&text); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"MISSED", "reached", notKnown, "onejob : SQL floor"} {
		if !strings.Contains(text.String(), part) {
			t.Errorf("the table lacks %q:\n%s", part, text.String())
		}
	}
}

// TestThroughputIsThatOfNineTenths: one job that Temporal hands out a second time does not
// make the whole run slow.
func TestThroughputIsThatOfNineTenths(t *testing.T) {
	t.Parallel()
	second := int64(time.Second)
	starts, ends := make([]int64, 20), make([]int64, 20)
	for n := range ends {
		starts[n], ends[n] = second, second+int64(n+1)*second/10
	}
	ends[19] += 10 * second
	if got := throughput(starts, ends); got != 10 {
		t.Errorf("%v jobs/s, want 10", got)
	}
	if got := throughput(nil, nil); got != 0 {
		t.Errorf("%v jobs/s of no jobs", got)
	}
}

func TestQuantiles(t *testing.T) {
	t.Parallel()
	values := []float64{5, 1, 4, 2, 3}
	for q, want := range map[float64]float64{0: 1, 0.5: 3, 0.99: 5, 1: 5} {
		if got := quantile(values, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := median([]float64{4, 1, 3, 2}); got != 2.5 {
		t.Errorf("the median is %v, want 2.5", got)
	}
	if quantile(nil, 0.5) != 0 || median(nil) != 0 {
		t.Error("the quantile of nothing is not 0")
	}
}

// TestCPUCountsChildrenWhichHaveEnded: Postgres's sessions are processes that end.
func TestCPUCountsChildrenWhichHaveEnded(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		if _, known := readCPU(map[string]int{processPostgres: os.Getpid()})[processPostgres]; known {
			t.Error("CPU is known on a system without /proc/PID/stat")
		}
		return
	}
	pids := map[string]int{processPostgres: os.Getpid(), processClient: 0}
	before := readCPU(pids)
	if err := exec.CommandContext(t.Context(), "sh", "-c", "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done").Run(); err != nil {
		t.Fatal(err)
	}
	used := readCPU(pids).since(before)
	if used[processPostgres] < 0.05 {
		t.Errorf("%v s of CPU with a child that computed, want more", used[processPostgres])
	}
	if _, known := used[processClient]; known {
		t.Error("the CPU of a process that is not known is known")
	}
}
