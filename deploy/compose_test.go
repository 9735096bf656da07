package deploy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
	"go.yaml.in/yaml/v4"

	"github.com/onejob/onejob/config"
)

const password = "pa55/with@every:character"

func mustRead(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// load reads docker-compose.yml as Compose does, with the given environment.
func load(t *testing.T, environment map[string]string) (*types.Project, error) {
	t.Helper()
	top, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  top,
		ConfigFiles: []types.ConfigFile{{Filename: filepath.Join(top, "docker-compose.yml")}},
		Environment: environment,
	})
}

func mustLoad(t *testing.T) *types.Project {
	t.Helper()
	project, err := load(t, map[string]string{"ONEJOB_DB_PASSWORD": password})
	if err != nil {
		t.Fatal(err)
	}
	return project
}

func mustGet(t *testing.T, name string) types.ServiceConfig {
	t.Helper()
	service, err := mustLoad(t).GetService(name)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

func TestComposeHasTheServices(t *testing.T) {
	t.Parallel()
	want := []string{"migrate", "postgres", "serve", "temporal", "temporal-ui", "worker"}
	if got := slices.Sorted(slices.Values(mustLoad(t).ServiceNames())); !slices.Equal(got, want) {
		t.Errorf("services %v, want %v", got, want)
	}
}

func TestServicesStartInOrder(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]map[string]string{
		"postgres":    {},
		"temporal":    {"postgres": types.ServiceConditionHealthy},
		"temporal-ui": {"temporal": types.ServiceConditionHealthy},
		"migrate":     {"postgres": types.ServiceConditionHealthy, "temporal": types.ServiceConditionHealthy},
		"worker": {
			"postgres": types.ServiceConditionHealthy, "temporal": types.ServiceConditionHealthy,
			"migrate": types.ServiceConditionCompletedSuccessfully,
		},
		"serve": {"postgres": types.ServiceConditionHealthy, "migrate": types.ServiceConditionCompletedSuccessfully},
	} {
		got := mustGet(t, name).DependsOn
		if len(got) != len(want) {
			t.Errorf("%s depends on %v", name, got)
		}
		for other, condition := range want {
			if got[other].Condition != condition {
				t.Errorf("%s waits for %s to be %q, want %q", name, other, got[other].Condition, condition)
			}
		}
	}
}

func TestWhoeverIsWaitedForHasAHealthCheck(t *testing.T) {
	t.Parallel()
	for name, service := range mustLoad(t).Services {
		for other, dependency := range service.DependsOn {
			check := mustGet(t, other).HealthCheck
			if dependency.Condition == types.ServiceConditionHealthy && (check == nil || len(check.Test) < 2) {
				t.Errorf("%s waits for the health of %s, which has no check", name, other)
			}
		}
	}
	if check := mustGet(t, "worker").HealthCheck; check == nil || check.Test[0] != "CMD" {
		t.Errorf("worker's check is %+v: its image has no shell", check)
	}
}

func TestOneShotsEndAndServicesComeBack(t *testing.T) {
	t.Parallel()
	for name, service := range mustLoad(t).Services {
		want := "unless-stopped"
		if name == "migrate" {
			want = "no"
		}
		if service.Restart != want {
			t.Errorf("%s restarts %q, want %q", name, service.Restart, want)
		}
		if service.Init == nil || !*service.Init {
			t.Errorf("%s has no init", name)
		}
		if service.MemLimit == 0 || service.Logging == nil || service.Logging.Options["max-size"] == "" {
			t.Errorf("%s is not bounded in memory and logs", name)
		}
	}
}

func TestImagesArePinned(t *testing.T) {
	t.Parallel()
	version := regexp.MustCompile(`:v?[0-9]+\.[0-9]+(\.[0-9]+)?(-[a-z0-9.]+)?$`)
	for name, service := range mustLoad(t).Services {
		if service.Build == nil && !version.MatchString(service.Image) {
			t.Errorf("%s runs %s, which is not one version", name, service.Image)
		}
	}
}

func TestPasswordMustBeSet(t *testing.T) {
	t.Parallel()
	for why, environment := range map[string]map[string]string{"missing": {}, "empty": {"ONEJOB_DB_PASSWORD": ""}} {
		if _, err := load(t, environment); err == nil || !strings.Contains(err.Error(), "ONEJOB_DB_PASSWORD") {
			t.Errorf("%s: %v", why, err)
		}
	}
}

