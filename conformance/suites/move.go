package suites

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

var moveSuite = Suite{
	Name:   "move",
	Proves: "the README's way from the built-in plugin to kubequota's webhook, and back, leaves no moment unguarded",
	Examples: []string{
		"move",
		"move --contrast   # the plugin switched off before the webhook is there: must fail",
	},
	Binaries: append([]string{binaries.Witness}, binaries.ControlPlaneSet...),
	Deadline: 10 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		contrast := flags.Bool("contrast", false, "switch the plugin off before the webhook is there, which must fail")
		return Steps{Build: kubequotaFlag(flags), Judge: func(ctx context.Context, run *Run) error { return judgeMove(ctx, run, *contrast) }}
	},
}

// A rest is how long the load goes on after each step.
const rest = 4 * time.Second

// move is a cluster of two kube-apiservers that is moved from one kind of enforcement to the other, under load.
type move struct {
	*enforced
	servers []*cluster.APIServer
	doors   *doors
	// controller and webhooks are the names of the processes that run now.
	controller string
	webhooks   []string
	// alone is while the webhook enforces alone.
	alone span
	// starts counts the processes of kubequota: each step starts new ones, as pods are.
	starts int
	// names are those of the processes whose logs must tell of no bug.
	names []string
}

func judgeMove(ctx context.Context, run *Run, contrast bool) (err error) {
	run.Log("starting etcd and two kube-apiservers, with their ResourceQuota plugin")
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return err
	}
	second, err := c.AddServer(ctx)
	if err != nil {
		return err
	}
	m := &move{
		enforced: &enforced{Run: run, c: c, grace: fullGrace, seed: 1, namespace: "moved", scenario: &admissionScenario{name: "move"}},
		servers:  []*cluster.APIServer{c.First(), second},
		doors:    &doors{},
	}
	for _, server := range m.servers {
		m.doors.clients = append(m.doors.clients, server.Client)
	}
	if m.witness, err = startWitness(run, c.Etcd); err != nil {
		return err
	}
	defer m.witness.stop()
	if m.kubeconfig, err = c.KubequotaKubeconfig(ctx, run.Root); err != nil {
		return err
	}
	if err := m.startController("plugin"); err != nil {
		return err
	}
	if err := m.makeNamespace(ctx, m.namespace, movedQuotas); err != nil {
		return err
	}
	if err := m.enforcedBy(ctx, byPlugin); err != nil {
		return err
	}
	crowd := startCrowd(ctx, m.doors, m.namespace, m.seed, style{})
	steps := m.thereAndBack()
	if contrast {
		steps = slices.DeleteFunc(steps, func(s moveStep) bool { return !s.contrast })
	}
	err = m.take(ctx, steps)
	crowd.stop()
	if err != nil {
		return err
	}
	return m.judge(ctx, crowd, time.Now())
}

// moveStep is what the README tells to do, and what shows that it is done.
type moveStep struct {
	what string
	do   func(ctx context.Context) error
	// contrast is one that the contrast takes too.
	contrast bool
}

// thereAndBack are the README's steps: "Enforce", its way back, and there once more, which what was left behind must not hinder.
func (m *move) thereAndBack() []moveStep {
	return []moveStep{
		{what: "the controller is told of the webhook", do: func(ctx context.Context) error { return m.restartController(ctx, "webhook") }},
		{what: "the webhook is installed", do: m.install},
		{what: "the plugin is disabled", contrast: true, do: func(ctx context.Context) error {
			err := m.restartServers(ctx, cluster.WithoutQuotaPlugin...)
			m.alone.from = time.Now()
			return err
		}},
		{what: "the plugin is enabled", do: func(ctx context.Context) error {
			m.alone.to = time.Now()
			return m.restartServers(ctx)
		}},
		{what: "the webhook is removed", do: m.remove},
		{what: "the controller is told of the plugin", do: func(ctx context.Context) error { return m.restartController(ctx, "plugin") }},
		{what: "the controller is told of the webhook again", do: func(ctx context.Context) error { return m.restartController(ctx, "webhook") }},
		{what: "the webhook is installed again", do: m.install},
	}
}

