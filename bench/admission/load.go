package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"kubequota.dev/conformance/cluster"
)

// sample is one load on one side.
type sample struct {
	took time.Duration
	// waits are how long each create took that succeeded.
	waits []time.Duration
	// failed are the others, by the answer.
	failed map[string]int
	spent  spent
}

func (s sample) throughput() float64 { return float64(len(s.waits)) / s.took.Seconds() }

// made counts all pods: no name comes twice.
var made atomic.Int64

func nextName() string { return fmt.Sprintf("web-%d", made.Add(1)) }

// try lets clients create for a while, and cleans up after them. Each sends its next create once the last one is answered, on a connection
// of its own that stays open; none comes again after a failure, so that all show.
func (s *side) try(ctx context.Context, cell cell, duration time.Duration) (sample, error) {
	before, err := s.counted(ctx)
	if err != nil {
		return sample{}, err
	}
	if before.busy, err = s.busy(); err != nil {
		return sample{}, err
	}
	names := cell.names()
	each := make([]sample, cell.clients)
	errs := make([]error, cell.clients)
	var clients sync.WaitGroup
	began := time.Now()
	for i := range cell.clients {
		clients.Go(func() {
			each[i].failed = map[string]int{}
			for k := 0; time.Since(began) < duration && errs[i] == nil; k++ {
				// No two clients meet in a namespace while there are enough.
				errs[i] = s.create(ctx, names[(i+k*cell.clients)%len(names)], &each[i])
			}
		})
	}
	clients.Wait()
	all := sample{took: time.Since(began), failed: map[string]int{}}
	if err := errors.Join(errs...); err != nil {
		return all, err
	}
	busy, err := s.busy()
	if err != nil {
		return all, err
	}
	after, err := s.counted(ctx)
	if err != nil {
		return all, err
	}
	after.busy = busy
	for _, one := range each {
		all.waits = append(all.waits, one.waits...)
		for kind, n := range one.failed {
			all.failed[kind] += n
		}
	}
	if len(all.waits) == 0 {
		return all, fmt.Errorf("nothing could be created: %v", all.failed)
	}
	all.spent = after.since(before)
	slices.Sort(all.waits)
	return all, s.empty(ctx, cell)
}

func (s *side) create(ctx context.Context, namespace string, into *sample) error {
	body, err := json.Marshal(pod(nextName(), "100m"))
	if err != nil {
		return err
	}
	began := time.Now()
	response, err := s.cluster.Admin.Request(ctx, http.MethodPost, podsOf(namespace), http.Header{"Content-Type": {"application/json"}}, body)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	wait := time.Since(began)
	if response.StatusCode == http.StatusCreated {
		into.waits = append(into.waits, wait)
		return nil
	}
	var status struct{ Reason string }
	_ = json.Unmarshal(answer, &status)
	into.failed[fmt.Sprintf("%d %s", response.StatusCode, status.Reason)]++
	return nil
}

// pod is one as a Deployment of a web service makes them.
func pod(name, cpu string) cluster.Object {
	type object = cluster.Object
	type list = []any
	probe := object{"httpGet": object{"path": "/healthz", "port": 8080}, "periodSeconds": 10}
	return object{"kind": "Pod", "apiVersion": "v1",
		"metadata": object{"name": name, "labels": object{
			"app.kubernetes.io/name": "web", "app.kubernetes.io/instance": "web-production", "app.kubernetes.io/version": "1.14.2",
			"pod-template-hash": "6b9c8d7f54",
		}, "annotations": object{"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}},
		"spec": object{
			"automountServiceAccountToken": false,
			"securityContext":              object{"runAsNonRoot": true, "runAsUser": 65532, "fsGroup": 65532},
			"containers": list{
				object{"name": "web", "image": "example.com/web:1.14.2", "args": list{"--listen=:8080", "--log-format=json"},
					"ports": list{object{"name": "http", "containerPort": 8080}}, "livenessProbe": probe, "readinessProbe": probe,
					"env": list{object{"name": "DATABASE_HOST", "value": "postgres.production.svc"},
						object{"name": "POD_NAME", "valueFrom": object{"fieldRef": object{"fieldPath": "metadata.name"}}},
						object{"name": "PASSWORD", "valueFrom": object{"secretKeyRef": object{"name": "database", "key": "password"}}}},
					"resources":       object{"requests": object{"cpu": cpu, "memory": "128Mi"}, "limits": object{"cpu": cpu, "memory": "256Mi"}},
					"securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": list{"ALL"}}},
					"volumeMounts":    list{object{"name": "settings", "mountPath": "/etc/web"}, object{"name": "scratch", "mountPath": "/tmp"}}},
				object{"name": "proxy", "image": "example.com/proxy:2.3.0", "ports": list{object{"name": "metrics", "containerPort": 9090}},
					"resources": object{"requests": object{"cpu": "50m", "memory": "64Mi"}, "limits": object{"cpu": "200m", "memory": "128Mi"}}},
			},
			"volumes": list{object{"name": "settings", "configMap": object{"name": "web-settings"}},
				object{"name": "scratch", "emptyDir": object{"sizeLimit": "64Mi"}}},
		}}
}