// TestFileHoldsNoSecret looks at the file itself: every member whose name says secret
// is a reference without a default.
func TestFileHoldsNoSecret(t *testing.T) {
	t.Parallel()
	var file any
	if err := yaml.Unmarshal([]byte(mustRead(t, "docker-compose.yml")), &file); err != nil {
		t.Fatal(err)
	}
	secret := regexp.MustCompile(`(?i)passw|pwd|secret|token|api_?key`)
	reference := regexp.MustCompile(`^\$\{[A-Z_]+:\?[^}]*\}$`)
	seen := 0
	walk(file, func(name, value string) {
		if secret.MatchString(name) {
			seen++
			if !reference.MatchString(value) {
				t.Errorf("%s is %q, not a reference that must be set", name, value)
			}
		}
		if regexp.MustCompile(`://[^/@]*:[^/@]*@`).MatchString(value) {
			t.Errorf("%s holds a password in a URL", name)
		}
	})
	if seen == 0 {
		t.Error("no secret was looked at")
	}
}

// walk calls visit with every member that is a text.
func walk(value any, visit func(name, value string)) {
	switch v := value.(type) {
	case []any:
		for _, item := range v {
			walk(item, visit)
		}
	case map[string]any:
		for name, member := range v {
			if text, ok := member.(string); ok {
				visit(name, text)
			}
			walk(member, visit)
		}
	}
}

func TestAnyPasswordReachesTheDatabase(t *testing.T) {
	t.Parallel()
	for name, its := range map[string]string{"postgres": "POSTGRES_PASSWORD", "temporal": "POSTGRES_PWD", "migrate": "PGPASSWORD", "worker": "PGPASSWORD", "serve": "PGPASSWORD"} {
		if got := variable(mustGet(t, name), its); got != password {
			t.Errorf("%s gets %s = %q", name, its, got)
		}
	}
}

// variable is what the service's environment has under the name; empty: nothing.
func variable(service types.ServiceConfig, name string) string {
	if value := service.Environment[name]; value != nil {
		return *value
	}
	return ""
}

func TestPortsListenOnThisMachineOnly(t *testing.T) {
	t.Parallel()
	for name, service := range mustLoad(t).Services {
		for _, port := range service.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s publishes %d on %q", name, port.Target, port.HostIP)
			}
		}
	}
}

// TestServersListenWhereTheirPortsArePublished: on loopback nobody outside the container could
// reach them.
func TestServersListenWhereTheirPortsArePublished(t *testing.T) {
	t.Parallel()
	for name, ports := range map[string]map[string]uint32{"worker": {"--listen": 9090}, "serve": {"--listen": 8080, "--metrics": 9091}} {
		service := mustGet(t, name)
		if len(service.Ports) != len(ports) || len(service.Command) != 1+2*len(ports) || service.Command[0] != name {
			t.Errorf("%s publishes %+v and runs %v", name, service.Ports, service.Command)
		}
		for flag, port := range ports {
			if !slices.ContainsFunc(service.Ports, func(p types.ServicePortConfig) bool { return p.Target == port }) {
				t.Errorf("%s does not publish %d", name, port)
			}
			if at := slices.Index(service.Command, flag); at < 0 || service.Command[at+1] != fmt.Sprintf(":%d", port) {
				t.Errorf("%s runs %v, without %s :%d", name, service.Command, flag, port)
			}
		}
	}
}

// TestWorkerIsNotKilledWhileItDrains compares with the configuration that is mounted.
func TestWorkerIsNotKilledWhileItDrains(t *testing.T) {
	t.Parallel()
	project, worker := mustLoad(t), mustGet(t, "worker")
	c, err := config.Load(project.Configs[worker.Configs[0].Source].File)
	if err != nil {
		t.Fatal(err)
	}
	if grace := worker.StopGracePeriod; grace == nil || time.Duration(*grace) < c.Worker.Drain+10*time.Second {
		t.Errorf("grace %v, drain %v", grace, c.Worker.Drain)
	}
	if target, path := worker.Configs[0].Target, variable(worker, "ONEJOB_CONFIG"); path != target {
		t.Errorf("configuration at %s, read from %q", target, path)
	}
}

func TestOurContainersHoldNoPrivilege(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"migrate", "worker", "serve"} {
		service := mustGet(t, name)
		if !service.ReadOnly || !slices.Equal(service.CapDrop, []string{"ALL"}) || service.Privileged {
			t.Errorf("%s: read only %v, drops %v", name, service.ReadOnly, service.CapDrop)
		}
	}
	for name, service := range mustLoad(t).Services {
		if !slices.Contains(service.SecurityOpt, "no-new-privileges:true") {
			t.Errorf("%s may gain privileges", name)
		}
	}
}

func TestTheTruthSurvivesARestart(t *testing.T) {
	t.Parallel()
	project := mustLoad(t)
	for _, volume := range mustGet(t, "postgres").Volumes {
		_, named := project.Volumes[volume.Source]
		if volume.Target == "/var/lib/postgresql/data" && volume.Type == types.VolumeTypeVolume && named {
			return
		}
	}
	t.Error("Postgres has no named volume for its data")
}
