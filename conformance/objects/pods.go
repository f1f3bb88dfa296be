package objects

import (
	"fmt"
	"strings"
)

// pods makes random pods, and then one of each shape that chance would seldom hit.
func (g *generator) pods() {
	for i := range 30 {
		g.randomPod(fmt.Sprintf("pod-%02d", i))
	}
	g.finishedPods()
	g.deletedPods()
	g.resizedPods()
	g.podLevelPods()
}

func (g *generator) pod(name string, spec M) *Object {
	return g.add("v1", "pods", "Pod", name, M{"spec": spec})
}

// container makes a container; with a nil argument the field is left out.
func container(name string, requests, limits M) M {
	resources := M{}
	if requests != nil {
		resources["requests"] = requests
	}
	if limits != nil {
		resources["limits"] = limits
	}
	return M{"name": name, "image": "example.com/image", "resources": resources}
}

func (g *generator) randomPod(name string) {
	spec := M{}
	bestEffort := g.chance(15)
	containers := L{}
	for i := range 1 + g.random.IntN(3) {
		containers = append(containers, g.randomContainer(fmt.Sprintf("c%d", i), bestEffort))
	}
	spec["containers"] = containers
	if g.chance(50) {
		inits := L{}
		for i := range 1 + g.random.IntN(3) {
			c := g.randomContainer(fmt.Sprintf("i%d", i), bestEffort)
			if g.chance(50) {
				c["restartPolicy"] = "Always" // a sidecar
			}
			inits = append(inits, c)
		}
		spec["initContainers"] = inits
	}
	if class := pick(g, "", "", "low", "high"); class != "" {
		spec["priorityClassName"] = class
	}
	if g.chance(25) {
		spec["activeDeadlineSeconds"] = 3600
	}
	if g.chance(20) {
		spec["runtimeClassName"] = "sandboxed"
	}
	if g.chance(40) {
		spec["affinity"] = g.affinity()
	}
	g.pod(name, spec)
}

// randomContainer asks for random resources, in every way of writing a quantity.
func (g *generator) randomContainer(name string, bestEffort bool) M {
	requests, limits := M{}, M{}
	ask := func(resource, request, limit string) {
		switch g.random.IntN(5) {
		case 0:
			requests[resource] = request
		case 1:
			limits[resource] = limit // the server then sets the request
		case 2:
			requests[resource], limits[resource] = request, limit
		case 3:
			requests[resource], limits[resource] = request, request
		}
	}
	if !bestEffort {
		ask("cpu", pick(g, "100m", "0.5", "1", "1500m", "0", "25e-2", "0.0001"), pick(g, "2", "2.5", "3000m", "1e1"))
		ask("memory", pick(g, "64Mi", "100M", "128974848", "129e6", "0.5Ki", "1Gi", "1500.5"), pick(g, "1.5Gi", "2G", "2e9", "4Gi"))
		if g.chance(15) {
			requests["cpu"], requests["hugepages-2Mi"], limits["hugepages-2Mi"] = "10m", "4Mi", "4Mi"
			delete(limits, "cpu")
		}
	}
	ask("ephemeral-storage", pick(g, "1Gi", "500M", "1e8"), pick(g, "2Gi", "3e9"))
	if g.chance(15) {
		resource := pick(g, "example.com/gpu", "vendor.example.com/fpga", "other.example.com/thing", "deviceclass.resource.kubernetes.io/nic")
		amount := pick(g, "1", "2", "3")
		requests[resource], limits[resource] = amount, amount
	}
	return container(name, requests, limits)
}

