package suites

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

// scenarios, each in namespaces of its own.
var scenarios = []scenario{
	{name: "none", what: "nothing fails", run: func(ctx context.Context, f *faults) error { return cluster.Sleep(ctx, 5*time.Second) }},
	{name: "apiserver-killed", what: "kube-apiserver is killed and started again", run: func(ctx context.Context, f *faults) error {
		return errors.Join(f.c.Kill(cluster.ServerProcess), cluster.Sleep(ctx, 3*time.Second), f.c.Restart(cluster.ServerProcess),
			f.c.WaitReady(ctx), cluster.Sleep(ctx, 6*time.Second))
	}},
	{name: "etcd-killed", what: "etcd is killed and started again", run: func(ctx context.Context, f *faults) error {
		return errors.Join(f.c.Kill(cluster.EtcdProcess), cluster.Sleep(ctx, 3*time.Second), f.c.Restart(cluster.EtcdProcess),
			f.c.WaitReady(ctx), cluster.Sleep(ctx, 6*time.Second))
	}},
	{name: "etcd-stalled", what: "etcd answers nothing for 7 s: creates are stored long after they were charged", run: func(ctx context.Context, f *faults) error {
		return errors.Join(f.c.Pause(cluster.EtcdProcess), cluster.Sleep(ctx, 7*time.Second), f.c.Resume(cluster.EtcdProcess), cluster.Sleep(ctx, 6*time.Second))
	}},
	{name: "compacted", what: "etcd forgets its history while the controller stands still: its watches get 410", run: compacted},
	{name: "controller-killed", what: "the controller is killed three times, and started again at once", run: func(ctx context.Context, f *faults) error {
		for range 3 {
			if err := errors.Join(f.restart(), cluster.Sleep(ctx, 3*time.Second)); err != nil {
				return err
			}
		}
		return nil
	}},
	{name: "two-controllers", what: "two controllers at once, one of them stalled for a while; then one", run: func(ctx context.Context, f *faults) error {
		f.after = append(f.after, func(context.Context) error { return f.dropSecond() })
		return errors.Join(f.startSecond(), cluster.Sleep(ctx, 5*time.Second),
			f.c.Pause(controllerProcess), cluster.Sleep(ctx, 2*time.Second), f.c.Resume(controllerProcess), cluster.Sleep(ctx, 3*time.Second),
			f.c.Kill(secondProcess), cluster.Sleep(ctx, 2*time.Second))
	}},
	{name: "conversion-one", what: "a custom resource can't be converted to the preferred one of its versions while the controller restarts",
		healing: 30 * time.Second, run: func(ctx context.Context, f *faults) error { return f.unconverted(ctx, "gadgets", "v2") }},
	{name: "conversion-all", what: "a custom resource can be listed at no version while the controller restarts", slow: true,
		healing: 30 * time.Second, begin: storeBothVersions,
		run: func(ctx context.Context, f *faults) error { return f.unconverted(ctx, "gizmos", "v1", "v2") }},
	{name: "forbidden-kind", what: "the controller restarts and may not list one kind", slow: true, healing: 60 * time.Second, run: forbiddenKind},
	{name: "aggregated-api", what: "the controller restarts while an aggregated API is unavailable", slow: true, run: aggregated},
	{name: "failed-creates", what: "creates fail after they were charged: names that are taken, objects too large for etcd", run: failedCreates},
	{name: "bursts", what: "200 creates at once, at the limit", slow: true, run: bursts},
	{name: "pods-end", what: "pods finish, are evicted, are deleted with a grace that runs out", run: podsEnd},
	{name: "edits", what: "limits and scopeSelectors are edited under load", run: edits},
	{name: "new-quotas", what: "quotas are deleted and made under load: kube-apiserver admits for a moment what they don't limit yet", run: newQuotas},
	{name: "namespace-deleted", what: "a namespace is deleted under load, and made again", run: namespaceDeleted},
	{name: "clock", what: "the controller's clock is 5 minutes fast, then 5 minutes slow", slow: true, run: skewed,
		notUpstream: "Go reads the clock past the C library, where it is shifted"},
	{name: "unreadable-object", what: "a pod is stored that kube-apiserver can't read, so that none can be listed", slow: true,
		healing: 30 * time.Second, run: unreadableObject},
	{name: "unreadable-value", what: "a pod asks for 10^1100 of a resource, which is beyond what kubequota reads", slow: true, run: unreadableValue},
	{name: "old-controller", what: "kube-controller-manager's quota controller was left on", run: oldController,
		notUpstream: "that is two-controllers"},
}

