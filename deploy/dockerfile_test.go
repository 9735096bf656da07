package deploy_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

// instructions returns the lines of the Dockerfile, continued ones joined.
func instructions(t *testing.T) (lines []string) {
	t.Helper()
	joined := strings.ReplaceAll(mustRead(t, "Dockerfile"), "\\\n", " ")
	for line := range strings.Lines(joined) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, "#") {
			lines = append(lines, line)
		}
	}
	return lines
}

// stages splits the instructions at each FROM.
func stages(t *testing.T) (all [][]string) {
	t.Helper()
	for _, line := range instructions(t) {
		if strings.HasPrefix(line, "FROM ") {
			all = append(all, nil)
		}
		if len(all) == 0 {
			t.Fatalf("%q stands before any FROM", line)
		}
		all[len(all)-1] = append(all[len(all)-1], line)
	}
	if len(all) != 2 {
		t.Fatalf("%d stages, want one that builds and one that runs", len(all))
	}
	return all
}

func TestBuildStageIsPinnedToTheGoOfTheModule(t *testing.T) {
	t.Parallel()
	from := stages(t)[0][0]
	version := regexp.MustCompile(`golang:([0-9]+\.[0-9]+)\.[0-9]+-`).FindStringSubmatch(from)
	if version == nil {
		t.Fatalf("%q is not one version of golang", from)
	}
	if module := regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`).FindStringSubmatch(mustRead(t, "go.mod")); module[1] != version[1] {
		t.Errorf("the module wants Go %s, the image has %s", module[1], version[1])
	}
}

func TestModulesAreFetchedBeforeTheSourceIsCopied(t *testing.T) {
	t.Parallel()
	build := stages(t)[0]
	download := slices.IndexFunc(build, func(line string) bool { return strings.Contains(line, "go mod download") })
	source := slices.Index(build, "COPY . .")
	if download < 0 || source < download {
		t.Errorf("download at %d, source at %d: every change of the source would fetch again", download, source)
	}
}

func TestBinaryIsBuiltStaticAndReproducible(t *testing.T) {
	t.Parallel()
	build := strings.Join(stages(t)[0], "\n")
	for _, want := range []string{"CGO_ENABLED=0", "-trimpath", "./cmd/onejob", "GOOS=$TARGETOS GOARCH=$TARGETARCH"} {
		if !strings.Contains(build, want) {
			t.Errorf("the build stage lacks %s", want)
		}
	}
}

func TestImageHoldsNothingButBinaryAndCertificates(t *testing.T) {
	t.Parallel()
	run := stages(t)[1]
	want := []string{
		"FROM scratch",
		"COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt",
		"COPY --from=build /out/onejob /onejob",
		"USER 65532:65532",
		"EXPOSE 9090",
		`ENTRYPOINT ["/onejob"]`,
		`CMD ["worker", "--listen", ":9090"]`,
	}
	if !slices.Equal(run, want) {
		t.Errorf("the image is made by\n%s", strings.Join(run, "\n"))
	}
}

func TestSecretsAndHistoryStayOutOfTheBuild(t *testing.T) {
	t.Parallel()
	ignored := strings.Fields(mustRead(t, ".dockerignore"))
	for _, want := range []string{".git", ".env", ".env.*"} {
		if !slices.Contains(ignored, want) {
			t.Errorf(".dockerignore lacks %s", want)
		}
	}
}