// affinity is with the pod's own namespace or, in every way it can be written, with others.
func (g *generator) affinity() M {
	term := M{"topologyKey": "kubernetes.io/hostname", "labelSelector": M{"matchLabels": M{"app": "x"}}}
	switch g.random.IntN(4) {
	case 0:
		term["namespaces"] = L{"team-a", "team-b"}
	case 1:
		term["namespaceSelector"] = M{}
	case 2:
		term["namespaceSelector"] = M{"matchLabels": M{"tier": "db"}}
	}
	kind := pick(g, "podAffinity", "podAntiAffinity")
	if g.chance(50) {
		return M{kind: M{"requiredDuringSchedulingIgnoredDuringExecution": L{term}}}
	}
	return M{kind: M{"preferredDuringSchedulingIgnoredDuringExecution": L{M{"weight": 10, "podAffinityTerm": term}}}}
}

// finishedPods count for count/pods and nothing else.
func (g *generator) finishedPods() {
	for _, phase := range []string{"Succeeded", "Failed", "Running"} {
		pod := g.pod("phase-"+strings.ToLower(phase), M{
			"containers": L{container("c", M{"cpu": "300m", "memory": "100Mi"}, nil)},
		})
		pod.Status = M{"phase": phase}
	}
}

// deletedPods stay in storage: a kubelet, which this cluster lacks, would remove them. They count until their grace has run out.
func (g *generator) deletedPods() {
	resources := container("c", M{"cpu": "700m", "memory": "70Mi", "ephemeral-storage": "7Gi"}, M{"cpu": "1", "memory": "1Gi"})
	g.pod("deleted-grace-left", M{"nodeName": "lost", "containers": L{resources}}).DeleteGrace = new(7200)
	g.pod("deleted-grace-over", M{"nodeName": "lost", "containers": L{resources}}).DeleteGrace = new(1)
	// Without a node there is no grace, and only a finalizer keeps it.
	pod := g.add("v1", "pods", "Pod", "deleted-finalizer", M{
		"metadata": M{"finalizers": L{"example.com/keep"}}, "spec": M{"containers": L{resources}}})
	pod.DeleteGrace = new(7200)
}

// resizedPods have every shape of status that an in-place resize goes through.
func (g *generator) resizedPods() {
	spec := func() M {
		sidecar := container("side", M{"cpu": "100m", "memory": "50Mi"}, M{"cpu": "200m", "memory": "100Mi"})
		sidecar["restartPolicy"] = "Always"
		return M{
			"nodeName":       "node",
			"containers":     L{container("main", M{"cpu": "1", "memory": "1Gi"}, M{"cpu": "2", "memory": "2Gi"})},
			"initContainers": L{sidecar, container("first", M{"cpu": "1500m", "memory": "100Mi"}, M{"cpu": "1500m", "memory": "3Gi"})},
		}
	}
	infeasible := L{M{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}}
	deferred := L{M{"type": "PodResizePending", "status": "True", "reason": "Deferred"}}
	more := M{"requests": M{"cpu": "1750m", "memory": "1100Mi"}, "limits": M{"cpu": "2500m", "memory": "2100Mi"}}
	less := M{"requests": M{"cpu": "500m", "memory": "900Mi"}, "limits": M{"cpu": "1", "memory": "950Mi"}}
	status := func(name string, allocated, resources M) M {
		s := M{"name": name, "image": "example.com/image", "imageID": "", "ready": true, "restartCount": 0}
		if allocated != nil {
			s["allocatedResources"] = allocated
		}
		if resources != nil {
			s["resources"] = resources
		}
		return s
	}
	shapes := map[string]M{
		"resize-none":                 {"containerStatuses": L{status("main", nil, nil)}},
		"resize-allocated-more":       {"containerStatuses": L{status("main", M{"cpu": "1250m", "memory": "1200Mi"}, nil)}},
		"resize-allocated-less":       {"containerStatuses": L{status("main", M{"cpu": "250m"}, nil)}},
		"resize-actual-more":          {"containerStatuses": L{status("main", M{"cpu": "1", "memory": "1Gi"}, more)}},
		"resize-actual-less":          {"containerStatuses": L{status("main", M{"cpu": "1", "memory": "1Gi"}, less)}},
		"resize-actual-only":          {"containerStatuses": L{status("main", nil, more)}},
		"resize-actual-empty":         {"containerStatuses": L{status("main", M{"cpu": "2"}, M{})}},
		"resize-limits-only":          {"containerStatuses": L{status("main", nil, M{"limits": M{"cpu": "9", "memory": "9Gi"}})}},
		"resize-sidecar":              {"initContainerStatuses": L{status("side", M{"cpu": "800m"}, more), status("first", nil, less)}},
		"resize-deferred":             {"conditions": deferred, "containerStatuses": L{status("main", M{"cpu": "500m"}, less)}},
		"resize-infeasible":           {"conditions": infeasible, "containerStatuses": L{status("main", M{"cpu": "500m"}, less)}},
		"resize-infeasible-allocated": {"conditions": infeasible, "containerStatuses": L{status("main", M{"cpu": "500m"}, nil)}},
		"resize-infeasible-bare":      {"conditions": infeasible},
		"resize-infeasible-all": {"conditions": infeasible,
			"containerStatuses":     L{status("main", M{"cpu": "500m", "memory": "600Mi"}, less)},
			"initContainerStatuses": L{status("side", M{"cpu": "50m"}, less), status("first", M{"cpu": "2", "memory": "1Gi"}, nil)}},
		// A status under the wrong list, or of no container, as a careless writer may leave it.
		"resize-misplaced": {"containerStatuses": L{status("side", M{"cpu": "3"}, more), status("ghost", M{"cpu": "99"}, nil)}},
	}
	for _, name := range sorted(shapes) {
		g.pod(name, spec()).Status = shapes[name]
	}
	pod := g.pod("resize-spec", spec())
	pod.Status = M{"containerStatuses": L{status("main", M{"cpu": "1", "memory": "1Gi"}, M{"requests": M{"cpu": "1", "memory": "1Gi"}})}}
	pod.Resize = M{"spec": M{"containers": L{M{"name": "main", "image": "example.com/image",
		"resources": M{"requests": M{"cpu": "1800m", "memory": "1Gi"}, "limits": M{"cpu": "2", "memory": "2Gi"}}}}}}
}

