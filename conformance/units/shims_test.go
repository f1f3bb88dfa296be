package units

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const upstreamFile = `package p

import (
	"fmt"
	"sort"
	"strings"

	"example.com/klog/v2"
	core "example.com/api/core/v1"
)

// rule decides.
func rule() bool { return strings.Contains("", "") }

// helper helps the rule.
func helper() { sort.Strings(nil) }

type evaluator struct{}

func (e *evaluator) usage() core.List { return nil }

func (e evaluator) name() string { return "" }

var (
	known = 1
	_     fmt.Stringer = &evaluator{}
	one, two = 1, 2
)

const first, second = 1, 2

func plumbing() { klog.Info(known) }
`

func lay(t *testing.T, shims map[string]string) (files map[string]string, err error) {
	t.Helper()
	from, to := t.TempDir(), t.TempDir()
	write := func(folder, name, content string) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range shims {
		write(from, name, content)
	}
	write(to, "upstream.go", upstreamFile)
	write(to, "upstream_test.go", "package p\n\nfunc rule2() {}\n\nfunc helper2() { rule() }\n")
	err = layShims(from, to)
	files = map[string]string{}
	entries, readErr := os.ReadDir(to)
	if readErr != nil {
		t.Fatal(readErr)
	}
	for _, entry := range entries {
		content, readErr := os.ReadFile(filepath.Join(to, entry.Name()))
		if readErr != nil {
			t.Fatal(readErr)
		}
		files[entry.Name()] = string(content)
	}
	return files, err
}

func TestDeclarationsAreReplacedAndCut(t *testing.T) {
	shim := `package p

//kubequota:cut helper known _

type evaluator struct{}

func (e evaluator) kubequotaAsk() {}

func rule() bool { return false }
`
	files, err := lay(t, map[string]string{"kubequota.go": shim})
	if err != nil {
		t.Fatal(err)
	}
	got := files["upstream.go"]
	for _, gone := range []string{"func rule", "func helper", "sort", "strings", "fmt", "core", "evaluator", "known = 1"} {
		if strings.Contains(got, gone) {
			t.Errorf("%q is still there:\n%s", gone, got)
		}
	}
	for _, kept := range []string{"func plumbing() { klog.Info(known) }", `"example.com/klog/v2"`, "one, two = 1, 2", "const first, second = 1, 2"} {
		if !strings.Contains(got, kept) {
			t.Errorf("%q is gone:\n%s", kept, got)
		}
	}
	if strings.Count(got, "\n") != strings.Count(upstreamFile, "\n") {
		t.Error("lines have moved")
	}
	if files["kubequota.go"] != shim {
		t.Error("the shim is not there as it is")
	}
	if !strings.Contains(files["upstream_test.go"], "rule()") {
		t.Error("a test was touched")
	}
}

func TestAFileReplacesAFile(t *testing.T) {
	files, err := lay(t, map[string]string{"upstream.go": "package p\n\nfunc other() {}\n"})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := files["upstream.go"], "package p\n\nfunc other() {}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestAShimMustReplaceSomething(t *testing.T) {
	for _, shim := range []string{
		"package p\n\nfunc renamed() {}\n",
		"package p\n\n//kubequota:cut renamed\n",
		"package p\n\nfunc (e *evaluator) renamed() {}\n",
	} {
		if _, err := lay(t, map[string]string{"kubequota.go": shim}); err == nil || !strings.Contains(err.Error(), "renamed") {
			t.Errorf("%q: got %v", shim, err)
		}
	}
	if _, err := lay(t, map[string]string{"kubequota.go": "package p\n\nfunc kubequotaAsk() {}\n\nfunc KubequotaAsk() {}\n"}); err != nil {
		t.Error(err)
	}
}
