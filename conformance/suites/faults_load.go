package suites

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
	"kubequota.dev/conformance/witness"
)

// faultNode is where pods are that nobody takes away: a deletion with grace leaves them until its time is over, and longer.
const faultNode = "node"

// answerWithin is how long a request of the load waits. What the server makes of it later is one of the things to get right.
const answerWithin = 5 * time.Second

// churn is the load on some namespaces: one worker for each, which creates, changes and deletes objects of every kind that quotas count, and
// goes on creating where a quota refuses.
type churn struct {
	client *cluster.Client
	cancel context.CancelFunc
	done   sync.WaitGroup

	made, refused, failed atomic.Int64
}

// startChurn starts it; it goes on until it is stopped. The same seed tries the same things, in the order that answers allow.
func startChurn(ctx context.Context, client *cluster.Client, namespaces []string, seed uint64) *churn {
	ctx, cancel := context.WithCancel(ctx)
	c := &churn{client: client, cancel: cancel}
	for i, namespace := range namespaces {
		w := &worker{churn: c, namespace: namespace, random: rand.New(rand.NewPCG(seed, uint64(i))), there: map[string][]string{}, ended: map[string]bool{}}
		c.done.Add(1)
		go func() {
			defer c.done.Done()
			for ctx.Err() == nil {
				w.step(ctx)
				select {
				case <-ctx.Done():
				case <-time.After(time.Duration(15+w.random.IntN(30)) * time.Millisecond):
				}
			}
		}()
	}
	return c
}

// stop ends it: no request is under way when it returns.
func (c *churn) stop() {
	c.cancel()
	c.done.Wait()
}

func (c *churn) String() string {
	return fmt.Sprintf("%d done, %d refused, %d failed", c.made.Load(), c.refused.Load(), c.failed.Load())
}

// worker does it in one namespace.
type worker struct {
	*churn
	namespace string
	random    *rand.Rand
	number    int
	// there are the names that were made and not deleted, by collection. Some may be gone all the same.
	there map[string][]string
	// ended are the pods that were told to have ended.
	ended map[string]bool
}

func (w *worker) step(ctx context.Context) {
	switch n := w.random.IntN(100); {
	case n < 26:
		w.create(ctx, "pods", w.pod())
	case n < 32:
		w.changePod(ctx)
	case n < 40:
		w.remove(ctx, "pods", 1+w.random.IntN(3))
	case n < 52:
		w.remove(ctx, "pods", 0)
	case n < 60:
		w.create(ctx, "configmaps", objects.M{"kind": "ConfigMap", "apiVersion": "v1"})
	case n < 66:
		w.remove(ctx, "configmaps", 0)
	case n < 72:
		w.create(ctx, "persistentvolumeclaims", w.claim())
	case n < 76:
		w.remove(ctx, "persistentvolumeclaims", 0)
	case n < 81:
		w.create(ctx, "services", w.service())
	case n < 84:
		w.changeService(ctx)
	case n < 87:
		w.remove(ctx, "services", 0)
	case n < 93:
		w.create(ctx, "widgets", objects.M{"kind": "Widget", "apiVersion": witness.Group + "/v1"})
	default:
		w.remove(ctx, "widgets", 0)
	}
}

func collection(namespace, resource string) string {
	root := "/api/v1"
	if slices.Contains([]string{"widgets", "gadgets", "gizmos"}, resource) {
		root = "/apis/" + witness.Group + "/v1"
	}
	return root + "/namespaces/" + namespace + "/" + resource
}

// create creates an object under a new name.
func (w *worker) create(ctx context.Context, resource string, body objects.M) {
	w.number++
	name := fmt.Sprintf("c%d", w.number)
	body["metadata"] = objects.M{"name": name}
	err := w.send(ctx, func(ctx context.Context) error {
		_, err := w.client.Create(ctx, collection(w.namespace, resource), body)
		return err
	})
	// Without an answer it may be there.
	var refusal *cluster.Refusal
	if err == nil || !errors.As(err, &refusal) {
		w.there[resource] = append(w.there[resource], name)
	}
}

func (w *worker) remove(ctx context.Context, resource string, grace int) {
	name, found := w.any(resource)
	if !found {
		return
	}
	err := w.send(ctx, func(ctx context.Context) error {
		_, err := w.client.Delete(ctx, collection(w.namespace, resource)+"/"+name, grace)
		return err
	})
	// A pod that is deleted with grace stays: it may be deleted for good later, or never.
	if err == nil && grace == 0 || cluster.IsCode(err, 404) {
		w.there[resource] = slices.DeleteFunc(w.there[resource], func(other string) bool { return other == name })
	}
}

// changePod lets a pod begin or end. One that has ended never runs again: nobody would charge for it.
func (w *worker) changePod(ctx context.Context) {
	name, found := w.any("pods")
	if !found {
		return
	}
	phase := pickOf(w.random, "Succeeded", "Failed", "Running", "Running")
	if phase == "Running" && w.ended[name] {
		return
	}
	w.ended[name] = phase != "Running"
	_ = w.send(ctx, func(ctx context.Context) error {
		_, err := w.client.Patch(ctx, collection(w.namespace, "pods")+"/"+name+"/status", objects.M{"status": objects.M{"phase": phase}})
		return err
	})
}