func (f *faults) dropSecond() error {
	if f.c.Running(secondProcess) {
		return f.c.Kill(secondProcess)
	}
	return nil
}

func compacted(ctx context.Context, f *faults) error {
	if err := errors.Join(f.c.Pause(controllerProcess), cluster.Sleep(ctx, 3*time.Second)); err != nil {
		return err
	}
	// The witness must have seen what is now forgotten.
	if _, err := f.witness.ask(f.namespaces); err != nil {
		return err
	}
	// kube-apiserver keeps a window of its own; a new one knows nothing from before its start.
	err := errors.Join(f.store.Compact(ctx), f.c.Kill(cluster.ServerProcess), f.c.Restart(cluster.ServerProcess), f.c.WaitReady(ctx),
		cluster.Sleep(ctx, 2*time.Second), f.c.Resume(controllerProcess), cluster.Sleep(ctx, 5*time.Second))
	if err != nil || f.upstream {
		return err
	}
	text, _, err := f.logged()
	relisted := strings.Count(text, "everything is listed again: ")
	if relisted == 0 {
		err = errors.New("no watch of the controller got 410")
	}
	f.note("%d watches got 410", relisted)
	f.check("watches got 410", err)
	return nil
}

// unconverted breaks a custom resource's conversion to some versions while the controller restarts.
func (f *faults) unconverted(ctx context.Context, resource string, versions ...string) error {
	name := "count/" + resource + "." + "faults.example.com"
	for _, namespace := range f.namespaces {
		if err := f.makeQuota(ctx, namespace, "broken", objects.M{"hard": objects.M{name: "5", "secrets": "3"}}); err != nil {
			return err
		}
	}
	if err := cluster.Sleep(ctx, 2*time.Second); err != nil {
		return err
	}
	f.after = append(f.after, func(context.Context) error { f.gadgets.breakTo(); return nil })
	stop := f.also(ctx, func(ctx context.Context, namespace string, random *rand.Rand, number int) {
		// Through the version that is stored: that needs no conversion.
		path := strings.Replace(collection(namespace, resource), "/v1/", "/"+f.gadgets.stored[resource]+"/", 1)
		f.createOrDelete(ctx, path, objects.M{"kind": f.gadgets.kinds[resource], "apiVersion": "faults.example.com/" + f.gadgets.stored[resource]}, random, number)
	})
	defer stop()
	f.gadgets.breakTo(versions...)
	// So that no cache of kube-apiserver still knows them.
	err := errors.Join(f.c.Kill(cluster.ServerProcess), f.c.Restart(cluster.ServerProcess), f.c.WaitReady(ctx), f.restart(), cluster.Sleep(ctx, 4*time.Second))
	if err != nil {
		return err
	}
	frozen := func(figure string) bool { return figure == name || figure == "hard "+name }
	if len(versions) == 1 {
		frozen = nil
	}
	if err := f.duringFault(ctx, stop, frozen); err != nil {
		return err
	}
	if f.gadgets.failed() == 0 {
		f.check("conversions failed", errors.New("none was asked for"))
	}
	f.gadgets.breakTo()
	return cluster.Sleep(ctx, 3*time.Second)
}

// duringFault judges while the fault lasts, and lets the load go on. A quota that is made now must work too.
func (f *faults) duringFault(ctx context.Context, stop func(), frozen func(string) bool) error {
	stop()
	f.stopLoad()
	if err := f.makeQuota(ctx, f.namespaces[1], "new", objects.M{"hard": objects.M{"pods": "25"}}); err != nil {
		return err
	}
	took, err := f.settled(ctx, f.loadEnded, exactWithin, frozen)
	f.check("exact while it lasts", err)
	if err == nil {
		f.note("%.1f s while it lasts", max(took, 0).Seconds())
	} else {
		f.note("not exact while it lasts")
	}
	f.startLoad(ctx)
	return nil
}

