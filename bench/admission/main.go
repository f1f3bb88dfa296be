// admission measures what a create costs under quotas that kubequota's webhook enforces, beside kube-apiserver's own plugin: both get the
// same control plane and the same load in one run, in turn. Start it with bench/run admission.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
)

// options of a run.
type options struct {
	rounds, seconds int
	json            bool
	only, kubequota string
	loads           string
	// root is the checkout's folder.
	root  string
	begun time.Time
}

func main() { os.Exit(start(os.Args[1:])) }

func start(args []string) int {
	o := &options{begun: time.Now()}
	flags := flag.NewFlagSet("admission", flag.ContinueOnError)
	flags.StringVar(&o.root, "root", ".", "`FOLDER` of the checkout, which bench/run names")
	flags.IntVar(&o.rounds, "rounds", 5, "how often each load is measured on each side")
	flags.IntVar(&o.seconds, "seconds", 5, "how many seconds a measurement takes")
	flags.BoolVar(&o.json, "json", false, "print one JSON object and no table")
	flags.StringVar(&o.only, "only", "", "`SIDE` to measure alone, plugin or kubequota, as for a profile (default: both)")
	flags.StringVar(&o.loads, "loads", "1x1,8x1,32x1,1x32,8x32,32x32", "loads to measure: `CLIENTSxNAMESPACES`, with commas between them")
	flags.StringVar(&o.kubequota, "kubequota", "", "`PATH` of a built kubequota (default: built from this checkout with cargo)")
	flags.Usage = func() {
		fmt.Fprint(flags.Output(), "bench/run admission: latency and throughput of creates, by kubequota's webhook and by kube-apiserver's own plugin\n\nFlags:\n")
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2 // flag has said why
	}
	if flags.NArg() > 0 {
		return complain(fmt.Errorf("unexpected argument %q", flags.Arg(0)))
	}
	root, err := filepath.Abs(o.root)
	if err != nil {
		return complain(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := o.run(ctx, root); err != nil {
		return complain(err)
	}
	return 0
}

func complain(err error) int {
	fmt.Fprintf(os.Stderr, "bench/run admission: %v\n", err)
	return 1
}

// cell is a load: so many clients in so many namespaces.
type cell struct{ clients, namespaces int }

func parseCells(loads string) ([]cell, error) {
	var cells []cell
	for load := range strings.SplitSeq(loads, ",") {
		clients, namespaces, _ := strings.Cut(load, "x")
		c, clientsErr := strconv.Atoi(clients)
		n, namespacesErr := strconv.Atoi(namespaces)
		if clientsErr != nil || namespacesErr != nil || c < 1 || n < 1 {
			return nil, fmt.Errorf("--loads: %q is not CLIENTSxNAMESPACES, as in 32x1", load)
		}
		cells = append(cells, cell{c, n})
	}
	return cells, nil
}

// The sides, as reports name them.
const (
	pluginSide    = "plugin"
	kubequotaSide = "kubequota"
)

// side is a cluster whose quotas are enforced one way.
type side struct {
	name    string
	cluster *cluster.Cluster
	// process is kubequota's.
	process string
	// metrics is the URL of kubequota's server for health and metrics.
	metrics string
}

// warmUp is how long each load is on before anything is measured.
const warmUp = 2 * time.Second

// run measures and prints. Its error is that something could not be measured; a target that is missed is none.
func (o *options) run(ctx context.Context, root string) (err error) {
	if o.rounds < 1 || o.seconds < 1 {
		return errors.New("--rounds and --seconds must be at least 1")
	}
	cells, err := parseCells(o.loads)
	if err != nil {
		return err
	}
	names := []string{pluginSide, kubequotaSide}
	switch o.only {
	case "":
	case pluginSide, kubequotaSide:
		names = []string{o.only}
	default:
		return fmt.Errorf("--only %s: there is %q and %q", o.only, pluginSide, kubequotaSide)
	}
	set, err := binaries.Build(ctx, filepath.Join(root, "conformance"), binaries.ControlPlaneSet, o.log)
	if err != nil {
		return err
	}
	program, err := binaries.Kubequota.Find(ctx, root, o.kubequota, o.log)
	if err != nil {
		return err
	}
	// Where the logs of the last run are.
	logs := filepath.Join(root, "bench", ".runs", "admission")
	if err := os.RemoveAll(logs); err != nil {
		return err
	}
	sides := make([]*side, len(names))
	for i, name := range names {
		o.log("starting etcd, kube-apiserver and kubequota: %s", name)
		folder := filepath.Join(logs, name)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
		sides[i] = &side{name: name}
		options := cluster.Options{Binaries: set, Logs: folder}
		if name == kubequotaSide {
			options.ServerFlags = cluster.WithoutQuotaPlugin
		}
		ctx, sides[i].cluster, err = cluster.Start(ctx, options)
		defer func() { err = sides[i].cluster.Stop(err) }()
		if err != nil {
			return err
		}
		if err := sides[i].enforce(ctx, program, root, cells); err != nil {
			return err
		}
	}
	measured, err := o.measure(ctx, sides, cells)
	if err != nil {
		return err
	}
	report := newReport(o.rounds, o.seconds, cells, measured)
	if o.json {
		return report.json()
	}
	report.print(os.Stdout)
	return nil
}

// measure tries every cell on every side: who comes first changes with each, and from round to round.
func (o *options) measure(ctx context.Context, sides []*side, cells []cell) (map[cell]map[string][]sample, error) {
	measured := map[cell]map[string][]sample{}
	for round := range o.rounds + 1 {
		for at, cell := range cells {
			for i := range sides {
				side := sides[(round+at+i)%len(sides)]
				duration := time.Duration(o.seconds) * time.Second
				if round == 0 {
					duration = warmUp
				}
				tried, err := side.try(ctx, cell, duration)
				if err != nil {
					if cause := context.Cause(ctx); cause != nil {
						err = cause
					}
					return nil, fmt.Errorf("%s, %d clients in %d namespaces: %w", side.name, cell.clients, cell.namespaces, err)
				}
				if round == 0 {
					o.log("warm with %d clients in %d namespaces: %s", cell.clients, cell.namespaces, side.name)
					continue
				}
				o.log("round %d, %2d clients, %2d namespaces, %-9s: %5.0f/s", round, cell.clients, cell.namespaces, side.name, tried.throughput())
				if measured[cell] == nil {
					measured[cell] = map[string][]sample{}
				}
				measured[cell][side.name] = append(measured[cell][side.name], tried)
			}
		}
	}
	return measured, nil
}

// log tells what is being done, apart from what is printed.
func (o *options) log(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "[%4.0fs] %s\n", time.Since(o.begun).Seconds(), fmt.Sprintf(format, args...))
}

// enforce starts who enforces and who counts, and makes the namespaces. Both sides have kubequota's controller, so that they differ in
// admission alone.
func (s *side) enforce(ctx context.Context, program, root string, cells []cell) error {
	if s.name == kubequotaSide {
		name, replica, err := s.cluster.StartEnforcementBehindService(ctx, program, root)
		if err != nil {
			return err
		}
		s.process, s.metrics = name, replica.Health
	} else {
		port, err := cluster.FreePort()
		if err != nil {
			return err
		}
		s.process, s.metrics = "kubequota", "http://127.0.0.1:"+port
		// As many requests as it likes, as in deploy/.
		if err := s.cluster.StartKubequota(ctx, program, root, "--bind-address", "127.0.0.1", "--port", port, "--kube-api-qps", "0"); err != nil {
			return err
		}
	}
	made := map[int]bool{}
	for _, cell := range cells {
		if made[cell.namespaces] {
			continue
		}
		made[cell.namespaces] = true
		for _, namespace := range cell.names() {
			if err := s.makeNamespace(ctx, namespace); err != nil {
				return err
			}
		}
		for _, namespace := range cell.names() {
			if err := s.waitEnforced(ctx, namespace); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *side) makeNamespace(ctx context.Context, namespace string) error {
	_, err := s.cluster.Admin.Create(ctx, "/api/v1/namespaces", cluster.Object{"metadata": cluster.Object{"name": namespace}})
	if err != nil {
		return err
	}
	// Where there is no LimitRange, kube-apiserver asks etcd for one every 30 s, and a create waits some 100 ms for that.
	_, err = s.cluster.Admin.Create(ctx, "/api/v1/namespaces/"+namespace+"/limitranges", cluster.Object{
		"metadata": cluster.Object{"name": "defaults"},
		"spec":     cluster.Object{"limits": []any{cluster.Object{"type": "Container", "defaultRequest": cluster.Object{"cpu": "100m", "memory": "64Mi"}}}},
	})
	if err != nil {
		return err
	}
	_, err = s.cluster.Admin.Create(ctx, "/api/v1/namespaces/"+namespace+"/resourcequotas", cluster.Object{
		"metadata": cluster.Object{"name": "compute"},
		// Nothing is refused.
		"spec": cluster.Object{"hard": cluster.Object{
			"pods": "1000000", "requests.cpu": "1000000", "requests.memory": "1000Ti", "limits.cpu": "1000000", "limits.memory": "1000Ti",
		}},
	})
	return err
}

// waitEnforced waits until a pod is refused that no quota here allows for.
func (s *side) waitEnforced(ctx context.Context, namespace string) error {
	large := pod("large", "2000000")
	return until(ctx, "the quota of "+namespace+" to be enforced", func(ctx context.Context) error {
		_, err := s.cluster.Admin.Create(ctx, podsOf(namespace)+"?dryRun=All", large)
		if err != nil && strings.Contains(err.Error(), "exceeded quota: ") {
			return nil
		}
		return fmt.Errorf("a pod that exceeds it: %v", err)
	})
}

// empty deletes what a load has made, and waits until nothing counts it any more: the next one finds the cluster at rest.
func (s *side) empty(ctx context.Context, cell cell) error {
	for _, namespace := range cell.names() {
		if _, err := s.cluster.Admin.Delete(ctx, podsOf(namespace), 0); err != nil {
			return err
		}
	}
	for _, namespace := range cell.names() {
		err := until(ctx, "the quota of "+namespace+" to be at nothing", func(ctx context.Context) error {
			quota, err := s.cluster.Admin.Get(ctx, "/api/v1/namespaces/"+namespace+"/resourcequotas/compute")
			if err != nil {
				return err
			}
			status, _ := quota["status"].(cluster.Object)
			used, _ := status["used"].(cluster.Object)
			if used["pods"] != "0" {
				return fmt.Errorf("%v pods used", used["pods"])
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func until(ctx context.Context, what string, check func(context.Context) error) error {
	return cluster.Poll(ctx, what, 2*time.Minute, 100*time.Millisecond, check)
}

func podsOf(namespace string) string { return "/api/v1/namespaces/" + namespace + "/pods" }

// names are the namespaces of a cell.
func (c cell) names() []string {
	names := make([]string, c.namespaces)
	for i := range names {
		names[i] = fmt.Sprintf("of-%d-%d", c.namespaces, i)
	}
	return names
}
