package suites

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

var admissionFaults = Suite{
	Name:   "admission-faults",
	Proves: "kubequota's webhook lets nothing exceed a quota, and fails nobody but requests in flight, while it, the servers and other webhooks fail under load",
	Examples: []string{
		"admission-faults",
		"admission-faults --quick",
		"admission-faults --only plain,replica-killed --seconds 20",
	},
	Binaries: append([]string{binaries.Witness}, binaries.ControlPlaneSet...),
	Deadline: 40 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		f := &admissionFlags{
			only:    flags.String("only", "", "`NAMES` of the scenarios to run, with commas between them (default: all)"),
			quick:   flags.Bool("quick", false, fmt.Sprintf("leave out some scenarios, %s of grace, and %s of load where --seconds says nothing else", quickGrace, quickLoad)),
			seconds: flags.Int("seconds", 0, "how many seconds of load in each scenario (default 60)"),
			seed:    flags.Uint64("seed", 1, "of what the load does"),
		}
		listScenarios(flags, labels(admissionScenarios, admissionScenario.label))
		return Steps{Build: kubequotaFlag(flags), Judge: f.judge}
	},
}

// How long the load lasts.
const (
	fullLoad  = time.Minute
	quickLoad = 12 * time.Second
)

// The controller's admission grace. The usual one with a webhook is what kube-apiserver allows another webhook to take, and five seconds; the
// short one is more than any create takes here.
const (
	fullGrace  = 35 * time.Second
	quickGrace = 14 * time.Second
)

type admissionFlags struct {
	only    *string
	quick   *bool
	seconds *int
	seed    *uint64
}

func (f *admissionFlags) load() time.Duration {
	switch {
	case *f.seconds > 0:
		return time.Duration(*f.seconds) * time.Second
	case *f.quick:
		return quickLoad
	default:
		return fullLoad
	}
}

func (f *admissionFlags) grace() time.Duration {
	if *f.quick {
		return quickGrace
	}
	return fullGrace
}

func (s admissionScenario) label() label { return label{s.name, s.what, s.slow} }

func (f *admissionFlags) selected() ([]admissionScenario, error) {
	from := slices.DeleteFunc(slices.Clone(admissionScenarios), func(s admissionScenario) bool { return *f.only == "" && *f.quick && s.slow })
	return choose("admission-faults", *f.only, from, admissionScenario.label)
}

// The replicas' processes; the controller's is controllerProcess.
var replicaProcesses = []string{"webhook-1", "webhook-2"}

// enforced is a cluster whose quotas are enforced, and the scenario that is on.
type enforced struct {
	*Run
	c       *cluster.Cluster
	witness *asked
	// plugin is that kube-apiserver's own plugin enforces, for comparison.
	plugin     bool
	kubeconfig string
	balancer   *cluster.Balancer
	replicas   []cluster.Replica
	loadFor    time.Duration
	// grace is the controller's where the webhook enforces.
	grace time.Duration
	seed  uint64

	scenario  *admissionScenario
	namespace string
	crowd     *crowd
	row       admissionRow
	// faulty are the times at which what is under way may fail.
	faulty []span
	after  []func(ctx context.Context) error
}

type span struct{ from, to time.Time }

func (s span) meets(f failure) bool { return !f.began.After(s.to) && !f.ended.Before(s.from) }

func (s span) contains(f failure) bool { return f.began.After(s.from) && f.ended.Before(s.to) }

// admissionRow is what became of a scenario.
type admissionRow struct {
	name                   string
	created, refused       int
	p50, p99               time.Duration
	kinds                  map[string]int
	exact, exceeded, under string
	notes                  []string
}

// admissionScenario is a fault, and what is done while it lasts.
type admissionScenario struct {
	name, what string
	style      style
	// slow is one that --quick leaves out, unless --only names it.
	slow bool
	// run, where there is one, lets the fault happen, the load being on. The load goes on until its time is over.
	run func(ctx context.Context, e *enforced) error
	// inFlight is that what is under way while the fault happens may fail.
	inFlight bool
	// compared is that whoever turns to kube-apiserver meets the fault whoever enforces: no kind of failure may come that the built-in plugin
	// does not have as well.
	compared bool
}

