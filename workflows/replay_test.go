package workflows_test

import (
	"os"
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/client"

	"github.com/onejob/onejob/workflows/replay"
)

// The stored histories were written by runs on a real server; e2e/history_test.go
// records them. Code that cannot replay them would break jobs under way at an upgrade.
func TestStoredHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*.json")
	if err != nil || len(files) < 12 {
		t.Fatalf("%d histories, %v: record them with e2e/history_test.go", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			text, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer text.Close()
			history, err := client.HistoryFromJSON(text, client.HistoryJSONOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if err := replay.History(history); err != nil {
				t.Error(err)
			}
		})
	}
}
