package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"kubequota.dev/bench/measure"
	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
)

// contender is one of the two controllers.
type contender string

const (
	kubequota contender = "kubequota"
	upstream  contender = "upstream"
)

// measured is what one controller cost in one round.
type measured struct {
	firstSync, firstSyncCPU time.Duration
	firstSyncReceived       int64
	cpu                     time.Duration // under the load
	events                  int
	latencies               []time.Duration // sorted
	peakKiB                 int
	writes                  writes
	received                int64
	wrong, unseen           int
	conflicts               int // creates that clients had to try again
}

// field is a cluster with a population, on which the controllers take turns.
type field struct {
	options    options
	shape      shape
	cluster    *cluster.Cluster
	kubeconfig map[contender]string
	audit      string
	people     *population
	observer   *observer
}

// The longest that anything may take before a run fails, and how long a controller has to be right once the load has ended.
const (
	syncDeadline = 5 * time.Minute
	restDeadline = 30 * time.Second
)

// play runs all rounds of a shape on a cluster of its own.
func play(ctx context.Context, o options, s shape, set binaries.Set) (result map[contender][]measured, podBytes int, err error) {
	logs := filepath.Join(o.root, "bench", ".runs", s.name)
	if err := os.RemoveAll(logs); err != nil {
		return nil, 0, err
	}
	if err := os.MkdirAll(logs, 0o755); err != nil {
		return nil, 0, err
	}
	policy, audit := filepath.Join(logs, "audit-policy.yaml"), filepath.Join(logs, "audit.log")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o644); err != nil {
		return nil, 0, err
	}
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: set, Logs: logs, ServerFlags: []string{
		"--audit-policy-file", policy, "--audit-log-path", audit, "--audit-log-maxsize", "1000",
	}})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return nil, 0, err
	}
	deployed, err := c.KubequotaKubeconfig(ctx, o.root)
	if err != nil {
		return nil, 0, err
	}
	f := &field{
		options: o, shape: s, cluster: c, audit: audit,
		kubeconfig: map[contender]string{kubequota: deployed, upstream: c.AdminKubeconfig},
		people:     newPopulation(s, c.Admin), observer: newObserver(),
	}
	say("%s: populating it: %s", s.name, s.describe(o))
	if err := f.people.settle(ctx); err != nil {
		return nil, 0, err
	}
	watching, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	go func() { stop(f.observer.follow(watching, c.Admin)) }()

	result = map[contender][]measured{}
	for round := range o.rounds {
		order := []contender{kubequota, upstream}
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, who := range order {
			m, err := f.round(watching, who, round)
			if err != nil {
				return nil, 0, fmt.Errorf("%s, round %d, %s: %w", s.name, round+1, who, err)
			}
			say("%s: round %d of %d, %s: first sync %s, processor %s, %d wrong",
				s.name, round+1, o.rounds, who, m.firstSync.Round(time.Millisecond), m.cpu.Round(time.Millisecond), m.wrong)
			result[who] = append(result[who], m)
		}
	}
	podBytes, err = f.people.podBytes(ctx)
	return result, podBytes, err
}

// round is one controller's turn, from a cluster that is full and whose quotas have no status.
func (f *field) round(ctx context.Context, who contender, number int) (m measured, err error) {
	if err := f.people.clearQuotas(ctx); err != nil {
		return m, err
	}
	if err := f.people.fill(ctx); err != nil {
		return m, err
	}
	if err := f.people.makeQuotas(ctx); err != nil {
		return m, err
	}
	f.observer.expect(f.people.expected())
	// The server has still to digest that.
	if err := cluster.Sleep(ctx, 3*time.Second); err != nil {
		return m, err
	}
	_, audited, err := readAudit(f.audit, 0)
	if err != nil {
		return m, err
	}

	wire, err := newMeter(strings.TrimPrefix(f.cluster.Server, "https://"))
	if err != nil {
		return m, err
	}
	defer wire.close()
	name := fmt.Sprintf("%s-%d", who, number+1)
	begun := time.Now()
	if err := f.start(who, name, wire.address); err != nil {
		return m, err
	}
	pid, err := f.cluster.PID(name)
	if err != nil {
		return m, err
	}
	synced, err := f.observer.await(ctx, syncDeadline)
	if err != nil {
		return m, err
	}
	m.firstSync, m.firstSyncReceived = synced.Sub(begun), wire.received.Load()
	if m.firstSyncCPU, err = measure.ProcessorTime(pid); err != nil {
		return m, err
	}
	if err := f.load(ctx, pid, &m); err != nil {
		return m, err
	}
	if m.peakKiB, err = peakMemory(pid); err != nil {
		return m, err
	}
	m.received = wire.received.Load()
	if err := f.cluster.Terminate(name); err != nil {
		return m, err
	}
	m.writes, _, err = readAudit(f.audit, audited)
	return m, err
}

// load is put on a controller that is in step, and is over when it is in step again.
func (f *field) load(ctx context.Context, pid int, m *measured) error {
	// What a start still has to do is not the load's.
	if err := cluster.Sleep(ctx, 3*time.Second); err != nil {
		return err
	}
	before, err := measure.ProcessorTime(pid)
	if err != nil {
		return err
	}
	victims := f.people.victims()
	f.observer.count(victims)
	f.people.conflicts.Store(0)
	switch f.shape.load {
	case steady:
		m.events, err = f.people.churn(ctx, victims, f.options.rate, f.options.length)
	case burst:
		m.events, err = f.people.storm(ctx, victims)
	case idle:
		err = cluster.Sleep(ctx, f.options.idle)
	}
	if err != nil {
		return err
	}
	m.conflicts = int(f.people.conflicts.Load())
	f.observer.expect(f.people.expected())
	// What is wrong after that is a figure, not a failure.
	_, late := f.observer.await(ctx, restDeadline)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	after, err := measure.ProcessorTime(pid)
	if err != nil {
		return err
	}
	m.cpu = after - before
	if late != nil {
		say("%s: %v", f.shape.name, late)
	}
	m.wrong = f.observer.wrongNow()
	if f.shape.load != idle {
		m.latencies, m.unseen = f.observer.latencies(f.people.answered())
	}
	return nil
}

// start starts a controller that reaches the server through a meter. Both get the same rate of requests and the same workers, and log as
// little as they do by default.
func (f *field) start(who contender, name, through string) error {
	kubeconfig, err := redirected(f.kubeconfig[who], f.cluster.Server, "https://"+through)
	if err != nil {
		return err
	}
	flags := []string{
		"--kube-api-qps", strconv.Itoa(f.options.qps), "--kube-api-burst", strconv.Itoa(f.options.burst),
		"--concurrent-resource-quota-syncs", strconv.Itoa(f.options.workers),
	}
	if who == upstream {
		return f.cluster.StartControllerManager(name, kubeconfig, []string{cluster.QuotaController}, flags...)
	}
	port, err := cluster.FreePort()
	if err != nil {
		return err
	}
	return f.cluster.StartKubequotaAs(name, f.options.kubequota, kubeconfig, nil, append(flags, "--bind-address", "127.0.0.1", "--port", port)...)
}

// redirected is a copy of a kubeconfig, beside it, with another server.
func redirected(kubeconfig, from, to string) (string, error) {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return "", err
	}
	path := strings.TrimSuffix(kubeconfig, ".kubeconfig") + "-metered.kubeconfig"
	return path, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600)
}