func (flags *admissionFlags) judge(ctx context.Context, run *Run) error {
	chosen, err := flags.selected()
	if err != nil {
		return err
	}
	rows, err := flags.enforce(ctx, run, chosen, false)
	if err != nil {
		return err
	}
	compared := slices.DeleteFunc(slices.Clone(chosen), func(s admissionScenario) bool { return !s.compared })
	var builtIn []admissionRow
	if len(compared) > 0 {
		if builtIn, err = flags.enforce(ctx, run, compared, true); err != nil {
			return err
		}
	}
	admissionTable("kubequota's webhook", rows)
	if len(compared) > 0 {
		admissionTable("the built-in plugin, for comparison", builtIn)
	}
	for _, own := range rows {
		for _, other := range builtIn {
			if own.name == other.name {
				run.Tally.Check(own.name+": no kind of failure that the built-in plugin lacks", compareKinds(own.kinds, other.kinds))
			}
		}
	}
	return nil
}

// compareKinds prints both columns.
func compareKinds(own, other map[string]int) error {
	all := maps.Clone(own)
	maps.Copy(all, other)
	var more []string
	fmt.Printf("%8s %8s  kind of failure\n", "webhook", "plugin")
	for _, kind := range sortedKeys(all) {
		fmt.Printf("%8d %8d  %s\n", own[kind], other[kind], kind)
		if other[kind] == 0 {
			more = append(more, kind)
		}
	}
	if more == nil {
		return nil
	}
	return errors.New(strings.Join(more, "; "))
}

func (flags *admissionFlags) enforce(ctx context.Context, run *Run, chosen []admissionScenario, plugin bool) (rows []admissionRow, err error) {
	options := cluster.Options{Binaries: run.Binaries, Logs: run.Folder, ServerFlags: cluster.WithoutQuotaPlugin}
	if plugin {
		options.ServerFlags, options.Logs = nil, filepath.Join(run.Folder, "plugin")
		if err := os.MkdirAll(options.Logs, 0o755); err != nil {
			return nil, err
		}
		run.Log("starting etcd and kube-apiserver with its own plugin, for comparison")
	} else {
		run.Log("starting etcd and kube-apiserver, without the ResourceQuota plugin")
	}
	ctx, c, err := cluster.Start(ctx, options)
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return nil, err
	}
	e := &enforced{Run: run, c: c, plugin: plugin, loadFor: flags.load(), grace: flags.grace(), seed: *flags.seed}
	if e.witness, err = startWitness(run, c.Etcd); err != nil {
		return nil, err
	}
	defer e.witness.stop()
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	for i := range chosen {
		begun, s := time.Now(), &chosen[i]
		if err := e.try(ctx, s); err != nil {
			if ctx.Err() != nil {
				return rows, context.Cause(ctx)
			}
			e.check("could be carried out", err)
		}
		r := e.row
		run.Log("%-20s %s: %d created, %d refused, %d kinds of failure; exact %s, exceeded by %s, too low by %s; %s", s.name,
			time.Since(begun).Round(time.Second), r.created, r.refused, len(r.kinds), r.exact, r.exceeded, r.under, strings.Join(r.notes, "; "))
		rows = append(rows, r)
	}
	run.Log("stopping everything")
	return rows, nil
}

