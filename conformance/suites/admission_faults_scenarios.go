package suites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

var admissionScenarios = []admissionScenario{
	{name: "plain", what: "nothing fails", slow: true},
	{name: "replica-stopped", what: "one replica after the other is stopped by SIGTERM and started again", run: replicasStopped},
	{name: "replica-killed", what: "a replica is killed, and started again", inFlight: true, run: replicaKilled},
	{name: "apiserver-restarted", what: "kube-apiserver is killed and started again", compared: true,
		run: func(ctx context.Context, e *enforced) error { return e.restart(ctx, cluster.ServerProcess) }},
	{name: "etcd-restarted", what: "etcd is killed and started again", slow: true, compared: true,
		run: func(ctx context.Context, e *enforced) error { return e.restart(ctx, cluster.EtcdProcess) }},
	{name: "controller-killed", what: "the controller is killed, and started again", slow: true,
		run: func(ctx context.Context, e *enforced) error { return e.restart(ctx, controllerProcess) }},
	{name: "slow-writes", what: "status writes of quotas take up to 1.5 s, half of it before they are done or after", slow: true, run: slowWrites},
	{name: "refusing-webhook", what: "another webhook refuses half of what kubequota's lets through", slow: true, style: style{forgives: refusedOnPurpose},
		run: refusingWebhook},
	{name: "slow-webhook", what: "another webhook takes more than half of the grace (20 s), so that creates are stored long after they were charged", run: slowWebhook},
	{name: "conflicts", what: "somebody changes the second of the two quotas all the time", run: conflicts},
	{name: "limits-edited", what: "limits are lowered and raised", run: limitsEdited},
	{name: "dry-runs", what: "dry runs alone, beside load in another namespace", style: style{query: "?dryRun=All"}, run: dryRuns},
	{name: "generated-names", what: "the server makes up the names", slow: true, style: style{generated: true}},
	{name: "resizes", what: "pods are resized in place", slow: true, style: style{resizes: true}},
}

// restart kills a process, which is away for three seconds. It stands still for a moment first: that requests are under way when it is
// killed, so that each kind of failure shows whoever enforces, is not left to luck.
func (e *enforced) restart(ctx context.Context, process string) error {
	return errors.Join(e.c.Pause(process), cluster.Sleep(ctx, 300*time.Millisecond), e.c.Kill(process), cluster.Sleep(ctx, 3*time.Second),
		e.c.Restart(process, noColor), e.c.WaitReady(ctx), cluster.Sleep(ctx, 5*time.Second))
}

// rollReplicas stops one replica after the other, and starts it again.
func (e *enforced) rollReplicas(ctx context.Context) error {
	for _, name := range replicaProcesses {
		err := errors.Join(e.c.Terminate(name), e.c.Restart(name, noColor), e.balancer.WaitReady(ctx))
		if err != nil {
			return err
		}
	}
	return nil
}

func replicasStopped(ctx context.Context, e *enforced) error { return e.rollReplicas(ctx) }

func replicaKilled(ctx context.Context, e *enforced) error {
	const victim = 0
	from := time.Now()
	if err := e.c.Kill(replicaProcesses[victim]); err != nil {
		return err
	}
	if err := e.balancer.WaitLeft(ctx, victim); err != nil {
		return err
	}
	e.faulty = append(e.faulty, span{from: from, to: e.balancer.Left(victim)})
	return errors.Join(cluster.Sleep(ctx, 3*time.Second), e.c.Restart(replicaProcesses[victim], noColor), e.balancer.WaitReady(ctx))
}

// slowWrites puts a proxy between kubequota and kube-apiserver.
func slowWrites(ctx context.Context, e *enforced) error {
	var slowed atomic.Int64
	address, err := e.c.SlowProxy(ctx, func(request *http.Request) (before, after time.Duration) {
		if request.Method != http.MethodPatch || !strings.HasSuffix(request.URL.Path, "/status") {
			return 0, 0
		}
		slowed.Add(1)
		pause := time.Duration(rand.IntN(1500)) * time.Millisecond
		if rand.IntN(2) == 0 {
			return pause, 0
		}
		return 0, pause
	})
	if err != nil {
		return err
	}
	through := func(ctx context.Context, address string) error {
		return errors.Join(e.c.Redirect(e.kubeconfig, address), e.c.Kill(controllerProcess), e.c.Restart(controllerProcess, noColor), e.rollReplicas(ctx))
	}
	e.after = append(e.after, func(ctx context.Context) error { return through(ctx, e.c.Server) })
	if err := errors.Join(through(ctx, address), cluster.Sleep(ctx, max(e.loadFor/2, 10*time.Second))); err != nil {
		return err
	}
	if slowed.Load() == 0 {
		return errors.New("no write was slow")
	}
	e.note("%d writes were slow", slowed.Load())
	return nil
}