// also runs a second load, in each namespace, until it is stopped; stopping it twice does no harm.
func (f *faults) also(ctx context.Context, step func(ctx context.Context, namespace string, random *rand.Rand, number int)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	for i, namespace := range f.namespaces {
		random := rand.New(rand.NewPCG(f.seed, uint64(1000*f.number+i)))
		done.Add(1)
		go func() {
			defer done.Done()
			for number := 0; cluster.Sleep(ctx, 100*time.Millisecond) == nil; number++ {
				within, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
				step(within, namespace, random, number)
				cancel()
			}
		}()
	}
	return func() { cancel(); done.Wait() }
}

// createOrDelete makes one of a few objects, or deletes one.
func (f *faults) createOrDelete(ctx context.Context, path string, body objects.M, random *rand.Rand, number int) {
	name := fmt.Sprintf("x%d", random.IntN(8))
	if number%3 == 2 {
		_, _ = f.c.Admin.Delete(ctx, path+"/"+name, 0)
		return
	}
	body["metadata"] = objects.M{"name": name}
	_, _ = f.c.Admin.Create(ctx, path, body)
}

// storeBothVersions stores some gizmos at v1 and some at v2, so that no version can be listed without a conversion.
func storeBothVersions(ctx context.Context, f *faults) error {
	_, err := f.c.Admin.Create(ctx, "/api/v1/namespaces", objects.M{"metadata": objects.M{"name": "both-versions"}})
	if err != nil {
		return err
	}
	create := func(name, version string) error {
		_, err := f.c.Admin.Create(ctx, "/apis/faults.example.com/"+version+"/namespaces/both-versions/gizmos",
			objects.M{"kind": "Gizmo", "apiVersion": "faults.example.com/" + version, "metadata": objects.M{"name": name}})
		return err
	}
	return errors.Join(create("old", "v1"), f.gadgets.store(ctx, f.c.Admin, "gizmos", "v2"), cluster.Sleep(ctx, 3*time.Second), create("new", "v2"))
}

func forbiddenKind(ctx context.Context, f *faults) error {
	everything := objects.L{
		objects.M{"apiGroups": objects.L{"*"}, "resources": objects.L{"*"}, "verbs": objects.L{"list", "watch"}},
		statusRule,
	}
	some := objects.L{
		objects.M{"apiGroups": objects.L{"", "apps", "batch", "apiextensions.k8s.io", "apiregistration.k8s.io", "resource.k8s.io"},
			"resources": objects.L{"*"}, "verbs": objects.L{"list", "watch"}},
		statusRule,
	}
	rules := func(ctx context.Context, rules objects.L) error {
		_, err := f.c.Admin.Patch(ctx, "/apis/rbac.authorization.k8s.io/v1/clusterroles/kubequota", objects.M{"rules": rules})
		return err
	}
	f.after = append(f.after, func(ctx context.Context) error { return rules(ctx, everything) })
	err := errors.Join(rules(ctx, some), cluster.Sleep(ctx, time.Second), f.restart(), cluster.Sleep(ctx, 3*time.Second))
	if err != nil {
		return err
	}
	if err := f.duringFault(ctx, func() {}, func(name string) bool { return strings.HasSuffix(name, ".faults.example.com") }); err != nil {
		return err
	}
	return errors.Join(rules(ctx, everything), cluster.Sleep(ctx, 3*time.Second))
}

// statusRule is what deploy/ grants beside list and watch.
var statusRule = objects.M{"apiGroups": objects.L{""}, "resources": objects.L{"resourcequotas/status"}, "verbs": objects.L{"patch"}}