func (m *move) take(ctx context.Context, steps []moveStep) error {
	if err := cluster.Sleep(ctx, rest); err != nil {
		return err
	}
	for _, step := range steps {
		m.Log("%s", step.what)
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		m.Tally.Pass()
		if err := cluster.Sleep(ctx, rest); err != nil {
			return err
		}
	}
	return nil
}

// startController starts kubequota's controller: kube-controller-manager's is gone by then, as the README has it.
func (m *move) startController(enforcedBy string) error {
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	m.controller = m.named(controllerProcess)
	return m.c.StartKubequotaAs(m.controller, m.Kubequota, m.kubeconfig, []string{noColor}, "--bind-address", "127.0.0.1",
		"--port", port, "--resource-quota-sync-period", "24h", "--enforced-by", enforcedBy)
}

func (m *move) restartController(_ context.Context, enforcedBy string) error {
	if err := m.c.Terminate(m.controller); err != nil {
		return err
	}
	return m.startController(enforcedBy)
}

func (m *move) named(what string) string {
	m.starts++
	m.names = append(m.names, fmt.Sprintf("%s-%d", what, m.starts))
	return m.names[len(m.names)-1]
}

// The manifests that the README names.
func (m *move) manifests() string { return filepath.Join(m.Root, "deploy", "enforce") }

// install applies the manifests, starts what their Deployment would, and waits for what the README says to wait for.
func (m *move) install(ctx context.Context) error {
	if _, err := m.c.Kubectl(ctx, "apply", "-f", m.manifests()); err != nil {
		return err
	}
	balancer, err := cluster.NewBalancer()
	if err != nil {
		return err
	}
	m.balancer, m.replicas, m.webhooks = balancer, nil, nil
	service, err := m.c.MakeService(ctx, fmt.Sprintf("replicas-%d", m.starts), balancer.Port)
	if err != nil {
		return err
	}
	for range 2 {
		name := m.named("webhook")
		replica, err := m.c.StartWebhook(name, m.Kubequota, m.kubeconfig, service, []string{noColor})
		if err != nil {
			return err
		}
		m.replicas, m.webhooks = append(m.replicas, replica), append(m.webhooks, name)
	}
	balancer.Lead(ctx, m.replicas...)
	return errors.Join(balancer.WaitReady(ctx), m.enforcedBy(ctx, byWebhook))
}

// remove takes the README's way back, and ends the replicas, which without their rights can't bring the configuration back meanwhile.
func (m *move) remove(ctx context.Context) error {
	for _, args := range [][]string{
		{"delete", "validatingwebhookconfiguration", "kubequota"},
		{"delete", "-f", m.manifests()},
		{"--namespace", "kubequota-system", "delete", "configmap", "kubequota-webhook"},
	} {
		if _, err := m.c.Kubectl(ctx, args...); err != nil {
			return err
		}
	}
	for _, name := range m.webhooks {
		if err := m.c.Terminate(name); err != nil {
			return err
		}
	}
	m.balancer.Stop()
	return m.enforcedBy(ctx, byPlugin)
}

// restartServers gives one kube-apiserver after the other other flags, as people roll a control plane: clients turn to the other meanwhile.
func (m *move) restartServers(ctx context.Context, flags ...string) error {
	for i, server := range m.servers {
		from := time.Now()
		m.doors.shut(i, true)
		if err := server.RestartWith(ctx, flags...); err != nil {
			return err
		}
		if err := m.pluginIs(ctx, server, len(flags) == 0); err != nil {
			return err
		}
		m.doors.shut(i, false)
		m.faulty = append(m.faulty, span{from: from, to: time.Now()})
		// Until then one has the plugin and the other has not.
		if err := cluster.Sleep(ctx, rest); err != nil {
			return err
		}
	}
	return nil
}

// pluginIs fails unless the server's ResourceQuota plugin is on, or off. Once it has admitted something its metrics name the plugins that are on.
func (m *move) pluginIs(ctx context.Context, server *cluster.APIServer, on bool) error {
	probe := cpuPod("1")
	probe["metadata"] = objects.M{"name": "probe"}
	if _, err := server.Client.Create(ctx, collection("default", "pods")+"?dryRun=All", probe); err != nil {
		return err
	}
	text, err := server.Client.Send(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return err
	}
	const told = `apiserver_admission_controller_admission_duration_seconds_count{name="ResourceQuota"`
	if strings.Contains(string(text), told) != on {
		return fmt.Errorf("%s: its ResourceQuota plugin should be on: %t, and is not so", server.URL, on)
	}
	return nil
}

