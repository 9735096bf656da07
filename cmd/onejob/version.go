package main

import (
	"io"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// version is how this program was built.
type version struct {
	Version  string `json:"version"`
	Revision string `json:"revision"` // of the source, "" where it is not known
	Go       string `json:"go"`
}

func newVersion() *cobra.Command {
	cmd := &cobra.Command{Use: "version", Short: "Print how this program was built", Args: cobra.NoArgs}
	output := outputFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		v := readVersion()
		return printAs(cmd, output, v, func(w io.Writer) {
			writeTable(w, []string{"onejob", v.Version}, []string{"revision", v.Revision}, []string{"go", v.Go})
		})
	}
	return cmd
}

func readVersion() version {
	v := version{Version: "(devel)"}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	v.Go = build.GoVersion
	if build.Main.Version != "" {
		v.Version = build.Main.Version
	}
	for _, setting := range build.Settings {
		if setting.Key == "vcs.revision" {
			v.Revision = setting.Value
		}
	}
	return v
}