// allowUpstream grants the controller's account what upstream's needs in addition.
func (f *faults) allowUpstream(ctx context.Context) error {
	const path = "/apis/rbac.authorization.k8s.io/v1/"
	_, err := f.c.Admin.Create(ctx, path+"clusterroles", objects.M{"metadata": objects.M{"name": "upstream"}, "rules": objects.L{
		objects.M{"apiGroups": objects.L{""}, "resources": objects.L{"resourcequotas", "resourcequotas/status"}, "verbs": objects.L{"get", "update", "patch"}},
		objects.M{"apiGroups": objects.L{"", "events.k8s.io"}, "resources": objects.L{"events"}, "verbs": objects.L{"create", "update", "patch"}},
	}})
	if err != nil {
		return err
	}
	_, err = f.c.Admin.Create(ctx, path+"clusterrolebindings", objects.M{"metadata": objects.M{"name": "upstream"},
		"roleRef":  objects.M{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "upstream"},
		"subjects": objects.L{objects.M{"kind": "ServiceAccount", "name": "kubequota", "namespace": "kubequota-system"}}})
	return err
}

func aggregated(ctx context.Context, f *faults) error {
	const path = "/apis/apiregistration.k8s.io/v1/apiservices"
	const name = "v1.absent.example.com"
	_, err := f.c.Admin.Create(ctx, path, objects.M{"metadata": objects.M{"name": name}, "spec": objects.M{"group": "absent.example.com", "version": "v1",
		"groupPriorityMinimum": 1000, "versionPriority": 10, "insecureSkipTLSVerify": true,
		"service": objects.M{"namespace": "default", "name": "absent"}}})
	if err != nil {
		return err
	}
	drop := func(ctx context.Context) error {
		_, err := f.c.Admin.Delete(ctx, path+"/"+name, 0)
		if cluster.IsCode(err, 404) {
			return nil
		}
		return err
	}
	f.after = append(f.after, drop)
	for _, namespace := range f.namespaces {
		if err := f.makeQuota(ctx, namespace, "absent", objects.M{"hard": objects.M{"count/things.absent.example.com": "5", "secrets": "3"}}); err != nil {
			return err
		}
	}
	if err := errors.Join(cluster.Sleep(ctx, 2*time.Second), f.restart(), cluster.Sleep(ctx, 4*time.Second)); err != nil {
		return err
	}
	if err := f.duringFault(ctx, func() {}, nil); err != nil {
		return err
	}
	return errors.Join(drop(ctx), cluster.Sleep(ctx, 3*time.Second))
}

// tooLarge is more than etcd takes in one request (1.5 MiB), and less than kube-apiserver does (3 MB).
var tooLarge = strings.Repeat("x", 1_700_000)

func failedCreates(ctx context.Context, f *faults) error {
	var taken, large atomic.Int64
	for _, namespace := range f.namespaces {
		_, err := f.c.Admin.Create(ctx, collection(namespace, "configmaps"), objects.M{"metadata": objects.M{"name": "taken"}})
		if err != nil && !cluster.IsCode(err, 403) {
			return err
		}
	}
	stop := f.also(ctx, func(ctx context.Context, namespace string, random *rand.Rand, number int) {
		_, err := f.c.Admin.Create(ctx, collection(namespace, "configmaps"), objects.M{"metadata": objects.M{"name": "taken"}})
		if cluster.IsCode(err, 409) {
			taken.Add(1)
		}
		if number%5 == 0 {
			_, err := f.c.Admin.Create(ctx, collection(namespace, "widgets"), objects.M{"kind": "Widget", "apiVersion": "faults.example.com/v1",
				"metadata": objects.M{"name": fmt.Sprintf("large-%d", number)}, "spec": objects.M{"text": tooLarge}})
			var refusal *cluster.Refusal
			if errors.As(err, &refusal) && strings.Contains(refusal.Error(), "too large") {
				large.Add(1)
			}
		}
	})
	defer stop()
	if err := cluster.Sleep(ctx, 8*time.Second); err != nil {
		return err
	}
	stop()
	f.note("%d names taken, %d too large", taken.Load(), large.Load())
	var err error
	if taken.Load() == 0 || large.Load() == 0 {
		err = fmt.Errorf("%d creates failed for their name, %d for their size", taken.Load(), large.Load())
	}
	f.check("creates failed as they should", err)
	return nil
}

