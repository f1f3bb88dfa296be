package suites

import (
	"path/filepath"

	"kubequota.dev/conformance/cluster"
)

// kubectlSteps are played in their order on one server: later ones build on what earlier ones made.
func kubectlSteps(root string) []kubectlStep {
	type o = cluster.Object
	type l = []any
	const (
		shop        = "/api/v1/namespaces/shop/"
		deployments = "/apis/apps/v1/namespaces/shop/deployments/"
		gadgets     = "/apis/example.org/v1/namespaces/shop/gadgets/"
	)
	plain := func(kind, name string, fields o) string {
		fields["apiVersion"], fields["kind"], fields["metadata"] = "v1", kind, o{"name": name}
		return manifest(fields)
	}
	deployment := func(replicas int, image string) string {
		return manifest(o{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": o{"name": "web", "namespace": "shop", "labels": o{"app": "web"}}, "spec": o{
			"replicas": replicas, "selector": o{"matchLabels": o{"app": "web"}},
			"template": o{"metadata": o{"labels": o{"app": "web"}}, "spec": o{"containers": l{
				o{"name": "web", "image": image, "ports": l{o{"containerPort": 80}}}, o{"name": "proxy", "image": "example.com/proxy:1"}}}}}})
	}
	applied := func(data o) string {
		return manifest(o{"apiVersion": "v1", "kind": "ConfigMap", "metadata": o{"name": "applied", "namespace": "shop"}, "data": data})
	}
	made := func(apiVersion, object string) string {
		root := "/apis/"
		if apiVersion == "v1" {
			root = "/api/"
		}
		return root + apiVersion + "/namespaces/made/" + object
	}
	definition := manifest(o{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": o{"name": "gadgets.example.org"}, "spec": o{
		"group": "example.org", "scope": "Namespaced", "names": o{"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget", "shortNames": l{"gd"}},
		"versions": l{o{"name": "v1", "served": true, "storage": true,
			"subresources":             o{"status": o{}, "scale": o{"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}},
			"additionalPrinterColumns": l{o{"name": "Size", "type": "string", "jsonPath": ".spec.size"}, o{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1}},
			"schema": o{"openAPIV3Schema": o{"type": "object", "description": "A gadget of the shop.", "properties": o{
				"spec": o{"type": "object", "properties": o{
					"size":     o{"type": "string", "description": "How large it is."},
					"replicas": o{"type": "integer"},
					"parts":    o{"type": "array", "items": o{"type": "string"}}}},
				"status": o{"type": "object", "properties": o{"replicas": o{"type": "integer"}}}}}}}}}})
	gadget := func(size string) string {
		return manifest(o{"apiVersion": "example.org/v1", "kind": "Gadget", "metadata": o{"name": "g1", "namespace": "shop"}, "spec": o{"size": size, "replicas": 1}})
	}
	claim := manifest(o{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": o{"name": "data"}, "spec": o{
		"accessModes": l{"ReadWriteOnce"}, "storageClassName": "fast", "resources": o{"requests": o{"storage": "1Gi"}}}})
	resourceClaim := manifest(o{"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": o{"name": "gpu"}, "spec": o{
		"devices": o{"requests": l{o{"name": "r", "exactly": o{"deviceClassName": "gpus"}}}}}})
	event := manifest(o{"apiVersion": "v1", "kind": "Event", "metadata": o{"name": "web.1"}, "type": "Warning", "reason": "FailedMount", "message": "volume is missing", "count": 3,
		"involvedObject": o{"apiVersion": "v1", "kind": "Pod", "name": "one", "namespace": "shop"}, "source": o{"component": "kubelet"},
		"firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z"})
	return []kubectlStep{
		// What the server has.
		{name: "version", args: "version", out: []string{`^Client Version: v1\.37`, `^Server Version: v1\.37`}},
		{name: "api-resources", args: "api-resources", out: []string{
			`^NAME +SHORTNAMES +APIVERSION +NAMESPACED +KIND`, `^pods +po +v1 +true +Pod$`, `^namespaces +ns +v1 +false +Namespace$`,
			`^deployments +deploy +apps/v1 +true +Deployment$`, `^resourcequotas +quota +v1 +true +ResourceQuota$`, `^resourceclaims .*resource\.k8s\.io/v1 +true +ResourceClaim$`}},
		{name: "api-versions", args: "api-versions", out: []string{`^apps/v1$`, `^v1$`, `^apiextensions\.k8s\.io/v1$`}},
		{name: "get namespaces", args: "get namespaces", out: []string{`^NAME +STATUS +AGE$`, `^default +Active +\d+[smh]`, `^kube-system +Active`}},

		// Create.
		{name: "create namespace", args: "create namespace shop", out: []string{`^namespace/shop created$`}, path: "/api/v1/namespaces/shop", has: map[string]any{"status.phase": "Active"}},
		{name: "create namespace twice", args: "create namespace shop", fails: true, err: []string{`^Error from server \(AlreadyExists\): namespaces "shop" already exists$`}},
		{name: "create namespace from a file", args: "create -f -", stdin: plain("Namespace", "shop", o{}), fails: true, err: []string{`^Error from server \(AlreadyExists\): error when creating "STDIN": namespaces "shop" already exists$`}},
		{name: "create configmap", args: "-n shop create configmap settings --from-literal a=1 --from-literal b=2", out: []string{`^configmap/settings created$`}, path: shop + "configmaps/settings", has: map[string]any{"data.a": "1", "data.b": "2"}},
		{name: "create secret", args: "-n shop create secret generic key --from-literal token=abc", out: []string{`^secret/key created$`}, path: shop + "secrets/key", has: map[string]any{"data.token": "YWJj", "type": "Opaque"}},
		{name: "create quota", args: "-n shop create quota q --hard pods=5,limits.cpu=4", out: []string{`^resourcequota/q created$`}, path: shop + "resourcequotas/q", has: map[string]any{"spec.hard.pods": "5"}},
		{name: "create service", args: "-n shop create service clusterip web --tcp 80:8080", out: []string{`^service/web created$`}, path: shop + "services/web", has: map[string]any{"spec.ports.0.port": 80, "spec.type": "ClusterIP"}},
		{name: "run", args: "-n shop run one --image example.com/one:1 --labels tier=front", out: []string{`^pod/one created$`}, path: shop + "pods/one", has: map[string]any{"spec.containers.0.image": "example.com/one:1", "status.phase": "Pending"}},
		{name: "run another", args: "-n shop run two --image example.com/two:1 --labels tier=back", out: []string{`^pod/two created$`}, path: shop + "pods/two"},
		{name: "create claim", args: "-n shop create -f -", stdin: claim, out: []string{`^persistentvolumeclaim/data created$`}, path: shop + "persistentvolumeclaims/data", has: map[string]any{"status.phase": "Pending"}},
		{name: "create resource claim", args: "-n shop create -f -", stdin: resourceClaim, out: []string{`^resourceclaim\.resource\.k8s\.io/gpu created$`}, path: "/apis/resource.k8s.io/v1/namespaces/shop/resourceclaims/gpu"},
		{name: "create event", args: "-n shop create -f -", stdin: event, out: []string{`^event/web\.1 created$`}, path: shop + "events/web.1"},
		{name: "create dry run", args: "-n shop create --dry-run=server -f -", stdin: plain("ConfigMap", "none", o{}), out: []string{`^configmap/none created \(server dry run\)$`}, path: shop + "configmaps/none", gone: true},
		{name: "create in no namespace", args: "-n nowhere create -f -", stdin: plain("ConfigMap", "x", o{}), fails: true, err: []string{`^Error from server \(NotFound\): error when creating "STDIN": namespaces "nowhere" not found$`}},
		{name: "create with an unknown field", args: "create -f -", stdin: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd","namespace":"shop"},"dta":{}}`, fails: true,
			err: []string{`BadRequest`, `ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dta"`}, path: shop + "configmaps/odd", gone: true},
		{name: "create with a warning", args: "create --validate=warn -f -", stdin: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"odd","namespace":"shop"},"dta":{}}`,
			out: []string{`^configmap/odd created$`}, err: []string{`^Warning: unknown field "dta"$`}, path: shop + "configmaps/odd", has: map[string]any{"dta": nil}},
		{name: "create a kind that is not there", args: "create -f -", stdin: `{"apiVersion":"example.net/v1","kind":"Nothing","metadata":{"name":"x"}}`, fails: true, err: []string{`no matches for kind "Nothing" in version "example\.net/v1"`}},

		// Create from flags: kubectl sends these as protobuf.
		{name: "create another namespace", args: "create namespace made", out: []string{`^namespace/made created$`}},
		{name: "create a deployment", args: "-n made create deployment web --image example.com/web:1 --replicas 2 --port 80", out: []string{`^deployment\.apps/web created$`}, path: made("apps/v1", "deployments/web"),
			has: map[string]any{"spec.replicas": 2, "spec.selector.matchLabels.app": "web", "spec.template.spec.containers.0.ports.0.containerPort": 80, "spec.strategy.rollingUpdate.maxSurge": "25%"}},
		{name: "create a node port", args: "-n made create service nodeport web --tcp 80", out: []string{`^service/web created$`}, path: made("v1", "services/web"), has: map[string]any{"spec.type": "NodePort", "spec.ports.0.targetPort": 80}},
		{name: "create an external name", args: "-n made create service externalname elsewhere --external-name example.com", out: []string{`^service/elsewhere created$`}, path: made("v1", "services/elsewhere"), has: map[string]any{"spec.externalName": "example.com"}},
		{name: "create a service account", args: "-n made create serviceaccount builder", out: []string{`^serviceaccount/builder created$`}, path: made("v1", "serviceaccounts/builder")},
		{name: "create a quota with scopes", args: "-n made create quota scoped --hard pods=3,count/widgets.example.com=2 --scopes BestEffort,NotTerminating", out: []string{`^resourcequota/scoped created$`}, path: made("v1", "resourcequotas/scoped"),
			has: map[string]any{"spec.hard.pods": "3", "spec.scopes.0": "BestEffort", "spec.scopes.1": "NotTerminating"}},
		{name: "create a cron job", args: "-n made create cronjob nightly --image example.com/job:1 --schedule '0 1 * * *' -- run", out: []string{`^cronjob\.batch/nightly created$`}, path: made("batch/v1", "cronjobs/nightly"),
			has: map[string]any{"spec.schedule": "0 1 * * *", "spec.jobTemplate.spec.template.spec.restartPolicy": "OnFailure", "spec.jobTemplate.spec.template.spec.containers.0.command.0": "run"}},
		{name: "create a job from it", args: "-n made create job once --from cronjob/nightly", out: []string{`^job\.batch/once created$`}, path: made("batch/v1", "jobs/once"), has: map[string]any{"metadata.ownerReferences.0.kind": "CronJob", "metadata.ownerReferences.0.controller": true}},
		{name: "create an ingress", args: "-n made create ingress web --rule example.com/path*=web:80", out: []string{`^ingress\.networking\.k8s\.io/web created$`}, path: made("networking.k8s.io/v1", "ingresses/web"),
			has: map[string]any{"spec.rules.0.http.paths.0.pathType": "Prefix", "spec.rules.0.http.paths.0.backend.service.port.number": 80}},
		{name: "create a priority class", args: "create priorityclass high --value 100 --description urgent", out: []string{`^priorityclass\.scheduling\.k8s\.io/high created$`}, path: "/apis/scheduling.k8s.io/v1/priorityclasses/high", has: map[string]any{"value": 100, "description": "urgent"}},
		{name: "create from flags in a dry run", args: "-n made create configmap dry --from-literal a=b --dry-run=server", out: []string{`^configmap/dry created \(server dry run\)$`}, path: made("v1", "configmaps/dry"), gone: true},
		{name: "create from flags in no namespace", args: "-n nowhere create configmap x", fails: true, err: []string{`namespaces "nowhere" not found`}},
		{name: "create from flags what is invalid", args: "-n made create configmap Not_Valid", fails: true, err: []string{`ConfigMap "Not_Valid" is invalid: metadata\.name: Invalid value`}},
		{name: "delete another namespace", args: "delete namespace made", out: []string{`^namespace "made" deleted`}, path: "/api/v1/namespaces/made", gone: true},

		// Get.
		{name: "get pods", args: "-n shop get pods", out: []string{`^NAME +READY +STATUS +RESTARTS +AGE$`, `^one +0/1 +Pending +0 +\d+s$`, `^two +0/1 +Pending`}},
		{name: "get pods wide", args: "-n shop get pods -o wide", out: []string{`^NAME +READY +STATUS +RESTARTS +AGE +IP +NODE +NOMINATED NODE +READINESS GATES$`, `^one .*<none> +<none> +<none> +<none>$`}},
		{name: "get pod as YAML", args: "-n shop get pod one -o yaml", out: []string{`^apiVersion: v1$`, `^kind: Pod$`, `^  name: one$`}},
		{name: "get pods as JSON", args: "-n shop get pods -o json", out: []string{`"kind": "List"`, `"name": "two"`}},
		{name: "get by JSONPath", args: "-n shop get pods -o 'jsonpath={.items[*].metadata.name}'", out: []string{`^one two$`}},
		{name: "get names", args: "-n shop get pods,services -o name", out: []string{`^pod/one$`, `^service/web$`}},
		{name: "get by label", args: "-n shop get pods -l tier=front", out: []string{`^one `}, not: "two"},
		{name: "get by label set", args: "-n shop get pods -l 'tier in (back,other)'", out: []string{`^two `}, not: "one"},
		{name: "get by field", args: "-n shop get pods --field-selector metadata.name=two", out: []string{`^two `}, not: "one"},
		{name: "get with label columns", args: "-n shop get pods -L tier", out: []string{`^NAME .*AGE +TIER$`, `^one .*front$`}},
		{name: "get in all namespaces", args: "get pods -A", out: []string{`^NAMESPACE +NAME +READY`, `^shop +one `}},
		{name: "get what is not there", args: "-n shop get pod three", fails: true, err: []string{`^Error from server \(NotFound\): pods "three" not found$`}},
		{name: "get nothing", args: "-n default get pods", err: []string{`^No resources found in default namespace\.$`}},
		{name: "get unknown kind", args: "get nonsense", fails: true, err: []string{`the server doesn't have a resource type "nonsense"`}},
		{name: "get services", args: "-n shop get services", out: []string{`^NAME +TYPE +CLUSTER-IP +EXTERNAL-IP +PORT\(S\) +AGE$`, `^web +ClusterIP +\S+ +<none> +80/TCP +\d+s$`}},
		{name: "get configmaps", args: "-n shop get configmaps", out: []string{`^NAME +DATA +AGE$`, `^settings +2 +\d+s$`}},
		{name: "get secrets", args: "-n shop get secrets", out: []string{`^NAME +TYPE +DATA +AGE$`, `^key +Opaque +1 +\d+s$`}},
		{name: "get claims", args: "-n shop get pvc", out: []string{`^NAME +STATUS +VOLUME +CAPACITY +ACCESS MODES +STORAGECLASS +VOLUMEATTRIBUTESCLASS +AGE$`, `^data +Pending +fast +<unset> +\d+s$`}},
		{name: "get resource claims", args: "-n shop get resourceclaims", out: []string{`^NAME +STATE +AGE$`, `^gpu +pending +\d+s$`}},
		{name: "get events", args: "-n shop get events", out: []string{`^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE$`, `Warning +FailedMount +pod/one +volume is missing$`}},

		// Status, and what shows it.
		{name: "patch quota status", args: `-n shop patch quota q --subresource status --type merge -p '{"status":{"hard":{"pods":"5","limits.cpu":"4"},"used":{"pods":"2","limits.cpu":"500m"}}}'`,
			out: []string{`^resourcequota/q patched$`}, path: shop + "resourcequotas/q", has: map[string]any{"status.used.pods": "2", "spec.hard.pods": "5"}},
		{name: "get quota", args: "-n shop get quota", out: []string{`^NAME +REQUEST +LIMIT +AGE$`, `^q +pods: 2/5 +limits\.cpu: 500m/4 +\d+s$`}},
		{name: "describe quota", args: "-n shop describe quota q", out: []string{`^Name: +q$`, `^Namespace: +shop$`, `^pods +2 +5$`, `^limits\.cpu +500m +4$`}},
		{name: "describe pod", args: "-n shop describe pod one", out: []string{`^Name: +one$`, `^Labels: +tier=front$`, `Image: +example\.com/one:1$`}},
		{name: "describe namespace", args: "describe namespace shop", out: []string{`^Name: +shop$`, `^Status: +Active$`, `^Resource Quotas$`, `pods +2 +5`}},
		{name: "describe service", args: "-n shop describe service web", out: []string{`^Type: +ClusterIP$`, `^Port: +80-8080 +80/TCP$`}},
		{name: "describe claim", args: "-n shop describe pvc data", out: []string{`^StorageClass: +fast$`, `^Status: +Pending$`}},
		{name: "describe configmap", args: "-n shop describe configmap settings", out: []string{`^Data$`, `^a:$`}},
		{name: "describe secret", args: "-n shop describe secret key", out: []string{`^token: +3 bytes$`}},

		// Apply, as clients do it.
		{name: "apply creates", args: "apply -f -", stdin: deployment(2, "example.com/web:1"), out: []string{`^deployment\.apps/web created$`}, path: deployments + "web", has: map[string]any{"spec.replicas": 2, "metadata.generation": 1}},
		{name: "apply again", args: "apply -f -", stdin: deployment(2, "example.com/web:1"), out: []string{`^deployment\.apps/web unchanged$`}, path: deployments + "web", has: map[string]any{"metadata.generation": 1}},
		{name: "apply changes", args: "apply -f -", stdin: deployment(3, "example.com/web:2"), out: []string{`^deployment\.apps/web configured$`}, path: deployments + "web",
			has: map[string]any{"spec.replicas": 3, "spec.template.spec.containers.0.image": "example.com/web:2", "spec.template.spec.containers.1.image": "example.com/proxy:1", "metadata.generation": 2}},
		{name: "diff", args: "diff -f -", stdin: deployment(9, "example.com/web:2"), fails: true, out: []string{`^\+  replicas: 9$`}, path: deployments + "web", has: map[string]any{"spec.replicas": 3}},
		{name: "get deployments", args: "-n shop get deployments -o wide", out: []string{`^NAME +READY +UP-TO-DATE +AVAILABLE +AGE +CONTAINERS +IMAGES +SELECTOR$`, `^web +0/3 +0 +0 +\d+s +web,proxy +example\.com/web:2,example\.com/proxy:1 +app=web$`}},
		{name: "describe deployment", args: "-n shop describe deployment web", out: []string{`^Name: +web$`, `^Selector: +app=web$`, `^Replicas: +3 desired`}},
		{name: "apply the examples", args: "apply -f " + filepath.Join(root, "examples", "cluster.yaml"), out: []string{`^namespace/team-a created$`, `^customresourcedefinition\.apiextensions\.k8s\.io/widgets\.example\.com created$`}, path: "/api/v1/namespaces/team-b"},
		{name: "apply a team", args: "apply -f " + filepath.Join(root, "examples", "team-a"), out: []string{`^resourcequota/compute created$`, `^pod/db-0 created$`}, path: "/api/v1/namespaces/team-a/resourcequotas/compute"},

		// Server-side apply.
		{name: "server-side apply creates", args: "apply --server-side -f -", stdin: applied(o{"a": "1", "b": "2"}), out: []string{`^configmap/applied serverside-applied$`}, path: shop + "configmaps/applied",
			has: map[string]any{"data.a": "1", "metadata.managedFields.0.manager": "kubectl", "metadata.managedFields.0.operation": "Apply"}},
		{name: "server-side apply removes", args: "apply --server-side -f -", stdin: applied(o{"a": "1"}), out: []string{`serverside-applied$`}, path: shop + "configmaps/applied", has: map[string]any{"data.a": "1", "data.b": nil}},
		{name: "server-side apply conflicts", args: "apply --server-side --field-manager other -f -", stdin: applied(o{"a": "2"}), fails: true, err: []string{`^error: Apply failed with 1 conflict: conflict with "kubectl": \.data\.a$`}, path: shop + "configmaps/applied", has: map[string]any{"data.a": "1"}},
		{name: "server-side apply by force", args: "apply --server-side --field-manager other --force-conflicts -f -", stdin: applied(o{"a": "2"}), out: []string{`serverside-applied$`}, path: shop + "configmaps/applied", has: map[string]any{"data.a": "2"}},
		{name: "server-side dry run", args: "apply --server-side --field-manager other --dry-run=server -f -", stdin: applied(o{"a": "3"}), out: []string{`serverside-applied \(server dry run\)$`}, path: shop + "configmaps/applied", has: map[string]any{"data.a": "2"}},

		// Patch, edit in place, scale.
		{name: "strategic patch", args: `-n shop patch deployment web -p '{"spec":{"template":{"spec":{"containers":[{"name":"proxy","image":"example.com/proxy:2"}]}}}}'`, out: []string{`^deployment\.apps/web patched$`}, path: deployments + "web",
			has: map[string]any{"spec.template.spec.containers.0.image": "example.com/web:2", "spec.template.spec.containers.1.image": "example.com/proxy:2"}},
		{name: "merge patch", args: `-n shop patch configmap settings --type merge -p '{"data":{"a":null,"c":"3"}}'`, out: []string{`patched$`}, path: shop + "configmaps/settings", has: map[string]any{"data.a": nil, "data.b": "2", "data.c": "3"}},
		{name: "JSON patch", args: `-n shop patch configmap settings --type json -p '[{"op":"replace","path":"/data/b","value":"9"}]'`, out: []string{`patched$`}, path: shop + "configmaps/settings", has: map[string]any{"data.b": "9"}},
		{name: "patch without a change", args: `-n shop patch configmap settings --type merge -p '{"data":{"b":"9"}}'`, out: []string{`^configmap/settings patched \(no change\)$`}},
		{name: "JSON patch that fails", args: `-n shop patch configmap settings --type json -p '[{"op":"test","path":"/data/b","value":"0"}]'`, fails: true, err: []string{`the server rejected our request due to an error in our request`}, path: shop + "configmaps/settings", has: map[string]any{"data.b": "9"}},
		{name: "set image", args: "-n shop set image deployment/web web=example.com/web:3", out: []string{`image updated$`}, path: deployments + "web", has: map[string]any{"spec.template.spec.containers.0.image": "example.com/web:3"}},
		{name: "label", args: "-n shop label pod one tier=middle --overwrite", out: []string{`^pod/one labeled$`}, path: shop + "pods/one", has: map[string]any{"metadata.labels.tier": "middle"}},
		{name: "annotate", args: "-n shop annotate pod one note=x", out: []string{`^pod/one annotated$`}, path: shop + "pods/one", has: map[string]any{"metadata.annotations.note": "x"}},
		{name: "scale", args: "-n shop scale deployment web --replicas 5", out: []string{`^deployment\.apps/web scaled$`}, path: deployments + "web", has: map[string]any{"spec.replicas": 5}},
		{name: "scale from what it is not", args: "-n shop scale deployment web --current-replicas 1 --replicas 2", fails: true, err: []string{`Expected replicas to be 1, was 5`}, path: deployments + "web", has: map[string]any{"spec.replicas": 5}},
		{name: "scale a pod", args: "-n shop scale pod one --replicas 2", fails: true, err: []string{`the server could not find the requested resource|could not find scale|cannot scale`}},
		{name: "get scale", args: "-n shop get deployment web --subresource scale -o 'jsonpath={.kind} {.spec.replicas}'", out: []string{`^Scale 5$`}},
		{name: "resize", args: `-n shop patch pod one --subresource resize -p '{"spec":{"containers":[{"name":"one","resources":{"requests":{"cpu":"200m"}}}]}}'`, out: []string{`^pod/one patched$`}, path: shop + "pods/one",
			has: map[string]any{"spec.containers.0.resources.requests.cpu": "200m", "spec.containers.0.image": "example.com/one:1"}},
		{name: "replace a stale object", args: "replace -f -", stdin: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings","namespace":"shop","resourceVersion":"1"}}`, fails: true, err: []string{`Conflict`, `the object has been modified`}},

		// Explain.
		{name: "explain", args: "explain resourcequota", out: []string{`^KIND: +ResourceQuota$`, `^VERSION: +v1$`, `^  spec\s+<ResourceQuotaSpec>$`}},
		{name: "explain a field", args: "explain resourcequota.spec.hard", out: []string{`^FIELD: hard <map\[string\]Quantity>$`, `set of desired hard limits`}},
		{name: "explain deep", args: "explain deployment.spec.template.spec.containers.resources", out: []string{`^GROUP: +apps$`, `^  limits\s+<map\[string\]Quantity>$`}},
		{name: "explain what is not there", args: "explain pod.spec.nonsense", fails: true, err: []string{`field "nonsense" does not exist`}},
		{name: "explain recursively", args: "explain pvc.spec --recursive", out: []string{`^  accessModes\s+<\[\]string>`, `^    requests\s+<map\[string\]Quantity>`}},

		// Custom resources.
		{name: "apply a definition", args: "apply -f -", stdin: definition, out: []string{`^customresourcedefinition\.apiextensions\.k8s\.io/gadgets\.example\.org created$`}},
		{name: "wait for the definition", args: "wait crd/gadgets.example.org --for condition=Established --timeout 10s", out: []string{`condition met$`}},
		{name: "get definitions", args: "get crd", out: []string{`^NAME +CREATED AT$`, `^gadgets\.example\.org +20\d\d-`}},
		{name: "api-resources of a group", args: "api-resources --api-group example.org", out: []string{`^gadgets +gd +example\.org/v1 +true +Gadget$`}},
		{name: "apply a gadget", args: "apply -f -", stdin: gadget("small"), out: []string{`^gadget\.example\.org/g1 created$`}, path: gadgets + "g1", has: map[string]any{"spec.size": "small"}},
		{name: "apply a gadget again", args: "apply -f -", stdin: gadget("large"), out: []string{`^gadget\.example\.org/g1 configured$`}, path: gadgets + "g1", has: map[string]any{"spec.size": "large"}},
		{name: "get gadgets", args: "-n shop get gd", out: []string{`^NAME +SIZE$`, `^g1 +large$`}},
		{name: "get gadgets wide", args: "-n shop get gadgets -o wide", out: []string{`^NAME +SIZE +REPLICAS$`, `^g1 +large +1$`}},
		{name: "describe a gadget", args: "-n shop describe gadget g1", out: []string{`^Kind: +Gadget$`, `Size: +large$`}},
		{name: "patch a gadget", args: `-n shop patch gadget g1 --type merge -p '{"spec":{"parts":["x"]}}'`, out: []string{`patched$`}, path: gadgets + "g1", has: map[string]any{"spec.parts.0": "x", "spec.size": "large"}},
		{name: "patch a gadget strategically", args: `-n shop patch gadget g1 --type strategic -p '{"spec":{}}'`, fails: true, err: []string{`application/strategic-merge-patch\+json is not supported by example\.org/v1, Kind=Gadget`}},
		{name: "scale a gadget", args: "-n shop scale gadget g1 --replicas 4", out: []string{`^gadget\.example\.org/g1 scaled$`}, path: gadgets + "g1", has: map[string]any{"spec.replicas": 4}},
		{name: "explain a gadget", args: "explain gadget.spec", out: []string{`^GROUP: +example\.org$`, `^KIND: +Gadget$`, `^  size\s+<string>$`, `How large it is\.`}},
		{name: "a gadget with an unknown field", args: "create -f -", stdin: `{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"g2","namespace":"shop"},"spec":{"sise":"x"}}`, fails: true,
			err: []string{`strict decoding error: unknown field "spec\.sise"`}, path: gadgets + "g2", gone: true},
		{name: "server-side apply of a gadget", args: "apply --server-side --force-conflicts -f -", stdin: gadget("huge"), out: []string{`serverside-applied$`}, path: gadgets + "g1", has: map[string]any{"spec.size": "huge"}},
		{name: "delete a definition", args: "delete crd gadgets.example.org", out: []string{`"gadgets\.example\.org" deleted$`}, path: gadgets + "g1", gone: true},

		// Delete and wait.
		{name: "delete a pod", args: "-n shop delete pod two", out: []string{`^pod "two" deleted`}, path: shop + "pods/two", gone: true},
		{name: "delete what is not there", args: "-n shop delete pod two", fails: true, err: []string{`^Error from server \(NotFound\): pods "two" not found$`}},
		{name: "delete and ignore", args: "-n shop delete pod two --ignore-not-found"},
		{name: "delete dry run", args: "-n shop delete pod one --dry-run=server", out: []string{`deleted .*\(server dry run\)`}, path: shop + "pods/one"},
		{name: "wait for a deletion", args: "-n shop wait pod/two --for delete --timeout 5s"},
		{name: "wait too long", args: "-n shop wait pod/one --for condition=Ready --timeout 1s", fails: true, err: []string{`timed out waiting for the condition on pods/one`}},
		{name: "delete by label", args: "-n shop delete pods -l tier=middle", out: []string{`^pod "one" deleted`}, path: shop + "pods/one", gone: true},
		{name: "delete with a propagation policy", args: "-n shop delete deployment web --cascade=orphan", out: []string{`^deployment\.apps "web" deleted`}, path: deployments + "web", gone: true},
		{name: "delete a namespace", args: "delete namespace team-a", out: []string{`^namespace "team-a" deleted`}, path: "/api/v1/namespaces/team-a", gone: true},
		{name: "what was in the namespace is gone", args: "get pods -A", path: "/api/v1/namespaces/team-a/pods/db-0", gone: true},
	}
}