// podLevelPods set resources for the pod as a whole.
func (g *generator) podLevelPods() {
	small := func() L {
		return L{container("c", M{"cpu": "100m", "memory": "64Mi", "ephemeral-storage": "1Gi"}, nil)}
	}
	g.pod("level-requests", M{"containers": small(), "resources": M{"requests": M{"cpu": "2", "memory": "2Gi"}}})
	g.pod("level-limits", M{"containers": L{container("c", nil, nil)}, "resources": M{"limits": M{"cpu": "3", "memory": "3Gi"}}})
	g.pod("level-both", M{"containers": small(),
		"resources": M{"requests": M{"cpu": "1"}, "limits": M{"cpu": "1500m", "memory": "1Gi"}}})
	g.pod("level-overhead", M{"containers": small(), "runtimeClassName": "sandboxed",
		"resources": M{"requests": M{"memory": "1Gi"}, "limits": M{"memory": "2Gi"}}})
	g.pod("level-hugepages", M{"containers": small(),
		"resources": M{"requests": M{"cpu": "1", "hugepages-2Mi": "8Mi"}, "limits": M{"hugepages-2Mi": "8Mi"}}})
	g.pod("level-init", M{"containers": small(), "initContainers": L{container("i", M{"cpu": "1900m"}, nil)},
		"resources": M{"requests": M{"cpu": "2"}}})
	// Overhead reaches a limit only where there is one above zero.
	g.pod("overhead-no-limits", M{"containers": small(), "runtimeClassName": "sandboxed"})
	g.pod("overhead-cpu-limit", M{"containers": L{container("c", M{"cpu": "1"}, M{"cpu": "1"})}, "runtimeClassName": "sandboxed"})
	infeasible := g.pod("level-infeasible", M{"nodeName": "node", "containers": small(), "resources": M{"requests": M{"cpu": "4"}}})
	infeasible.Status = M{"conditions": L{M{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}}}
}
