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
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

var faultsSuite = Suite{
	Name:   "faults",
	Proves: "nothing is lost, exceeded or left wrong when servers, controllers and kinds fail under load",
	Examples: []string{
		"faults",
		"faults --quick",
		"faults --only etcd-killed,compacted",
		"faults --controller upstream   # what upstream's controller makes of the same",
	},
	Binaries: append([]string{binaries.Witness}, binaries.ControlPlaneSet...),
	Deadline: 20 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		f := &faultsFlags{
			controller: flags.String("controller", "kubequota", "who keeps status.used: kubequota or upstream"),
			only:       flags.String("only", "", "`NAMES` of the scenarios to run, with commas between them (default: all)"),
			quick:      flags.Bool("quick", false, "leave out the slow scenarios"),
			seed:       flags.Uint64("seed", 1, "of what the load does"),
		}
		listScenarios(flags, labels(scenarios, scenario.label))
		build := kubequotaFlag(flags)
		return Steps{
			Build: func(ctx context.Context, run *Run) error {
				if *f.controller == "upstream" {
					return nil
				}
				return build(ctx, run)
			},
			Judge: f.judge,
		}
	},
}

type faultsFlags struct {
	controller, only *string
	quick            *bool
	seed             *uint64
}

// scenario is a fault, and what is done while it lasts. The load is on when it begins, and off after it.
type scenario struct {
	name, what string
	// slow is one that --quick leaves out.
	slow bool
	// notUpstream is why it is not run with upstream's controller.
	notUpstream string
	// begin, where there is one, is done before the namespaces and the load are there.
	begin func(ctx context.Context, f *faults) error
	run   func(ctx context.Context, f *faults) error
	// healing is how much longer than usual the figures may take to be right: a watch that failed for long is tried again late.
	healing time.Duration
}

// loaded is how many namespaces of a scenario are under load. It may add others.
const loaded = 3

// The process under test, and the one that is sometimes beside it.
const (
	controllerProcess = "controller"
	secondProcess     = "controller-2"
)

// faults is one run of the suite, and the scenario that is on.
type faults struct {
	*Run
	c        *cluster.Cluster
	store    *cluster.Store
	witness  *asked
	upstream bool
	seed     uint64
	// kubeconfig of the controller; port is where kubequota answers.
	kubeconfig, port string
	gadgets          *converter

	scenario   *scenario
	number     int
	namespaces []string
	load       *churn
	loadEnded  time.Time
	logBegan   int64
	row        row
	// breachesTold is set by a scenario in which limits are broken and the controller can't help it: that is told in the table, and not judged.
	breachesTold bool
	after        []func(ctx context.Context) error
}

// row of the table.
type row struct {
	scenario, exact, exceeded, under string
	notes                            []string
}

func (s scenario) label() label { return label{s.name, s.what, s.slow} }

func (flags *faultsFlags) selected() ([]scenario, error) {
	from := slices.DeleteFunc(slices.Clone(scenarios), func(s scenario) bool { return *flags.quick && s.slow })
	return choose("faults", *flags.only, from, scenario.label)
}

func (flags *faultsFlags) judge(ctx context.Context, run *Run) (err error) {
	if !slices.Contains([]string{"kubequota", "upstream"}, *flags.controller) {
		return fmt.Errorf("--controller %s: must be kubequota or upstream", *flags.controller)
	}
	chosen, err := flags.selected()
	if err != nil {
		return err
	}
	run.Log("starting etcd and kube-apiserver")
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder, ServerFlags: []string{
		// The plugin would keep claims that nothing uses; no controller lets them go.
		"--disable-admission-plugins", "StorageObjectInUseProtection",
	}})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return err
	}
	f := &faults{Run: run, c: c, store: cluster.NewStore(c.Etcd), upstream: *flags.controller == "upstream", seed: *flags.seed}
	if f.witness, err = startWitness(run, c.Etcd); err != nil {
		return err
	}
	defer f.witness.stop()
	if err := f.prepare(ctx); err != nil {
		return err
	}
	var rows []row
	for i := range chosen {
		if f.upstream && chosen[i].notUpstream != "" {
			rows = append(rows, row{scenario: chosen[i].name, exact: "not run", exceeded: "-", under: "-", notes: []string{chosen[i].notUpstream}})
			continue
		}
		begun := time.Now()
		if err := f.try(ctx, &chosen[i], i); err != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			f.check("could be carried out", err)
		}
		run.Log("%-22s %s: right %s, exceeded by %s, too low by %s; %s", chosen[i].name, time.Since(begun).Round(time.Second), f.row.exact,
			f.row.exceeded, f.row.under, strings.Join(f.row.notes, "; "))
		rows = append(rows, f.row)
	}
	run.Log("stopping everything")
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{r.scenario, r.exact, r.exceeded, r.under, strings.Join(r.notes, "; ")}
	}
	printTable(*flags.controller+" under faults", []string{"scenario", "exact after", "exceeded by", "too low by", "note"}, cells)
	return nil
}

