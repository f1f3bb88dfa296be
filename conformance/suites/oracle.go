package suites

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/coverage"
)

var oracleSuite = Suite{
	Name:   "oracle",
	Proves: "kubequota's crates answer as Kubernetes' own packages do, on a million and a half random questions that reach all of those",
	Examples: []string{
		"oracle",
		"oracle --seed 7 --cases 1000000 --only objects",
	},
	Binaries: []string{binaries.Oracle},
	Deadline: 3 * time.Hour, // for large --cases; the usual ones take minutes
	Prepare: func(flags *flag.FlagSet) Steps {
		s := &oracleRun{
			seed:  flags.Uint64("seed", 1, "which questions to ask"),
			cases: flags.Int("cases", 0, "random questions of every part (default: each part's own number)"),
			only:  flags.String("only", "", "`PARTS` to ask, with commas between them (default: all, and coverage is judged)"),
		}
		build := programFlag(flags, binaries.Answers)
		return Steps{
			Build: func(ctx context.Context, run *Run) (err error) {
				s.answers, err = build(ctx, run)
				return err
			},
			Judge: s.judge,
		}
	},
}

type oracleRun struct {
	only    *string
	seed    *uint64
	cases   *int
	answers string
}

// lastLine is how every suite, and the oracle itself, ends.
var lastLine = regexp.MustCompile(`^(\d+) passed, (\d+) failed, (\d+) skipped$`)

func (s *oracleRun) judge(ctx context.Context, run *Run) error {
	counters := filepath.Join(run.Folder, "coverage")
	if err := os.Mkdir(counters, 0o755); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, run.Binaries.Path(binaries.Oracle),
		"--answers", s.answers, "--corpus", filepath.Join(run.Root, "conformance", "oracle", "corpus"),
		"--differences", filepath.Join(run.Root, "docs", "differences.md"),
		"--seed", fmt.Sprint(*s.seed), "--cases", fmt.Sprint(*s.cases), "--only", *s.only)
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+counters)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	stderr, err := os.Create(filepath.Join(run.Folder, "oracle.log"))
	if err != nil {
		return err
	}
	defer stderr.Close()
	cmd.Stderr = stderr
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var last []string
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		if last = lastLine.FindStringSubmatch(lines.Text()); last == nil {
			run.Log("%s", lines.Text())
		}
	}
	failed := cmd.Wait()
	if last == nil {
		return fmt.Errorf("the oracle did not finish: %v (see %s)", failed, stderr.Name())
	}
	for i, count := range []*int{&run.Tally.Passed, &run.Tally.Failed, &run.Tally.Skipped} {
		number, err := strconv.Atoi(last[i+1])
		if err != nil {
			return err
		}
		*count += number
	}
	if failed != nil && run.Tally.Failed == 0 {
		return fmt.Errorf("the oracle: %w", failed)
	}
	if *s.only != "" {
		return nil
	}
	return s.reached(ctx, run, counters)
}

// enough of upstream's statements, in percent. The rest are errors of conversions that can't fail, and feature gates that are on.
const enough = 95

// reached prints how much of upstream's code the questions reached, and fails where that is not enough.
func (s *oracleRun) reached(ctx context.Context, run *Run, counters string) error {
	profile := filepath.Join(run.Folder, "coverage.txt")
	convert := exec.CommandContext(ctx, "go", "tool", "covdata", "textfmt", "-i", counters, "-o", profile)
	if output, err := convert.CombinedOutput(); err != nil {
		return fmt.Errorf("go tool covdata: %w\n%s", err, output)
	}
	statements, err := coverage.ReadProfile(profile)
	if err != nil {
		return err
	}
	locate := func(module string) (string, error) {
		list := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module)
		list.Dir = filepath.Join(run.Root, "conformance")
		folder, err := list.Output()
		return strings.TrimSpace(string(folder)), err
	}
	var all coverage.Reached
	for _, subject := range coverage.Subjects {
		reached, err := subject.Reached(statements, locate)
		if err != nil {
			return err
		}
		run.Log("coverage of %-12s %4d of %4d statements, %.1f %%; not reached: %s", subject.Name, reached.Hit, reached.All, reached.Percent(),
			strings.Join(reached.Missing, " "))
		all.Hit, all.All = all.Hit+reached.Hit, all.All+reached.All
	}
	run.Log("coverage of %-12s %4d of %4d statements, %.1f %%", "all", all.Hit, all.All, all.Percent())
	if all.Percent() < enough {
		run.Tally.Fail("only %.1f %% of upstream's statements are reached", all.Percent())
	} else {
		run.Tally.Pass()
	}
	return nil
}
