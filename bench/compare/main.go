// compare measures kubequota's controller beside upstream's: both take turns on the same control plane, with the same objects and the same
// load. Start it with bench/run compare.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"kubequota.dev/conformance/binaries"
)

// options of a run.
type options struct {
	root, kubequota     string
	shapes              string
	rounds, rate        int
	length, idle        time.Duration
	qps, burst, workers int
	configMaps          int
	json                bool
}

func main() {
	if err := run(os.Args[1:]); errors.Is(err, flag.ErrHelp) {
		return
	} else if err != nil {
		fmt.Fprintf(os.Stderr, "compare: %v\n", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	var o options
	flags := flag.NewFlagSet("compare", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", "", "`FOLDER` of the checkout")
	flags.StringVar(&o.kubequota, "kubequota", "", "`PATH` of a built kubequota (default: built from this checkout with cargo)")
	flags.StringVar(&o.shapes, "shapes", "", "`NAMES` of shapes, with commas between: 20x200, 100x50, 2x5000, 1000x5, burst, idle (the default is these), or any NxM")
	flags.IntVar(&o.rounds, "rounds", 3, "`TURNS` that each controller has in each shape")
	flags.IntVar(&o.rate, "rate", 20, "deletes a second, and as many creates")
	flags.DurationVar(&o.length, "length", 15*time.Second, "how long a steady load lasts")
	flags.DurationVar(&o.idle, "idle", time.Minute, "how long nothing happens in the shape idle")
	flags.IntVar(&o.configMaps, "configmaps", 20, "configmaps in each namespace of the shape 1000x5 (1000 make a million)")
	flags.IntVar(&o.qps, "qps", 1000, "--kube-api-qps of both")
	flags.IntVar(&o.burst, "burst", 2000, "--kube-api-burst of both")
	flags.IntVar(&o.workers, "workers", 5, "--concurrent-resource-quota-syncs of both")
	flags.BoolVar(&o.json, "json", false, "print one JSON object; the tables go to standard error")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.rounds < 1 || o.rate < 1 {
		return errors.New("--rounds and --rate must be at least 1")
	}
	chosen, err := chooseShapes(shapes(o.configMaps), o.shapes)
	if err != nil {
		return err
	}

	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	conformance := filepath.Join(o.root, "conformance")
	set, err := binaries.Build(ctx, conformance, binaries.ControlPlaneSet, say)
	if err != nil {
		return err
	}
	if o.kubequota, err = binaries.Kubequota.Find(ctx, o.root, o.kubequota, say); err != nil {
		return err
	}
	version, err := binaries.KubernetesVersion(conformance)
	if err != nil {
		return err
	}
	found := report{Shapes: map[string]map[string]*figure{}, Conditions: conditions{
		Kubernetes: "Kubernetes " + version, Rounds: o.rounds, Rate: o.rate, LengthSeconds: o.length.Seconds(), QPS: o.qps, Burst: o.burst,
		Workers: o.workers, ConfigMaps: o.configMaps, ProcessorCount: runtime.NumCPU(),
	}}
	// What was found before a failure is worth its time.
	failure := errors.Join(found.measure(ctx, o, chosen, set), found.wrong())
	if o.json {
		return errors.Join(failure, found.printJSON(os.Stdout), found.printTables(os.Stderr))
	}
	return errors.Join(failure, found.printTables(os.Stdout))
}

// measure plays shape after shape.
func (r *report) measure(ctx context.Context, o options, chosen []shape, set binaries.Set) error {
	for _, s := range chosen {
		rounds, podBytes, err := play(ctx, o, s, set)
		if err != nil {
			return err
		}
		// After a burst no pod is left to be weighed.
		r.Conditions.PodBytes = max(r.Conditions.PodBytes, podBytes)
		r.add(s, s.describe(o), rounds)
	}
	return nil
}

// say tells what is going on, beside the figures.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
