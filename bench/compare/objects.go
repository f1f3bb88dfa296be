package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"kubequota.dev/conformance/cluster"
)

type object = cluster.Object

// colour is a kind of device that a pod asks for. Pods of one colour are deleted while pods of the other are created, so what a quota has used
// of the first only falls, and by deletes alone: it says how many of them it shows, whatever else happens.
type colour int

const red, blue colour = 0, 1

func (c colour) other() colour { return 1 - c }

func (c colour) resource() string { return [...]string{"example.com/red", "example.com/blue"}[c] }

// used is the name by which a quota counts it.
func (c colour) used() string { return "requests." + c.resource() }

// quotas are the two of a namespace: what its pods ask for, and how many objects it has.
func quotas() map[string]object {
	colours := object{red.used(): "100k", blue.used(): "100k"}
	compute := object{
		"pods": "100k", "requests.cpu": "100k", "requests.memory": "1Pi", "limits.cpu": "100k", "limits.memory": "1Pi",
		"requests.ephemeral-storage": "1Pi",
	}
	objects := object{
		"count/pods": "100k", "configmaps": "100k", "secrets": "100k", "services": "100k", "persistentvolumeclaims": "100k",
		"count/deployments.apps": "100k",
	}
	maps.Copy(compute, colours)
	maps.Copy(objects, colours)
	made := map[string]object{}
	for name, hard := range map[string]object{"compute": compute, "objects": objects} {
		made[name] = object{
			"apiVersion": "v1", "kind": "ResourceQuota", "metadata": object{"name": name}, "spec": object{"hard": hard},
		}
	}
	return made
}

// expected is what both quotas of a namespace must say, in thousandths.
func expected(reds, blues, configMaps int) map[string]map[string]int64 {
	pods := int64(reds + blues)
	const mebi = 1 << 20
	colours := map[string]int64{red.used(): int64(reds) * 1000, blue.used(): int64(blues) * 1000}
	compute := map[string]int64{
		"pods": pods * 1000, "requests.cpu": pods * 400, "requests.memory": pods * 448 * mebi * 1000,
		"limits.cpu": pods * 1700, "limits.memory": pods * 896 * mebi * 1000, "requests.ephemeral-storage": pods * 1024 * mebi * 1000,
	}
	objects := map[string]int64{
		"count/pods": pods * 1000, "configmaps": int64(configMaps) * 1000, "secrets": 0, "services": 0, "persistentvolumeclaims": 0,
		"count/deployments.apps": 0,
	}
	maps.Copy(compute, colours)
	maps.Copy(objects, colours)
	return map[string]map[string]int64{"compute": compute, "objects": objects}
}

// pod is one as a Deployment makes them: an application and two sidecars, with its environment, volumes and a probe.
func pod(name, of string, c colour) []byte {
	environment := func(n int) []any {
		var variables []any
		for i := range n {
			variables = append(variables, object{"name": fmt.Sprintf("SERVICE_SETTING_%02d", i), "value": fmt.Sprintf("value-of-setting-%02d", i)})
		}
		return append(variables, object{"name": "POD_IP", "valueFrom": object{"fieldRef": object{"fieldPath": "status.podIP"}}})
	}
	mounts := []any{
		object{"name": "config", "mountPath": "/etc/app", "readOnly": true},
		object{"name": "scratch", "mountPath": "/var/scratch"},
		object{"name": "token", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount", "readOnly": true},
	}
	amounts := func(cpu, memory, cpuLimit, memoryLimit string) object {
		return object{
			"requests": object{"cpu": cpu, "memory": memory}, "limits": object{"cpu": cpuLimit, "memory": memoryLimit},
		}
	}
	application := amounts("250m", "256Mi", "1", "512Mi")
	application["requests"].(object)["ephemeral-storage"] = "1Gi"
	application["requests"].(object)[c.resource()] = "1"
	application["limits"].(object)[c.resource()] = "1"
	probe := object{"httpGet": object{"path": "/healthz", "port": 8080}, "periodSeconds": 10, "timeoutSeconds": 2}
	return marshal(object{
		"apiVersion": "v1", "kind": "Pod",
		"metadata": object{
			"name": name, "namespace": of,
			"labels": object{
				"app.kubernetes.io/name": "checkout", "app.kubernetes.io/part-of": "shop", "app.kubernetes.io/version": "1.27.3",
				"pod-template-hash": "6c9b7f5d84", "team": of,
			},
			"annotations": object{
				"checksum/config": strings.Repeat("3f9a", 16), "kubectl.kubernetes.io/restartedAt": "2026-01-02T03:04:05Z",
			},
		},
		"spec": object{
			"nodeName": "node-017", "serviceAccountName": "checkout", "terminationGracePeriodSeconds": 30, "dnsPolicy": "ClusterFirst",
			"volumes": []any{
				object{"name": "config", "configMap": object{"name": "checkout-config"}},
				object{"name": "scratch", "emptyDir": object{}},
				object{"name": "token", "projected": object{"sources": []any{
					object{"serviceAccountToken": object{"path": "token", "expirationSeconds": 3607}},
				}}},
			},
			"containers": []any{
				object{
					"name": "app", "image": "registry.example.com/shop/checkout:1.27.3", "args": []any{"--listen=:8080", "--log-level=info"},
					"env": environment(3), "resources": application, "volumeMounts": mounts,
					"ports": []any{object{"name": "http", "containerPort": 8080}}, "readinessProbe": probe,
				},
				object{
					"name": "proxy", "image": "registry.example.com/mesh/proxy:2.9.1", "resources": amounts("100m", "128Mi", "500m", "256Mi"), "volumeMounts": mounts[2:],
				},
				object{
					"name": "logs", "image": "registry.example.com/logs/agent:5.0.2", "resources": amounts("50m", "64Mi", "200m", "128Mi"), "volumeMounts": mounts[1:],
				},
			},
		},
	})
}

// podStatus is what a kubelet says of a pod that runs.
func podStatus() []byte {
	const at = "2026-01-02T03:04:05Z"
	var conditions, containers []any
	for _, condition := range []string{"Initialized", "Ready", "ContainersReady"} {
		conditions = append(conditions, object{"type": condition, "status": "True", "lastTransitionTime": at})
	}
	for _, name := range []string{"app", "proxy", "logs"} {
		containers = append(containers, object{
			"name": name, "image": "registry.example.com/" + name, "imageID": "registry.example.com/" + name + "@sha256:" + strings.Repeat("5e", 32),
			"containerID": "containerd://" + strings.Repeat("a7", 32), "ready": true, "started": true, "restartCount": 0,
			"state": object{"running": object{"startedAt": at}},
		})
	}
	return marshal(object{"status": object{
		"phase": "Running", "podIP": "10.1.2.3", "podIPs": []any{object{"ip": "10.1.2.3"}}, "hostIP": "10.0.0.17", "startTime": at,
		"qosClass": "Burstable", "conditions": conditions, "containerStatuses": containers,
	}})
}

func configMap(name string) []byte {
	return marshal(object{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name, "labels": object{"app.kubernetes.io/name": "checkout"}},
		"data": object{"settings.yaml": strings.Repeat("key: value\n", 20)},
	})
}

// marshal can't fail: what it is given is made of texts, numbers, lists and maps.
func marshal(o object) []byte {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return text
}