// How a refusal begins that comes from one of them. A webhook is asked before the plugin.
const (
	byWebhook = `admission webhook "`
	byPlugin  = `Forbidden: secrets "probe" is forbidden: exceeded quota: `
)

// movedQuotas are theQuotas in one, and another that allows nothing and is made last: servers learn of them in their order. Two that are
// charged would show a race of the plugin: what one quota refuses it lets through where its write of another one conflicts
// (docs/differences.md).
var movedQuotas = map[string]objects.M{
	"limits": {"hard": objects.M{"requests.cpu": "4", "pods": "20", "count/configmaps": "10"}},
	"probe":  {"hard": objects.M{"secrets": "0"}},
}

// enforcedBy waits until each server refuses in these words what no quota allows for.
func (m *move) enforcedBy(ctx context.Context, words string) error {
	probe := objects.M{"kind": "Secret", "apiVersion": "v1", "metadata": objects.M{"name": "probe"}}
	for _, server := range m.servers {
		if err := untilRefused(ctx, server.Client, collection(m.namespace, "secrets"), probe, words); err != nil {
			return err
		}
	}
	return nil
}

func (m *move) judge(ctx context.Context, crowd *crowd, ended time.Time) error {
	m.Log("the load: %d created, %d refused, %d told to come again", crowd.sum(created), crowd.sum(refused), crowd.sum(comeBack))
	var busy error
	if crowd.sum(created) == 0 || crowd.sum(refused) == 0 {
		busy = errors.New("that is no load at the limit")
	}
	m.Tally.Check("the load was at the limit", busy)
	var unexpected []string
	unanswered, conflicts := 0, 0
	for _, failed := range crowd.failed {
		switch {
		case failed.kind == noAnswer && slices.ContainsFunc(m.faulty, func(s span) bool { return s.meets(failed) }):
			unanswered++
		case pluginConflict.MatchString(failed.text) && !m.alone.contains(failed):
			conflicts++
		default:
			unexpected = append(unexpected, failed.String())
		}
	}
	m.Log("%d requests got no answer while a kube-apiserver restarted; %d times the plugin gave up (409)", unanswered, conflicts)
	var answers error
	if unexpected != nil {
		answers = errors.New(some(unexpected))
	}
	m.Tally.Check("clients see success, a quota's refusal, a kube-apiserver that restarts, or the plugin's conflicts while it is on", answers)
	judged := &faults{Run: m.Run, witness: m.witness, namespaces: []string{m.namespace}}
	took, exact := judged.settled(ctx, ended, m.heals(), nil)
	m.Tally.Check("used is exact at the end", exact)
	if exact == nil {
		m.Log("used was exact %.1f s after the load", max(took, 0).Seconds())
	}
	answer, err := m.witness.ask(judged.namespaces)
	if err != nil {
		return err
	}
	m.Tally.Check("at no revision more was stored than a limit allows", breaches(answer.Exceeded))
	m.Tally.Check("at no revision a figure was below what was stored", breaches(answer.Under))
	m.Tally.Check("no bug is logged", m.noBugIn(m.names))
	m.Log("stopping everything")
	return nil
}

// pluginConflict is what the built-in plugin answers where it was beaten to a quota four times: webhooks never say so.
var pluginConflict = regexp.MustCompile(`"Operation cannot be fulfilled on resourcequotas .*"code":409`)

// doors lead each request to one of the servers that are not about to be stopped, in turn, as what balances the load of a control plane does.
type doors struct {
	clients []*cluster.Client

	mutex  sync.Mutex
	closed [2]bool
	next   int
}

func (d *doors) shut(server int, closed bool) {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	d.closed[server] = closed
}

func (d *doors) pick() *cluster.Client {
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for range d.clients {
		if d.next = (d.next + 1) % len(d.clients); !d.closed[d.next] {
			break
		}
	}
	return d.clients[d.next]
}

// Request is a [server]'s.
func (d *doors) Request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	return d.pick().Request(ctx, method, path, header, body)
}