func bursts(ctx context.Context, f *faults) error {
	const limit = 40
	f.stopLoad()
	if err := f.makeNamespace(ctx, "bursts-z", map[string]objects.M{"burst": {"hard": objects.M{"pods": fmt.Sprint(limit), "count/pods": "60", "requests.cpu": "4"}}}); err != nil {
		return err
	}
	f.namespaces = append(f.namespaces, "bursts-z")
	_, err := f.settled(ctx, time.Now(), exactWithin, nil)
	f.check("exact before", err)
	f.startLoad(ctx)
	var slowest time.Duration
	var conflicts atomic.Int64
	for round := range 4 {
		begun, made := time.Now(), int64(0)
		// What the last round gave back has to come within the time for that, so that the limit is reached again.
		for made == 0 || time.Since(begun) < exactWithin && made < limit {
			again, err := f.burst(ctx, "bursts-z", fmt.Sprintf("r%d-%d", round, made), 200, &conflicts)
			if made += again; err != nil {
				return err
			}
			if made < limit {
				if err := cluster.Sleep(ctx, 200*time.Millisecond); err != nil {
					return err
				}
			}
		}
		slowest = max(slowest, time.Since(begun))
		var err error
		if made != limit {
			err = fmt.Errorf("%d pods could be made in round %d where the limit is %d", made, round, limit)
		}
		f.check("the limit is reached", err)
		_, err = f.c.Admin.Delete(ctx, collection("bursts-z", "pods"), 0)
		if err != nil {
			return err
		}
	}
	f.note("limit reached within %.1f s, %d creates failed for the plugin's conflicts", slowest.Seconds(), conflicts.Load())
	return nil
}

// burst sends so many creates at once and returns how many pods were made.
func (f *faults) burst(ctx context.Context, namespace, prefix string, count int, failed *atomic.Int64) (int64, error) {
	var made atomic.Int64
	var done sync.WaitGroup
	errs := make([]error, count)
	for i := range count {
		done.Add(1)
		go func() {
			defer done.Done()
			pod := faultPod(objects.M{"requests": objects.M{"cpu": "100m"}})
			pod["metadata"] = objects.M{"name": fmt.Sprintf("%s-%d", prefix, i)}
			switch _, err := f.c.Admin.Create(ctx, collection(namespace, "pods"), pod); {
			case err == nil:
				made.Add(1)
			// The plugin gives up on conflicts with 409, and after ten seconds with 500: nothing was stored.
			case cluster.IsCode(err, 409) || cluster.IsCode(err, 500):
				failed.Add(1)
			case !cluster.IsCode(err, 403):
				errs[i] = err
			}
		}()
	}
	done.Wait()
	return made.Load(), errors.Join(errs...)
}

func podsEnd(ctx context.Context, f *faults) error {
	stop := f.also(ctx, func(ctx context.Context, namespace string, random *rand.Rand, number int) {
		pod := faultPod(objects.M{"requests": objects.M{"cpu": "50m", "memory": "32Mi"}, "limits": objects.M{"cpu": "50m", "memory": "32Mi"}})
		name := fmt.Sprintf("end-%d", number)
		pod["metadata"] = objects.M{"name": name}
		path := collection(namespace, "pods")
		if _, err := f.c.Admin.Create(ctx, path, pod); err != nil {
			return
		}
		switch path += "/" + name; number % 4 {
		case 0:
			_, _ = f.c.Admin.Patch(ctx, path+"/status", objects.M{"status": objects.M{"phase": pickOf(random, "Succeeded", "Failed")}})
		case 1:
			_, _ = f.c.Admin.Create(ctx, path+"/eviction", objects.M{"apiVersion": "policy/v1", "kind": "Eviction",
				"metadata": objects.M{"name": name}, "deleteOptions": objects.M{"gracePeriodSeconds": 2}})
		case 2:
			_, _ = f.c.Admin.Delete(ctx, path, 1+random.IntN(4))
		default:
			// Its grace is cut short.
			_, _ = f.c.Admin.Delete(ctx, path, 60)
			_, _ = f.c.Admin.Delete(ctx, path, 1)
		}
	})
	defer stop()
	err := cluster.Sleep(ctx, 10*time.Second)
	stop()
	return err
}

