package suites

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

var audit = Suite{
	Name:   "audit",
	Proves: "kubequota audit computes from files what upstream's controller records, for every kind, scope and operator",
	Examples: []string{
		"audit",
		"audit --seed 7",
	},
	Binaries: binaries.ControlPlaneSet,
	Deadline: 6 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		seed := flags.Uint64("seed", 1, "which population of objects to make")
		return Steps{
			Build: kubequotaFlag(flags),
			Judge: func(ctx context.Context, run *Run) error {
				dump := filepath.Join(run.Folder, "dump")
				now, err := dumpCounted(ctx, run, *seed, dump)
				if err != nil {
					return err
				}
				return judgeAudit(ctx, run, auditor{run: run, now: now}, dump)
			},
		}
	},
}

// dumpCounted fills a cluster, lets upstream's controller count it, and writes it to files. It returns the time of the dump.
func dumpCounted(ctx context.Context, run *Run, seed uint64, folder string) (now time.Time, err error) {
	run.Log("starting etcd and kube-apiserver")
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return now, err
	}
	set := objects.Generate(seed)
	run.Log("creating %d objects and %d quotas in %d namespaces (seed %d)", len(set.Objects), len(set.Quotas), len(set.Namespaces), seed)
	if err := populate(ctx, c, set); err != nil {
		return now, err
	}
	const resync = 10 * time.Second
	run.Log("starting upstream's controller and waiting for two of its full resyncs (%s) without a change", resync)
	// No other controller runs: nothing may change once it has been counted.
	err = c.StartControllers(ctx, []string{cluster.QuotaController}, "--resource-quota-sync-period", resync.String())
	if err != nil {
		return now, err
	}
	if err := waitUntilCounted(ctx, c, resync); err != nil {
		return now, err
	}
	now = time.Now().UTC().Truncate(time.Second)
	run.Log("dumping")
	return now, writeDump(ctx, c, folder)
}

// populate creates a population and does to it what it says.
func populate(ctx context.Context, c *cluster.Cluster, set objects.Set) error {
	uids := map[string]any{} // of pods, by namespace and name
	createAll := func(part []*objects.Object) error {
		for _, object := range part {
			if err := create(ctx, c.Admin, object, uids); err != nil {
				return fmt.Errorf("%s: %w", object.Path(), err)
			}
		}
		return nil
	}
	if err := createAll(set.Cluster); err != nil {
		return err
	}
	// Widgets can be created only some time after their definition.
	if err := c.WaitServed(ctx, "/apis/example.com/v1/widgets", time.Minute); err != nil {
		return err
	}
	if err := createAll(set.Objects); err != nil {
		return err
	}
	return createAll(set.Quotas)
}

func create(ctx context.Context, client *cluster.Client, object *objects.Object, uids map[string]any) error {
	body := maps.Clone(object.Body)
	metadata := maps.Clone(body["metadata"].(objects.M))
	body["metadata"] = metadata
	if object.OwnerPod != "" {
		uid, made := uids[fmt.Sprint(metadata["namespace"], "/", object.OwnerPod)]
		if !made {
			return fmt.Errorf("its owner %s must be made first", object.OwnerPod)
		}
		metadata["ownerReferences"] = objects.L{
			objects.M{"apiVersion": "v1", "kind": "Pod", "name": object.OwnerPod, "uid": uid, "controller": true}}
	}
	created, err := client.Create(ctx, object.Collection, body)
	if err != nil {
		return err
	}
	if body["kind"] == "Pod" {
		uids[fmt.Sprint(metadata["namespace"], "/", metadata["name"])] = created["metadata"].(objects.M)["uid"]
	}
	if object.Resize != nil {
		if _, err := client.Patch(ctx, object.Path()+"/resize", object.Resize); err != nil {
			return err
		}
	}
	if object.Status != nil {
		if _, err := client.Patch(ctx, object.Path()+"/status", objects.M{"status": object.Status}); err != nil {
			return err
		}
	}
	if object.DeleteGrace != nil {
		if _, err := client.Delete(ctx, object.Path(), *object.DeleteGrace); err != nil {
			return err
		}
	}
	return nil
}

// waitUntilCounted waits until the controller has seen every quota, and then for two of its full resyncs that change nothing.
func waitUntilCounted(ctx context.Context, c *cluster.Cluster, resync time.Duration) error {
	// Each resync is a timer of the controller's own; a second more makes sure that two are over.
	quiet := 2*resync + time.Second
	deadline := time.Now().Add(3 * time.Minute)
	var last map[string]string
	since := time.Now()
	for {
		versions, missing, err := quotaVersions(ctx, c)
		if err != nil {
			return err
		}
		if missing != "" || !maps.Equal(versions, last) {
			last, since = versions, time.Now()
		}
		if time.Since(since) >= quiet {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("upstream's controller did not come to rest in time (still waiting for: %s); see kube-controller-manager.log", missing)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

// quotaVersions lists the resourceVersion of every quota, and names one that has no complete status yet.
func quotaVersions(ctx context.Context, c *cluster.Cluster) (versions map[string]string, missing string, err error) {
	list, err := c.Admin.Get(ctx, "/api/v1/resourcequotas")
	if err != nil {
		return nil, "", err
	}
	quotas, err := decodeQuotas(list)
	if err != nil {
		return nil, "", err
	}
	versions = map[string]string{}
	for _, quota := range quotas {
		versions[quota.key()] = quota.Metadata.ResourceVersion
		if len(quota.Status.Hard) != len(quota.Spec.Hard) {
			missing = quota.key()
		}
	}
	return versions, missing, nil
}

// quotaObject is the little of a ResourceQuota that this suite reads.
type quotaObject struct {
	Metadata struct{ Namespace, Name, ResourceVersion string }
	Spec     struct{ Hard map[string]string }
	Status   struct{ Hard, Used map[string]string }
}

func (q quotaObject) key() string { return q.Metadata.Namespace + "/" + q.Metadata.Name }

func decodeQuotas(list cluster.Object) ([]quotaObject, error) {
	text, err := json.Marshal(list["items"])
	if err != nil {
		return nil, err
	}
	var quotas []quotaObject
	return quotas, json.Unmarshal(text, &quotas)
}

// quotasFile is the part of the dump that holds what upstream recorded.
const quotasFile = "resourcequotas.json"

// writeDump writes the cluster as an administrator might: several files, lists of one kind and of many, YAML and JSON.
func writeDump(ctx context.Context, c *cluster.Cluster, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for _, file := range []struct{ name, format, resources string }{
		{"pods.yaml", "yaml", "pods"},
		{"services-and-claims.json", "json", "services,persistentvolumeclaims,resourceclaims"},
		{"cluster.yaml", "yaml", "deviceclasses,customresourcedefinitions,namespaces"},
		{"counted.yaml", "yaml", "configmaps,secrets,replicationcontrollers,serviceaccounts,endpoints,events,widgets"},
		{"workloads.json", "json", "deployments,statefulsets,jobs,leases,ingresses,networkpolicies"},
		{quotasFile, "json", "resourcequotas"},
	} {
		text, err := c.Kubectl(ctx, "get", file.resources, "--all-namespaces", "--output", file.format)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, file.name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}