// prepare starts who enforces, and the controller.
func (e *enforced) prepare(ctx context.Context) (err error) {
	if e.kubeconfig, err = e.c.EnforcementKubeconfig(ctx, e.Root); err != nil {
		return err
	}
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	by := []string{"--enforced-by", "webhook", "--admission-grace", e.grace.String()}
	if e.plugin {
		by = nil
	}
	err = e.c.StartKubequotaAs(controllerProcess, e.Kubequota, e.kubeconfig, []string{noColor}, append(by, "--bind-address", "127.0.0.1",
		"--port", port, "--resource-quota-sync-period", "24h", "--kube-api-qps", "0")...)
	if err != nil || e.plugin {
		return err
	}
	if e.balancer, err = cluster.NewBalancer(); err != nil {
		return err
	}
	service, err := e.c.MakeService(ctx, "replicas", e.balancer.Port)
	if err != nil {
		return err
	}
	for _, name := range replicaProcesses {
		replica, err := e.c.StartWebhook(name, e.Kubequota, e.kubeconfig, service, []string{noColor})
		if err != nil {
			return err
		}
		e.replicas = append(e.replicas, replica)
	}
	e.balancer.Lead(ctx, e.replicas...)
	if err := e.balancer.WaitReady(ctx); err != nil {
		return err
	}
	return e.c.WaitWebhookConfigured(ctx)
}

// heals is how soon after the load has ended what was charged in vain is given back.
func (e *enforced) heals() time.Duration { return e.grace + 5*time.Second }

// check counts a case. The plugin is there to be compared with: what it fails is told and no failure of the run.
func (e *enforced) check(what string, err error) {
	what = e.scenario.name + ": " + what
	if !e.plugin {
		e.Tally.Check(what, err)
	} else if err != nil {
		e.Log("the built-in plugin, %s: %v", what, err)
	}
}

func (e *enforced) note(format string, args ...any) {
	e.row.notes = append(e.row.notes, fmt.Sprintf(format, args...))
}

// theQuotas are soon full.
var theQuotas = map[string]objects.M{
	"compute": {"hard": objects.M{"requests.cpu": "4"}},
	"objects": {"hard": objects.M{"pods": "20", "count/configmaps": "10"}},
}

// try carries a scenario out and judges it.
func (e *enforced) try(ctx context.Context, s *admissionScenario) (err error) {
	e.scenario, e.namespace, e.after, e.faulty = s, s.name, nil, nil
	e.row = admissionRow{name: s.name, kinds: map[string]int{}, exact: "never", exceeded: "?", under: "?"}
	defer func() {
		if e.crowd != nil {
			e.crowd.stop()
			e.crowd = nil
		}
		for _, undo := range slices.Backward(e.after) {
			err = errors.Join(err, undo(ctx))
		}
		for _, resource := range []string{"resourcequotas", "pods", "configmaps"} {
			_, dropErr := e.c.Admin.Delete(ctx, collection(e.namespace, resource), 0)
			err = errors.Join(err, dropErr)
		}
	}()
	if err := e.makeNamespace(ctx, e.namespace, theQuotas); err != nil {
		return err
	}
	e.crowd = startCrowd(ctx, e.c.Admin, e.namespace, e.seed, s.style)
	ends := time.Now().Add(e.loadFor)
	if s.run != nil {
		// Once the namespace is full.
		if err := errors.Join(cluster.Sleep(ctx, 3*time.Second), s.run(ctx, e)); err != nil {
			return err
		}
	}
	// What happened late needs some load after it.
	if err := cluster.Sleep(ctx, max(time.Until(ends), 3*time.Second)); err != nil {
		return err
	}
	crowd := e.crowd
	crowd.stop()
	e.crowd = nil
	return e.judge(ctx, crowd, time.Now())
}

