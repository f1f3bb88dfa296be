package objects

import (
	"fmt"
	"strings"
)

// counted makes objects that are only counted: some of each kind, and the kinds that quotas know by a second name.
func (g *generator) counted() {
	selector := M{"matchLabels": M{"app": "x"}}
	template := M{"metadata": M{"labels": M{"app": "x"}}, "spec": M{"containers": L{container("c", nil, nil)}}}
	job := M{"metadata": M{"labels": M{"job": "x"}}, "spec": M{"restartPolicy": "Never", "containers": L{container("c", nil, nil)}}}
	for _, kind := range []struct {
		groupVersion, resource, kind string
		fields                       M
	}{
		{"v1", "configmaps", "ConfigMap", M{"data": M{"a": "b"}}},
		{"v1", "secrets", "Secret", M{"stringData": M{"a": "b"}}},
		{"v1", "replicationcontrollers", "ReplicationController", M{"spec": M{"replicas": 2, "selector": M{"app": "x"}, "template": template}}},
		{"v1", "serviceaccounts", "ServiceAccount", nil},
		{"v1", "endpoints", "Endpoints", nil},
		{"v1", "events", "Event", M{"involvedObject": M{"namespace": g.namespace, "kind": "Pod", "name": "x"}}}, // never counted
		{"apps/v1", "deployments", "Deployment", M{"spec": M{"replicas": 3, "selector": selector, "template": template}}},
		{"apps/v1", "statefulsets", "StatefulSet", M{"spec": M{"serviceName": "x", "selector": selector, "template": template}}},
		{"batch/v1", "jobs", "Job", M{"spec": M{"template": job}}},
		{"coordination.k8s.io/v1", "leases", "Lease", nil},
		{"networking.k8s.io/v1", "ingresses", "Ingress", M{"spec": M{"defaultBackend": M{"service": M{"name": "x", "port": M{"number": 80}}}}}},
		{"networking.k8s.io/v1", "networkpolicies", "NetworkPolicy", M{"spec": M{"podSelector": M{}}}},
		{"example.com/v1", "widgets", "Widget", M{"spec": M{"size": 1}}},
	} {
		for i := range g.random.IntN(4) {
			g.add(kind.groupVersion, kind.resource, kind.kind, fmt.Sprintf("%s-%d", strings.ToLower(kind.kind), i), kind.fields)
		}
	}
}