// otherWebhook has creations in the namespace reviewed by somebody else too.
func (e *enforced) otherWebhook(ctx context.Context, timeout int, allows func() bool) error {
	url, ca, stop, err := e.c.Serve(http.HandlerFunc(func(answer http.ResponseWriter, request *http.Request) {
		var review struct {
			Request struct {
				UID string `json:"uid"`
			} `json:"request"`
		}
		if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
			http.Error(answer, err.Error(), http.StatusBadRequest)
			return
		}
		response := objects.M{"uid": review.Request.UID, "allowed": allows(), "status": objects.M{"message": onPurpose, "code": http.StatusForbidden}}
		answer.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(answer).Encode(objects.M{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
	}))
	if err != nil {
		return err
	}
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
	name := "other-" + e.scenario.name
	e.after = append(e.after, func(ctx context.Context) error {
		_, err := e.c.Admin.Delete(ctx, path+"/"+name, 0)
		stop()
		return err
	})
	_, err = e.c.Admin.Create(ctx, path, objects.M{"metadata": objects.M{"name": name}, "webhooks": objects.L{objects.M{
		"name": "other.example.com", "failurePolicy": "Fail", "sideEffects": "None", "timeoutSeconds": timeout,
		"admissionReviewVersions": objects.L{"v1"},
		"clientConfig":            objects.M{"url": url, "caBundle": ca},
		"namespaceSelector":       objects.M{"matchLabels": objects.M{"kubernetes.io/metadata.name": e.namespace}},
		"rules": objects.L{objects.M{"apiGroups": objects.L{""}, "apiVersions": objects.L{"v1"}, "operations": objects.L{"CREATE"},
			"resources": objects.L{"pods", "configmaps"}, "scope": "Namespaced"}},
	}}})
	return err
}

const onPurpose = "refused on purpose"

func refusedOnPurpose(f failure) bool { return strings.Contains(f.text, onPurpose) }

func refusingWebhook(ctx context.Context, e *enforced) error {
	var asked atomic.Int64
	if err := e.otherWebhook(ctx, 10, func() bool { return asked.Add(1)%2 == 0 }); err != nil {
		return err
	}
	if err := cluster.Sleep(ctx, max(e.loadFor-3*time.Second, 5*time.Second)); err != nil {
		return err
	}
	e.note("%d reviewed by the other one", asked.Load())
	if asked.Load() == 0 {
		return errors.New("the other webhook was not asked")
	}
	return nil
}

func slowWebhook(ctx context.Context, e *enforced) error {
	var asked atomic.Int64
	takes := e.grace * 4 / 7
	err := e.otherWebhook(ctx, 30, func() bool { asked.Add(1); time.Sleep(takes); return true })
	// Until a second round is under way.
	if err := errors.Join(err, cluster.Sleep(ctx, takes+5*time.Second)); err != nil {
		return err
	}
	e.note("%d reviewed by the other one", asked.Load())
	if asked.Load() < clients {
		return fmt.Errorf("the other webhook was asked %d times only", asked.Load())
	}
	return nil
}

// conflicts changes a quota as fast as one writer can.
func conflicts(ctx context.Context, e *enforced) error {
	ends, changes := time.Now().Add(e.loadFor-3*time.Second), 0
	for ; time.Now().Before(ends); changes++ {
		_, err := e.c.Admin.Patch(ctx, collection(e.namespace, "resourcequotas")+"/objects",
			objects.M{"metadata": objects.M{"annotations": objects.M{"change": fmt.Sprint(changes)}}})
		if err != nil {
			return err
		}
	}
	e.note("%d changes by somebody else", changes)
	return nil
}

func limitsEdited(ctx context.Context, e *enforced) error {
	ends, edits := time.Now().Add(e.loadFor-3*time.Second), 0
	set := func(ctx context.Context, quota string, hard objects.M) error {
		_, err := e.c.Admin.Patch(ctx, collection(e.namespace, "resourcequotas")+"/"+quota, objects.M{"spec": objects.M{"hard": hard}})
		return err
	}
	for ; time.Now().Before(ends); edits++ {
		err := errors.Join(
			set(ctx, "compute", objects.M{"requests.cpu": fmt.Sprintf("%dm", 500+rand.IntN(5000))}),
			set(ctx, "objects", objects.M{"pods": fmt.Sprint(rand.IntN(30)), "count/configmaps": fmt.Sprint(rand.IntN(15))}),
			cluster.Sleep(ctx, 700*time.Millisecond))
		if err != nil {
			return err
		}
	}
	e.note("%d edits", edits)
	return nil
}

// dryRuns are charged nothing: no quota is even written.
func dryRuns(ctx context.Context, e *enforced) error {
	filling := cpuPod("3700m")
	filling["metadata"] = objects.M{"name": "filling"}
	if _, err := e.c.Admin.Create(ctx, collection(e.namespace, "pods"), filling); err != nil {
		return err
	}
	other := e.namespace + "-beside"
	if err := e.makeNamespace(ctx, other, theQuotas); err != nil {
		return err
	}
	beside := startCrowd(ctx, e.c.Admin, other, e.seed+1, style{})
	defer beside.stop()
	before, err := e.revisions(ctx)
	if err != nil {
		return err
	}
	if err := cluster.Sleep(ctx, e.loadFor-3*time.Second); err != nil {
		return err
	}
	after, err := e.revisions(ctx)
	if err != nil {
		return err
	}
	if before != after {
		err = fmt.Errorf("the quotas were written: %s, then %s", before, after)
	}
	e.check("no quota was written", err)
	e.note("%d created beside", beside.sum(created))
	return nil
}

// revisions of the namespace's quotas.
func (e *enforced) revisions(ctx context.Context) (string, error) {
	list, err := e.c.Admin.Get(ctx, collection(e.namespace, "resourcequotas"))
	if err != nil {
		return "", err
	}
	var told []string
	items, _ := list["items"].([]any)
	for _, item := range items {
		meta, _ := item.(objects.M)["metadata"].(objects.M)
		told = append(told, fmt.Sprint(meta["name"], " ", meta["resourceVersion"]))
	}
	return strings.Join(told, ", "), nil
}