func edits(ctx context.Context, f *faults) error {
	random := rand.New(rand.NewPCG(f.seed, 99))
	patch := func(namespace, name string, spec objects.M) error {
		_, err := f.c.Admin.Patch(ctx, collection(namespace, "resourcequotas")+"/"+name, objects.M{"spec": spec})
		return err
	}
	classes := func() objects.M {
		values := pickOf(random, objects.L{"high"}, objects.L{"high", "system-cluster-critical"}, objects.L{"system-cluster-critical"})
		return objects.M{"scopeSelector": objects.M{"matchExpressions": objects.L{
			objects.M{"scopeName": "PriorityClass", "operator": pickOf(random, "In", "NotIn"), "values": values}}}}
	}
	for range 30 {
		err := errors.Join(
			patch(f.namespaces[0], "compute", objects.M{"hard": objects.M{"pods": fmt.Sprint(4 + random.IntN(16)), "requests.cpu": pickOf(random, "1", "2500m", "4")}}),
			patch(f.namespaces[0], "objects", objects.M{"hard": objects.M{"count/configmaps": fmt.Sprint(3 + random.IntN(9)), "requests.storage": pickOf(random, "5Gi", "20Gi")}}),
			patch(f.namespaces[1], "plain", objects.M{"hard": objects.M{"pods": fmt.Sprint(5 + random.IntN(20))}}),
			patch(f.namespaces[0], "high", classes()),
			patch(f.namespaces[2], "high", classes()),
			cluster.Sleep(ctx, 300*time.Millisecond))
		if err != nil {
			return err
		}
	}
	return nil
}

func namespaceDeleted(ctx context.Context, f *faults) error {
	doomed := f.namespaces[1]
	if _, err := f.c.Admin.Delete(ctx, "/api/v1/namespaces/"+doomed, 0); err != nil {
		return err
	}
	gone := false
	for begun := time.Now(); !gone && time.Since(begun) < 30*time.Second; {
		if err := cluster.Sleep(ctx, 500*time.Millisecond); err != nil {
			return err
		}
		// As the node would: the pods there are told to end, and nobody else takes them away.
		_, _ = f.c.Admin.Delete(ctx, collection(doomed, "pods"), 0)
		_, err := f.c.Admin.Get(ctx, "/api/v1/namespaces/"+doomed)
		gone = cluster.IsCode(err, 404)
	}
	if !gone {
		return fmt.Errorf("namespace %s does not go away", doomed)
	}
	f.stopLoad()
	if err := f.makeNamespace(ctx, doomed, quotasOf(0)); err != nil {
		return err
	}
	_, err := f.settled(ctx, time.Now(), exactWithin, nil)
	f.check("exact in the new namespace", err)
	f.startLoad(ctx)
	return cluster.Sleep(ctx, 5*time.Second)
}

