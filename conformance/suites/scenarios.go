package suites

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

// What suites of scenarios share: choosing them, telling of them, and knowing when quotas are enforced.

// label is how a scenario is known.
type label struct {
	name, what string
	// slow is one that --quick leaves out.
	slow bool
}

// listScenarios lists them after the flags.
func listScenarios(flags *flag.FlagSet, labels []label) {
	usage := flags.Usage
	flags.Usage = func() {
		usage()
		fmt.Fprintf(flags.Output(), "\nScenarios (* is left out by --quick):\n")
		for _, l := range labels {
			mark := " "
			if l.slow {
				mark = "*"
			}
			fmt.Fprintf(flags.Output(), "  %s %-22s %s\n", mark, l.name, l.what)
		}
	}
}

func labels[S any](scenarios []S, of func(S) label) []label {
	all := make([]label, len(scenarios))
	for i, s := range scenarios {
		all[i] = of(s)
	}
	return all
}

// choose picks those that --only names; all where it names none.
func choose[S any](suite, only string, from []S, of func(S) label) ([]S, error) {
	if only == "" {
		return from, nil
	}
	wanted := strings.Split(only, ",")
	chosen := slices.DeleteFunc(slices.Clone(from), func(s S) bool { return !slices.Contains(wanted, of(s).name) })
	if len(chosen) != len(wanted) {
		return nil, fmt.Errorf("--only %s: not all of these are scenarios; %s --help lists them", only, suite)
	}
	return chosen, nil
}

// printTable prints a row for each scenario.
func printTable(title string, header []string, rows [][]string) {
	fmt.Printf("\n%s:\n", title)
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 1, ' ', 0)
	for _, cells := range append([][]string{header}, rows...) {
		fmt.Fprintln(out, strings.Join(cells, "\t| "))
	}
	_ = out.Flush()
	fmt.Println()
}

// untilRefused waits until a quota refuses an object that exceeds it: kube-apiserver enforces it then.
func untilRefused(ctx context.Context, client *cluster.Client, path string, object objects.M, refusal string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("new quotas are not enforced"))
	defer cancel()
	for {
		_, err := client.Create(ctx, path+"?dryRun=All", object)
		if err != nil && strings.Contains(err.Error(), refusal) {
			return nil
		}
		if err := cluster.Sleep(ctx, 50*time.Millisecond); err != nil {
			return err
		}
	}
}

// logsNothingOf fails where one of these processes has logged one of these words.
func (run *Run) logsNothingOf(processes []string, words ...string) error {
	var lines []string
	for _, name := range processes {
		text, err := os.ReadFile(filepath.Join(run.Folder, name+".log"))
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			if slices.ContainsFunc(words, func(word string) bool { return strings.Contains(line, word) }) {
				lines = append(lines, name+": "+strings.TrimSpace(line))
			}
		}
	}
	if lines == nil {
		return nil
	}
	return errors.New(some(lines))
}
