// conformance runs suites that compare kubequota with Kubernetes itself. Start it with conformance/run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/suites"
)

func main() { os.Exit(run(os.Args[1:])) }

func run(args []string) int {
	if len(args) == 0 {
		usage(os.Stderr)
		return 2
	}
	if args[0] == "help" || args[0] == "-h" || args[0] == "--help" {
		usage(os.Stdout)
		return 0
	}
	// The script that starts this builds it into conformance/.build. The working directory stays the caller's, for paths in flags.
	executable, err := os.Executable()
	if err != nil {
		return complain(err)
	}
	conformance := filepath.Dir(filepath.Dir(executable))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()

	if args[0] == "build" {
		if len(args) > 1 {
			return complain(errors.New("build takes no arguments"))
		}
		if _, err := binaries.Build(ctx, conformance, binaries.All(), say); err != nil {
			return complain(err)
		}
		say("everything is built, in conformance/.build")
		return 0
	}
	for _, suite := range suites.All {
		if suite.Name == args[0] {
			return runSuite(ctx, conformance, suite, args[1:])
		}
	}
	return complain(fmt.Errorf("no suite is called %q; conformance/run --help lists them", args[0]))
}

func runSuite(ctx context.Context, conformance string, suite suites.Suite, args []string) int {
	flags := flag.NewFlagSet(suite.Name, flag.ContinueOnError)
	flags.Usage = func() {
		fmt.Fprintf(flags.Output(), "conformance/run %s: %s\n\nFlags:\n", suite.Name, suite.Proves)
		flags.PrintDefaults()
	}
	steps := suite.Prepare(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2 // flag has said why
	}
	if flags.NArg() > 0 {
		return complain(fmt.Errorf("%s: unexpected argument %q", suite.Name, flags.Arg(0)))
	}

	suiteRun, err := suites.NewRun(filepath.Dir(conformance), suite)
	if err != nil {
		return complain(err)
	}
	if err := carryOut(ctx, conformance, suite, steps, suiteRun); err != nil {
		suiteRun.Tally.Fail("%s: %v", suite.Name, err)
	}
	if !suiteRun.Tally.OK() {
		folder, err := filepath.Rel(filepath.Dir(conformance), suiteRun.Folder)
		if err != nil {
			folder = suiteRun.Folder
		}
		fmt.Printf("logs of this run: %s\n", folder)
	}
	fmt.Println(suiteRun.Tally.String())
	if !suiteRun.Tally.OK() {
		return 1
	}
	return 0
}

func carryOut(ctx context.Context, conformance string, suite suites.Suite, steps suites.Steps, run *suites.Run) (err error) {
	if run.Binaries, err = binaries.Build(ctx, conformance, suite.Binaries, run.Log); err != nil {
		return err
	}
	if steps.Build != nil {
		if err := steps.Build(ctx, run); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, suite.Deadline, fmt.Errorf("the suite's deadline of %s has passed", suite.Deadline))
	defer cancel()
	err = steps.Judge(ctx, run)
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(err, cause) {
		err = fmt.Errorf("%w (%v)", err, cause)
	}
	return err
}

func usage(out *os.File) {
	var text strings.Builder
	text.WriteString("usage: conformance/run SUITE [flags]\n\nSuites:\n")
	row := func(name, proves string) { fmt.Fprintf(&text, "  %-16s %s\n", name, proves) }
	row("build", "builds everything that suites run, and judges nothing")
	for _, suite := range suites.All {
		row(suite.Name, suite.Proves)
	}
	text.WriteString("\nExamples:\n")
	for _, suite := range suites.All {
		for _, example := range suite.Examples {
			fmt.Fprintf(&text, "  conformance/run %s\n", example)
		}
	}
	text.WriteString("\nconformance/run SUITE --help lists a suite's flags. The last line of a suite is \"N passed, N failed, N skipped\"; " +
		"it succeeds when\nsomething passed and nothing failed. Logs are kept in conformance/.runs.\n")
	fmt.Fprint(out, text.String())
}

func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "conformance: %v\n", err)
	return 1
}