func (e *enforced) judge(ctx context.Context, crowd *crowd, ended time.Time) error {
	e.row.created, e.row.refused = crowd.sum(created)+crowd.sum(resized), crowd.sum(refused)
	if slices.Sort(crowd.waits); len(crowd.waits) > 0 {
		e.row.p50, e.row.p99 = crowd.waits[len(crowd.waits)/2], crowd.waits[len(crowd.waits)*99/100]
	}
	for _, failed := range crowd.failed {
		e.row.kinds[failed.kind]++
	}
	for _, what := range []string{"write_conflicts", "compensations"} {
		if sum, found := e.figure(ctx, what); found {
			e.note("%.0f %s so far", sum, strings.ReplaceAll(what, "_", " "))
		}
	}
	for _, what := range sortedKeys(crowd.sums) {
		if !slices.Contains([]string{created, refused}, what) {
			e.note("%d %s", crowd.sums[what], what)
		}
	}
	var busy error
	if e.row.created == 0 || e.row.refused == 0 {
		busy = fmt.Errorf("%d created, %d refused: that is no load at the limit", e.row.created, e.row.refused)
	}
	e.check("the load was at the limit", busy)
	if !e.scenario.compared {
		e.check("clients see success, or a quota's refusal", e.unexpected(crowd.failed))
	}
	judged := &faults{Run: e.Run, witness: e.witness, namespaces: []string{e.namespace}}
	if answer, err := e.witness.ask(judged.namespaces); err == nil && len(answer.Off) > 0 {
		var off []string
		for _, figure := range answer.Off {
			off = append(off, figure.String())
		}
		e.Log("%s, at the end of the load: %s", e.scenario.name, strings.Join(off, "; "))
	}
	took, exact := judged.settled(ctx, ended, e.heals(), nil)
	if exact == nil {
		e.row.exact = fmt.Sprintf("%.1f s", max(took, 0).Seconds())
	}
	e.check("exact", exact)
	answer, err := e.witness.ask(judged.namespaces)
	if err != nil {
		return err
	}
	e.row.exceeded, e.row.under = worst(answer.Exceeded), worst(answer.Under)
	e.check("no limit was exceeded", breaches(answer.Exceeded))
	e.check("no figure was below what was stored", breaches(answer.Under))
	e.check("no bug is logged", e.noBugIn(append([]string{controllerProcess}, replicaProcesses...)))
	return nil
}

// figure is the sum of a metric over the replicas, since they were started.
func (e *enforced) figure(ctx context.Context, name string) (sum float64, found bool) {
	for _, replica := range e.replicas {
		_, port, _ := net.SplitHostPort(strings.TrimPrefix(replica.Health, "http://"))
		value, err := (&faults{port: port}).metric(ctx, "kubequota_admission_"+name+"_total")
		sum, found = sum+value, found || err == nil
	}
	return sum, found
}

// unexpected are failures of requests that were not under way while something was made to fail.
func (e *enforced) unexpected(failed []failure) error {
	var told []string
	for _, f := range failed {
		if !e.scenario.inFlight || !slices.ContainsFunc(e.faulty, func(s span) bool { return s.meets(f) }) {
			told = append(told, f.String())
		}
	}
	if len(failed) > len(told) {
		e.note("%d in flight failed", len(failed)-len(told))
	}
	if told == nil {
		return nil
	}
	return errors.New(some(told))
}

// noBugIn fails where one of these processes says of itself that something is wrong with it.
func (e *enforced) noBugIn(processes []string) error {
	return e.logsNothingOf(processes, "this is a bug", "panicked")
}

// makeNamespace makes a namespace whose quotas are enforced when it returns.
func (e *enforced) makeNamespace(ctx context.Context, namespace string, quotas map[string]objects.M) error {
	made := &faults{Run: e.Run, c: e.c, witness: e.witness, namespaces: []string{namespace}}
	if err := made.makeNamespace(ctx, namespace, quotas); err != nil {
		return err
	}
	if _, err := made.settled(ctx, time.Now(), 30*time.Second, nil); err != nil {
		return err
	}
	// What no quota allows for is refused once they are enforced.
	large := cpuPod("1000")
	large["metadata"] = objects.M{"name": "large"}
	return untilRefused(ctx, e.c.Admin, collection(namespace, "pods"), large, "exceeded quota: ")
}

func admissionTable(title string, rows []admissionRow) {
	cells := make([][]string, len(rows))
	for i, r := range rows {
		cells[i] = []string{r.name, strconv.Itoa(r.created), strconv.Itoa(r.refused), r.p50.Round(time.Millisecond).String(),
			r.p99.Round(time.Millisecond).String(), r.exact, r.exceeded, r.under, strings.Join(r.notes, "; ")}
	}
	printTable(title, []string{"scenario", "done", "refused", "p50", "p99", "exact after", "exceeded by", "too low by", "note"}, cells)
}
