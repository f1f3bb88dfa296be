// oracle compares kubequota's answers with those of Kubernetes' own packages, case by case. conformance/run oracle builds it with coverage
// of those packages, so that it also shows how much of them the cases reach.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"

	"kubequota.dev/conformance/oracle"
)

func main() {
	// Upstream logs selectors that it can't evaluate, by the thousand.
	klog.SetLogger(logr.Discard())
	var only, differences string
	var options oracle.Options
	flag.StringVar(&options.Answers, "answers", "", "`PATH` of kubequota's answers program")
	flag.StringVar(&options.Corpus, "corpus", "", "`FOLDER` of kept questions")
	flag.StringVar(&differences, "differences", "", "`FILE` that must know every difference that is meant")
	flag.Uint64Var(&options.Seed, "seed", 1, "which questions to ask")
	flag.IntVar(&options.Cases, "cases", 0, "random questions of every part (0: each part's own number)")
	flag.StringVar(&only, "only", "", "`PARTS` to ask, with commas between them (default: all)")
	flag.Parse()
	if differences != "" {
		if err := oracle.CheckDocument(differences); err != nil {
			fmt.Println("FAIL", err)
			fmt.Println("0 passed, 1 failed, 0 skipped")
			os.Exit(1)
		}
	}
	if only != "" {
		options.Only = strings.Split(only, ",")
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if !run(ctx, options) {
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, options oracle.Options) bool {
	results, failed, err := oracle.Run(ctx, options)
	passed, skipped := 0, 0
	for _, result := range results {
		meant := 0
		var ids []string
		for id, count := range result.Skipped {
			meant += count
			ids = append(ids, fmt.Sprintf("%s %d", id, count))
		}
		slices.Sort(ids)
		passed, skipped = passed+result.Passed, skipped+meant
		fmt.Printf("%-12s %8d cases, %8d the same, %5d differ as meant, %d differ, in %s\n", result.Part, result.Cases, result.Passed, meant,
			result.Cases-result.Passed-meant, result.Took.Round(time.Second))
		if len(ids) > 0 {
			fmt.Printf("%-12s   %s\n", "", strings.Join(ids, ", "))
		}
		for _, failure := range result.Failures {
			fmt.Printf("FAIL %s: %s\n", result.Part, failure)
		}
		// A part of whose cases many differ as meant proves little; of few cases, chance decides.
		if result.Cases >= 10_000 && 100*meant > result.Cases {
			fmt.Printf("FAIL %s: more than 1 %% of the cases differ as meant\n", result.Part)
			failed++
		}
	}
	if err != nil {
		fmt.Printf("FAIL %v\n", err)
		failed++
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	return failed == 0
}