func newQuotas(ctx context.Context, f *faults) error {
	// What is stored before a quota's first limits are on is charged by nobody.
	f.breachesTold = true
	for range 4 {
		for i, namespace := range f.namespaces {
			for _, name := range sortedKeys(quotasOf(i)) {
				if _, err := f.c.Admin.Delete(ctx, collection(namespace, "resourcequotas")+"/"+name, 0); err != nil {
					return err
				}
				if err := f.makeQuota(ctx, namespace, name, quotasOf(i)[name]); err != nil {
					return err
				}
			}
		}
		if err := cluster.Sleep(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	return nil
}

func skewed(ctx context.Context, f *faults) error {
	library, err := cluster.BuildClock(ctx, f.Folder)
	if err != nil {
		return err
	}
	f.after = append(f.after, func(context.Context) error { return f.restart() })
	for _, offset := range []time.Duration{5 * time.Minute, -5 * time.Minute} {
		if err := errors.Join(f.restart(cluster.ShiftedBy(library, offset)...), cluster.Sleep(ctx, 8*time.Second)); err != nil {
			return err
		}
		text, _, err := f.logged()
		if err != nil {
			return err
		}
		f.check(fmt.Sprintf("the controller's clock is off by %s", offset), clockIsOff(text, offset))
		if offset > 0 {
			f.stopLoad()
			took, err := f.settled(ctx, f.loadEnded, exactWithin, nil)
			f.check("exact while it is fast", err)
			f.note("%.1f s while it is fast", max(took, 0).Seconds())
			f.startLoad(ctx)
		}
	}
	return nil
}

// clockIsOff compares the time of the last line of a log with the time now.
func clockIsOff(text string, by time.Duration) error {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	told, _, _ := strings.Cut(lines[len(lines)-1], " ")
	at, err := time.Parse(time.RFC3339Nano, told)
	if err != nil {
		return err
	}
	if off := time.Until(at) - by; off.Abs() > time.Minute {
		return fmt.Errorf("its log is off by %s", time.Until(at).Round(time.Second))
	}
	return nil
}

// unreadableObject writes a pod past kube-apiserver, as a release might have left it that knew no better.
func unreadableObject(ctx context.Context, f *faults) error {
	const key = "/registry/pods/default/broken"
	text := `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"broken","namespace":"default","uid":"00000000-0000-0000-0000-000000000001"},` +
		`"spec":{"nodeName":"node","containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"a lot"}}}]}}`
	f.after = append(f.after, func(ctx context.Context) error { return f.store.Delete(ctx, key) })
	if _, err := f.store.Put(ctx, key, []byte(text)); err != nil {
		return err
	}
	if err := errors.Join(f.restart(), cluster.Sleep(ctx, 4*time.Second)); err != nil {
		return err
	}
	_, err := f.c.Admin.Get(ctx, "/api/v1/pods")
	if err == nil {
		return errors.New("the server can list pods all the same")
	}
	fed := func(name string) bool {
		name = strings.TrimPrefix(name, "hard ")
		for _, of := range []string{"pods", "count/pods", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"} {
			if name == of {
				return true
			}
		}
		return false
	}
	if err := f.duringFault(ctx, func() {}, fed); err != nil {
		return err
	}
	return errors.Join(f.store.Delete(ctx, key), cluster.Sleep(ctx, 3*time.Second))
}

func unreadableValue(ctx context.Context, f *faults) error {
	const namespace = "unreadable-value-z"
	f.stopLoad()
	if err := f.makeNamespace(ctx, namespace, map[string]objects.M{"pods": {"hard": objects.M{"pods": "5", "count/configmaps": "5"}}}); err != nil {
		return err
	}
	f.namespaces = append(f.namespaces, namespace)
	_, err := f.settled(ctx, time.Now(), exactWithin, nil)
	f.check("exact before", err)
	f.startLoad(ctx)
	// It asks for what no quota limits, so that it is admitted.
	pod := faultPod(objects.M{"requests": objects.M{"example.com/grains": "1e1100"}, "limits": objects.M{"example.com/grains": "1e1100"}})
	for name, made := range map[string]objects.M{"immense": pod, "modest": faultPod(objects.M{})} {
		made["metadata"] = objects.M{"name": name}
		if _, err := f.c.Admin.Create(ctx, collection(namespace, "pods"), made); err != nil {
			return err
		}
	}
	if err := errors.Join(cluster.Sleep(ctx, time.Second), f.restart(), cluster.Sleep(ctx, 4*time.Second)); err != nil {
		return err
	}
	if err := f.duringFault(ctx, func() {}, nil); err != nil {
		return err
	}
	_, err = f.c.Admin.Delete(ctx, collection(namespace, "pods")+"/immense", 0)
	return errors.Join(err, cluster.Sleep(ctx, 3*time.Second))
}

func oldController(ctx context.Context, f *faults) error {
	// Upstream's writes are not kubequota's to judge.
	f.breachesTold = true
	f.after = append(f.after, func(context.Context) error { return f.dropSecond() })
	if err := f.allowUpstream(ctx); err != nil {
		return err
	}
	before, err := f.metric(ctx, "kubequota_foreign_status_writes_total")
	if err != nil {
		return err
	}
	if err := errors.Join(f.startUpstream(secondProcess), cluster.Sleep(ctx, 12*time.Second), f.dropSecond(), cluster.Sleep(ctx, 2*time.Second)); err != nil {
		return err
	}
	after, err := f.metric(ctx, "kubequota_foreign_status_writes_total")
	f.note("%g foreign writes noticed", after-before)
	return err
}