// prepare makes what all scenarios need, and starts the controllers.
func (f *faults) prepare(ctx context.Context) error {
	create := func(path string, object objects.M) error {
		_, err := f.c.Admin.Create(ctx, path, object)
		return err
	}
	err := create("/apis/scheduling.k8s.io/v1/priorityclasses", objects.M{"metadata": objects.M{"name": "high"}, "value": 1000})
	if err != nil {
		return err
	}
	if f.gadgets, err = serveConversions(ctx, f.c); err != nil {
		return err
	}
	for _, definition := range []objects.M{
		customResource("widgets", "Widget", nil),
		customResource("gadgets", "Gadget", f.gadgets.conversion()),
		customResource("gizmos", "Gizmo", f.gadgets.conversion()),
	} {
		if err := create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition); err != nil {
			return err
		}
	}
	for _, resource := range []string{"widgets", "gadgets", "gizmos"} {
		if err := f.c.WaitServed(ctx, "/apis/faults.example.com/v1/"+resource, time.Minute); err != nil {
			return err
		}
	}
	// Namespaces must go away. Nothing else of kube-controller-manager is needed.
	if err := f.c.StartControllers(ctx, []string{"namespace-controller"}); err != nil {
		return err
	}
	if f.kubeconfig, err = f.c.KubequotaKubeconfig(ctx, f.Root); err != nil {
		return err
	}
	if f.port, err = cluster.FreePort(); err != nil {
		return err
	}
	f.Log("starting the controller under test")
	if !f.upstream {
		return f.startKubequota(controllerProcess, f.port)
	}
	if err := f.allowUpstream(ctx); err != nil {
		return err
	}
	return f.startUpstream(controllerProcess)
}

// noColor keeps the log fit to be searched.
const noColor = "NO_COLOR=1"

func (f *faults) startKubequota(name, port string) error {
	return f.c.StartKubequotaAs(name, f.Kubequota, f.kubeconfig, []string{noColor}, "--bind-address", "127.0.0.1", "--port", port,
		"--resource-quota-sync-period", "24h", "--log", "info,kube_client=off,kubequota_cluster::monitor=debug")
}

func (f *faults) startUpstream(name string) error {
	return f.c.StartControllerManager(name, f.kubeconfig, []string{cluster.QuotaController}, "--resource-quota-sync-period", "24h")
}

// startSecond starts another controller of the kind under test.
func (f *faults) startSecond() error {
	if f.upstream {
		return f.startUpstream(secondProcess)
	}
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	return f.startKubequota(secondProcess, port)
}

// restart kills the controller and starts it again, with an addition to its environment.
func (f *faults) restart(env ...string) error {
	return errors.Join(f.c.Kill(controllerProcess), f.c.Restart(controllerProcess, append([]string{noColor}, env...)...))
}

// check counts a case. What upstream's controller fails is a finding, and no failure of the run.
func (f *faults) check(what string, err error) {
	what = f.scenario.name + ": " + what
	if err != nil && f.upstream {
		f.Tally.Skip("%s: %v", what, err)
		return
	}
	f.Tally.Check(what, err)
}

func (f *faults) note(format string, args ...any) {
	f.row.notes = append(f.row.notes, fmt.Sprintf(format, args...))
}