// changeService makes it use more or fewer node ports.
func (w *worker) changeService(ctx context.Context) {
	if name, found := w.any("services"); found {
		kind := pickOf(w.random, "ClusterIP", "NodePort")
		_ = w.send(ctx, func(ctx context.Context) error {
			_, err := w.client.Patch(ctx, collection(w.namespace, "services")+"/"+name, objects.M{"spec": objects.M{"type": kind}})
			return err
		})
	}
}

func (w *worker) any(resource string) (string, bool) {
	names := w.there[resource]
	if len(names) == 0 {
		return "", false
	}
	return names[w.random.IntN(len(names))], true
}

func (w *worker) send(ctx context.Context, request func(context.Context) error) error {
	// An answer that is awaited when the load stops is waited for.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	err := request(ctx)
	var refusal *cluster.Refusal
	switch {
	case err == nil:
		w.made.Add(1)
	case errors.As(err, &refusal) && refusal.Code < 500:
		w.refused.Add(1)
	default:
		w.failed.Add(1)
	}
	return err
}

func (w *worker) pod() objects.M {
	resources := objects.M{
		"requests": objects.M{"cpu": pickOf(w.random, "100m", "250m", "0.3"), "memory": pickOf(w.random, "64Mi", "200M", "0.5Gi")},
		"limits":   objects.M{"cpu": pickOf(w.random, "1", "500m"), "memory": "1Gi"},
	}
	if w.random.IntN(100) < 30 {
		resources = objects.M{}
	}
	made := faultPod(resources)
	spec := made["spec"].(objects.M)
	if w.random.IntN(100) < 30 {
		spec["priorityClassName"] = "high"
	}
	if w.random.IntN(100) < 25 {
		spec["activeDeadlineSeconds"] = 3600
	}
	if w.random.IntN(100) < 30 {
		delete(spec, "nodeName")
	}
	return made
}

// faultPod is a pod without a name, on a node that does not run it.
func faultPod(resources objects.M) objects.M {
	return objects.M{"kind": "Pod", "apiVersion": "v1", "spec": objects.M{
		"nodeName":   faultNode,
		"containers": objects.L{objects.M{"name": "c", "image": "example.com/image", "resources": resources}},
	}}
}

func (w *worker) claim() objects.M {
	spec := objects.M{"accessModes": objects.L{"ReadWriteOnce"},
		"resources": objects.M{"requests": objects.M{"storage": pickOf(w.random, "1Gi", "5G", "2.5Gi")}}}
	if w.random.IntN(100) < 50 {
		spec["storageClassName"] = "gold"
	}
	return objects.M{"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": spec}
}

func (w *worker) service() objects.M {
	ports := objects.L{objects.M{"name": "a", "port": 80}}
	if w.random.IntN(100) < 40 {
		ports = append(ports, objects.M{"name": "b", "port": 81})
	}
	return objects.M{"kind": "Service", "apiVersion": "v1",
		"spec": objects.M{"type": pickOf(w.random, "ClusterIP", "ClusterIP", "NodePort"), "ports": ports}}
}

func pickOf[T any](random *rand.Rand, from ...T) T { return from[random.IntN(len(from))] }

// quotasOf are the quotas of a namespace under churn, in one of several variants: plain and scoped, most of them soon full.
func quotasOf(variant int) map[string]objects.M {
	hard := func(limits objects.M) objects.M { return objects.M{"hard": limits} }
	scoped := func(limits objects.M, scopes ...any) objects.M {
		return objects.M{"hard": limits, "scopes": objects.L(scopes)}
	}
	high := func(limits objects.M) objects.M {
		return objects.M{"hard": limits, "scopeSelector": objects.M{"matchExpressions": objects.L{
			objects.M{"scopeName": "PriorityClass", "operator": "In", "values": objects.L{"high"}}}}}
	}
	switch variant % 3 {
	case 0:
		return map[string]objects.M{
			"compute": hard(objects.M{"pods": "14", "requests.cpu": "3", "requests.memory": "4Gi", "limits.cpu": "9"}),
			"objects": hard(objects.M{"count/configmaps": "10", "persistentvolumeclaims": "6", "requests.storage": "15Gi", "services": "6",
				"services.nodeports": "4", "count/widgets." + witness.Group: "7", "count/pods": "45"}),
			"high": high(objects.M{"pods": "5", "requests.cpu": "1"}),
		}
	case 1:
		return map[string]objects.M{
			"plain":       hard(objects.M{"pods": "16", "count/pods": "50", "configmaps": "8", "count/services": "5"}),
			"besteffort":  scoped(objects.M{"pods": "5"}, "BestEffort"),
			"terminating": scoped(objects.M{"pods": "4", "count/pods": "12"}, "Terminating"),
			"gold": hard(objects.M{"gold.storageclass.storage.k8s.io/requests.storage": "9Gi", "count/persistentvolumeclaims": "7",
				"gold.storageclass.storage.k8s.io/persistentvolumeclaims": "3"}),
		}
	default:
		return map[string]objects.M{
			"small": hard(objects.M{"pods": "6", "count/widgets." + witness.Group: "4", "services.nodeports": "2"}),
			"wide":  hard(objects.M{"pods": "40", "requests.storage": "60Gi", "count/configmaps": "25", "limits.memory": "40Gi"}),
			"high":  high(objects.M{"pods": "3"}),
		}
	}
}
