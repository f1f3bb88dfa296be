// Package suites holds what can be run, one file for each suite. A new suite is a new file with a Suite and one line in All.
package suites

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"kubequota.dev/conformance/binaries"
)

// All suites, in the order in which help lists them.
var All = []Suite{
	e2eController,
	audit,
	oracleSuite,
	upstreamUnits,
	apiserver,
	kubectlSuite,
	faultsSuite,
	e2eEmbedded,
	e2eEnforce,
	admissionFaults,
	moveSuite,
}

// Suite is something that passes or fails.
type Suite struct {
	Name string
	// Proves is one line for help.
	Proves string
	// Examples are arguments worth showing, without the command's name.
	Examples []string
	// Binaries are those of package binaries that must be built.
	Binaries []string
	// Deadline bounds Judge.
	Deadline time.Duration
	// Prepare declares the suite's flags and returns what to do once they are parsed.
	Prepare func(flags *flag.FlagSet) Steps
}

// Steps of a run.
type Steps struct {
	// Build, if there is one, builds what a suite needs from this checkout. A cold cache may make it slow, so Deadline leaves it out.
	Build func(ctx context.Context, run *Run) error
	// Judge tells failures to the tally. Its error is for what kept it from judging at all, and counts as a failure.
	Judge func(ctx context.Context, run *Run) error
}

// Run is one run of one suite.
type Run struct {
	// Root is the checkout's folder.
	Root string
	// Folder keeps everything this run leaves behind.
	Folder   string
	Binaries binaries.Set
	// Kubequota is the path of the program under test, once the suite has built it.
	Kubequota string
	Tally     Tally

	begun time.Time
}

// NewRun makes the folder of a run, conformance/.runs/SUITE-TIME, and drops the suite's older ones but a few.
func NewRun(root string, suite Suite) (*Run, error) {
	const keep = 5
	runs := filepath.Join(root, "conformance", ".runs")
	now := time.Now()
	// The process id keeps two runs that start in the same second apart.
	folder := filepath.Join(runs, fmt.Sprintf("%s-%s-%d", suite.Name, now.UTC().Format("20060102T150405"), os.Getpid()))
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	// The digit keeps a suite from dropping runs of another whose name only begins the same way. Names sort by time.
	old, err := filepath.Glob(filepath.Join(runs, suite.Name+"-[0-9]*"))
	if err != nil {
		return nil, err
	}
	for len(old) > keep {
		if err := os.RemoveAll(old[0]); err != nil {
			return nil, err
		}
		old = old[1:]
	}
	return &Run{Root: root, Folder: folder, begun: now}, nil
}

// Log tells what the run is doing.
func (r *Run) Log(format string, args ...any) {
	fmt.Printf("[%4.0fs] %s\n", time.Since(r.begun).Seconds(), fmt.Sprintf(format, args...))
}

// Tally counts the cases of a run and prints those that fail.
type Tally struct {
	Passed, Failed, Skipped int
}

// Pass counts a case that passed.
func (t *Tally) Pass() { t.Passed++ }

// Skip counts a case that could not be judged.
func (t *Tally) Skip(format string, args ...any) {
	t.Skipped++
	fmt.Printf("SKIP %s\n", fmt.Sprintf(format, args...))
}

// Fail counts a case that failed and says why.
func (t *Tally) Fail(format string, args ...any) {
	t.Failed++
	fmt.Printf("FAIL %s\n", strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Check counts a case by its error.
func (t *Tally) Check(name string, err error) {
	if err != nil {
		t.Fail("%s: %v", name, err)
		return
	}
	t.Pass()
}

// OK is whether the run as a whole passed: a run that judged nothing did not.
func (t *Tally) OK() bool { return t.Failed == 0 && t.Passed > 0 }

// String is the last line of every run, which other programs read.
func (t *Tally) String() string {
	return fmt.Sprintf("%d passed, %d failed, %d skipped", t.Passed, t.Failed, t.Skipped)
}

// programFlag declares the flag of a program, and returns the step that finds or builds it.
func programFlag(flags *flag.FlagSet, program binaries.Program) func(ctx context.Context, run *Run) (path string, err error) {
	given := flags.String(program.Name, "", "`PATH` of a built "+program.Name+" (default: built from this checkout with cargo)")
	return func(ctx context.Context, run *Run) (string, error) {
		return program.Find(ctx, run.Root, *given, run.Log)
	}
}

// kubequotaFlag is that of the program under test.
func kubequotaFlag(flags *flag.FlagSet) func(ctx context.Context, run *Run) error {
	build := programFlag(flags, binaries.Kubequota)
	return func(ctx context.Context, run *Run) (err error) {
		run.Kubequota, err = build(ctx, run)
		return err
	}
}

func sortedKeys[T any](from map[string]T) []string { return slices.Sorted(maps.Keys(from)) }
