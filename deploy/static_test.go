package deploy_test

import (
	"os/exec"
	"strings"
	"testing"
)

// TestCommandNeedsNoC: a package that needs cgo has no files without it, and a static
// image has no C library to load.
func TestCommandNeedsNoC(t *testing.T) {
	t.Parallel()
	for _, cgo := range []string{"0", "1"} {
		list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if and .CgoFiles (not .Standard)}}{{.ImportPath}}{{end}}", "./cmd/onejob")
		list.Dir = ".."
		list.Env = append(list.Environ(), "CGO_ENABLED="+cgo)
		output, err := list.CombinedOutput()
		if packages := strings.Fields(string(output)); err != nil || len(packages) > 0 {
			t.Errorf("CGO_ENABLED=%s: %v %v", cgo, err, packages)
		}
	}
}