// inForce waits until kube-apiserver's plugin knows all quotas made so far, since it learns of them in their order: until then it lets pass
// without a charge what they limit.
func (f *faults) inForce(ctx context.Context, namespace string) error {
	const quotas = "/resourcequotas"
	root := "/api/v1/namespaces/" + namespace
	probe := objects.M{"apiVersion": "v1", "kind": "ResourceQuota", "metadata": objects.M{"name": "probe"},
		"spec": objects.M{"hard": objects.M{"secrets": "0"}}}
	if _, err := f.c.Admin.Create(ctx, root+quotas, probe); err != nil {
		return err
	}
	secret := objects.M{"apiVersion": "v1", "kind": "Secret", "metadata": objects.M{"name": "probe"}}
	if err := untilRefused(ctx, f.c.Admin, root+"/secrets", secret, "exceeded quota: probe"); err != nil {
		return err
	}
	_, err := f.c.Admin.Delete(ctx, root+quotas+"/probe", 0)
	return err
}

// try carries a scenario out and judges it.
func (f *faults) try(ctx context.Context, s *scenario, number int) (err error) {
	f.scenario, f.number, f.after, f.breachesTold = s, number, nil, false
	f.row = row{scenario: s.name, exact: "never", exceeded: "?", under: "?"}
	if info, err := os.Stat(filepath.Join(f.Folder, controllerProcess+".log")); err == nil {
		f.logBegan = info.Size()
	}
	defer func() {
		if f.load != nil {
			f.load.stop()
			f.load = nil
		}
		for _, undo := range slices.Backward(f.after) {
			err = errors.Join(err, undo(ctx))
		}
		for _, namespace := range f.namespaces {
			_, dropErr := f.c.Admin.Delete(ctx, "/api/v1/namespaces/"+namespace+"/resourcequotas", 0)
			err = errors.Join(err, dropErr)
		}
	}()
	if s.begin != nil {
		if err := s.begin(ctx, f); err != nil {
			return err
		}
	}
	f.namespaces = nil
	for i := range loaded {
		namespace := fmt.Sprintf("%s-%c", s.name, 'a'+i)
		f.namespaces = append(f.namespaces, namespace)
		if err := f.makeNamespace(ctx, namespace, quotasOf(i)); err != nil {
			return err
		}
	}
	if _, err := f.settled(ctx, time.Now(), 30*time.Second, nil); err != nil {
		f.check("new quotas", err)
	}
	if err := f.inForce(ctx, f.namespaces[len(f.namespaces)-1]); err != nil {
		return err
	}
	f.startLoad(ctx)
	if err := cluster.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := s.run(ctx, f); err != nil {
		return err
	}
	f.stopLoad()
	took, exact := f.settled(ctx, f.loadEnded, exactWithin+s.healing, nil)
	if exact == nil {
		f.row.exact = fmt.Sprintf("%.1f s", max(took, 0).Seconds())
	}
	f.check("exact", exact)
	answer, err := f.witness.ask(f.namespaces)
	if err != nil {
		return err
	}
	f.row.exceeded, f.row.under = worst(answer.Exceeded), worst(answer.Under)
	if !f.breachesTold {
		f.check("no limit was exceeded", breaches(answer.Exceeded))
		f.check("no figure was below what was stored", breaches(answer.Under))
	}
	if !f.upstream {
		f.check("no recount was needed", f.notRecounted(ctx))
		f.check("no bug is logged", f.noBug())
		if _, levels, err := f.logged(); err == nil {
			f.note("%d warnings, %d lines logged", levels["WARN"], levels["WARN"]+levels["INFO"]+levels["ERROR"])
		}
	}
	return nil
}

func (f *faults) startLoad(ctx context.Context) {
	f.load = startChurn(ctx, f.c.Admin, f.namespaces[:loaded], f.seed+uint64(f.number)*1000)
}

func (f *faults) stopLoad() {
	if f.load != nil {
		f.load.stop()
		f.note("load: %s", f.load)
		f.load, f.loadEnded = nil, time.Now()
	}
}

func (f *faults) makeNamespace(ctx context.Context, namespace string, quotas map[string]objects.M) error {
	_, err := f.c.Admin.Create(ctx, "/api/v1/namespaces", objects.M{"metadata": objects.M{"name": namespace}})
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(quotas) {
		if err := f.makeQuota(ctx, namespace, name, quotas[name]); err != nil {
			return err
		}
	}
	return nil
}

func (f *faults) makeQuota(ctx context.Context, namespace, name string, spec objects.M) error {
	_, err := f.c.Admin.Create(ctx, collection(namespace, "resourcequotas"),
		objects.M{"kind": "ResourceQuota", "apiVersion": "v1", "metadata": objects.M{"name": name}, "spec": spec})
	return err
}
