package units

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"kubequota.dev/conformance/units/answers"
)

// Case is a test of upstream's that has no subtests, or a subtest.
type Case struct {
	// Name is the package's path and the test's name.
	Name   string
	Passed bool
	// Asked counts the questions that kubequota was asked meanwhile.
	Asked int
	// Output is what it printed, without those.
	Output string
}

// Options of a run.
type Options struct {
	// Answers is the path of the program that answers.
	Answers string
	// Spoil makes every answer wrong.
	Spoil bool
	// Only are the tests to run.
	Only *regexp.Regexp
	// Log gets everything that the tests print.
	Log *os.File
}

// Run runs the tests of a package. Each has a process of its own, so that a test which ends its process spoils no other.
func (p Package) Run(ctx context.Context, options Options) ([]Case, error) {
	list, err := run(ctx, p.Folder, p.Binary, "-test.list", "^(Test|Example)")
	if err != nil {
		return nil, err
	}
	converter, err := run(ctx, p.Folder, "go", "tool", "-n", "test2json")
	if err != nil {
		return nil, err
	}
	var cases []Case
	for _, test := range strings.Fields(list) {
		if name := p.Path + " " + test; options.Only != nil && !options.Only.MatchString(name) {
			continue
		}
		ran, err := p.runTest(ctx, strings.TrimSpace(converter), test, options)
		if err != nil {
			return nil, fmt.Errorf("%s %s: %w", p.Path, test, err)
		}
		cases = append(cases, ran...)
	}
	return cases, nil
}

func (p Package) runTest(ctx context.Context, converter, test string, options Options) ([]Case, error) {
	// One test at a time: what is printed, questions among it, is the running test's.
	cmd := exec.CommandContext(ctx, converter, p.Binary, "-test.v=test2json", "-test.run", "^"+test+"$", "-test.parallel", "1", "-test.timeout", "1m")
	cmd.Dir = p.Folder
	// With the converter its test ends, and with that the program that answers.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(), answers.ProgramVariable+"="+options.Answers)
	if options.Spoil {
		cmd.Env = append(cmd.Env, answers.SpoilVariable+"=1")
	}
	var events bytes.Buffer
	cmd.Stdout, cmd.Stderr = &events, &events
	// A failed test is in the events, and makes it fail too.
	runErr := cmd.Run()
	var exit *exec.ExitError
	if runErr != nil && (ctx.Err() != nil || !errors.As(runErr, &exit)) {
		return nil, errors.Join(context.Cause(ctx), runErr)
	}
	fmt.Fprintf(options.Log, "%s\n%s", p.Path, &events)
	cases, err := readEvents(p.Path, test, events.Bytes())
	if err != nil {
		return nil, err
	}
	if runErr != nil && !slices.ContainsFunc(cases, func(c Case) bool { return !c.Passed }) {
		return nil, fmt.Errorf("no case failed, and yet: %w", runErr)
	}
	return cases, nil
}

// readEvents makes cases of the events of one test.
func readEvents(pkg, test string, events []byte) ([]Case, error) {
	tests := map[string]*Case{}
	names := []string{}
	of := func(name string) *Case {
		if tests[name] == nil {
			tests[name] = &Case{Name: pkg + " " + name}
			names = append(names, name)
		}
		return tests[name]
	}
	of(test)
	decoder := json.NewDecoder(bytes.NewReader(events))
	for decoder.More() {
		var event struct{ Action, Test, Output string }
		if err := decoder.Decode(&event); err != nil {
			return nil, fmt.Errorf("reading the events of go's tests: %w", err)
		}
		name := event.Test
		if name == "" {
			// What a process prints as it dies belongs to no test, and is all there is to tell why.
			name = test
		}
		switch event.Action {
		case "output":
			if strings.HasPrefix(event.Output, answers.Marker) {
				of(name).Asked++
			} else if !strings.HasPrefix(event.Output, "=== ") {
				of(name).Output += event.Output
			}
		case "pass":
			// The package's own event has no test.
			of(name).Passed = event.Test != "" || of(name).Passed
		}
	}
	isParent := func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") })
	}
	var cases []Case
	failedBelow := func(name string) bool {
		return slices.ContainsFunc(names, func(other string) bool { return strings.HasPrefix(other, name+"/") && !tests[other].Passed })
	}
	for _, name := range names {
		// A test with subtests is their sum, and a case of its own only where it failed by itself.
		if !isParent(name) || (!tests[name].Passed && !failedBelow(name)) {
			cases = append(cases, *tests[name])
		}
	}
	return cases, nil
}

// LogName is where in a run's folder the events of a package are kept.
func (p Package) LogName() string {
	return strings.TrimSuffix(filepath.Base(p.Binary), ".test") + ".json"
}
