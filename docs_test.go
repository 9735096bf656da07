package onejob_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// eachFile reads every file of the tree with the ending.
func eachFile(t *testing.T, ending string, read func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != "." {
			return filepath.SkipDir
		}
		if entry.IsDir() || !strings.HasSuffix(path, ending) {
			return nil
		}
		text, err := os.ReadFile(path)
		read(path, string(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDocumentsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	there := map[string]bool{}
	eachFile(t, "_test.go", func(_, text string) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllStringSubmatch(text, -1) {
			there[m[1]] = true
		}
	})
	eachFile(t, ".md", func(path, text string) {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(text, -1) {
			if !there[name] {
				t.Errorf("%s names %s, which is no test", path, name)
			}
		}
	})
}

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	t.Parallel()
	eachFile(t, ".md", func(path, text string) {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)\)`).FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
	})
}

// Invariant 17: order and age are the database's. A time that a program passed in would
// be its own clock's.
func TestNoStatementTakesATimeOfOurs(t *testing.T) {
	t.Parallel()
	eachFile(t, ".go", func(path, text string) {
		if strings.HasPrefix(path, "postgres/") && !strings.HasSuffix(path, "_test.go") && strings.Contains(text, "time.Now") {
			t.Errorf("%s reads the clock of its machine", path)
		}
	})
}
