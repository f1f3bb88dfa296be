package suites

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"

	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

// converter is the conversion webhook of gadgets and gizmos. It can be broken, by version.
type converter struct {
	url string
	ca  []byte
	// stored is the version that each resource is stored at.
	stored map[string]string
	kinds  map[string]string

	mutex    sync.Mutex
	broken   []string
	failures int
}

func serveConversions(ctx context.Context, c *cluster.Cluster) (*converter, error) {
	w := &converter{
		stored: map[string]string{"gadgets": "v1", "gizmos": "v1"},
		kinds:  map[string]string{"gadgets": "Gadget", "gizmos": "Gizmo"},
	}
	url, ca, stop, err := c.Serve(http.HandlerFunc(w.convert))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, stop)
	w.url, w.ca = url, ca
	return w, nil
}

// breakTo makes conversions to these versions fail, and to no others.
func (w *converter) breakTo(versions ...string) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.broken = versions
}

// failed is how many conversions have failed.
func (w *converter) failed() int {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.failures
}

func (w *converter) isBroken(version string) bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if slices.Contains(w.broken, version) {
		w.failures++
		return true
	}
	return false
}

func (w *converter) convert(answer http.ResponseWriter, request *http.Request) {
	var review struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Request    struct {
			UID               string      `json:"uid"`
			DesiredAPIVersion string      `json:"desiredAPIVersion"`
			Objects           []objects.M `json:"objects"`
		} `json:"request"`
	}
	if err := json.NewDecoder(request.Body).Decode(&review); err != nil {
		http.Error(answer, err.Error(), http.StatusBadRequest)
		return
	}
	wanted := review.Request.DesiredAPIVersion
	if w.isBroken(wanted[strings.LastIndexByte(wanted, '/')+1:]) {
		http.Error(answer, "broken on purpose", http.StatusInternalServerError)
		return
	}
	for _, object := range review.Request.Objects {
		object["apiVersion"] = wanted
	}
	answer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(answer).Encode(objects.M{"apiVersion": review.APIVersion, "kind": review.Kind, "response": objects.M{
		"uid": review.Request.UID, "result": objects.M{"status": "Success"}, "convertedObjects": review.Request.Objects}})
}

// conversion is what a definition says of it.
func (w *converter) conversion() objects.M {
	return objects.M{"strategy": "Webhook", "webhook": objects.M{
		"conversionReviewVersions": objects.L{"v1"},
		"clientConfig":             objects.M{"url": w.url + "/convert", "caBundle": w.ca},
	}}
}

// store changes the version at which a resource is stored.
func (w *converter) store(ctx context.Context, client *cluster.Client, resource, version string) error {
	w.stored[resource] = version
	_, err := client.Patch(ctx, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"+resource+".faults.example.com",
		objects.M{"spec": objects.M{"versions": versionsStoredAt(version, "v1", "v2")}})
	return err
}

// customResource is a definition: with one version, or where it has a conversion with two, of which the second is preferred.
func customResource(plural, kind string, conversion objects.M) objects.M {
	spec := objects.M{"group": "faults.example.com", "scope": "Namespaced",
		"names":    objects.M{"plural": plural, "singular": strings.ToLower(kind), "kind": kind, "listKind": kind + "List"},
		"versions": versionsStoredAt("v1", "v1"),
	}
	if conversion != nil {
		spec["conversion"], spec["versions"] = conversion, versionsStoredAt("v1", "v1", "v2")
	}
	return objects.M{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": objects.M{"name": plural + ".faults.example.com"}, "spec": spec}
}

func versionsStoredAt(stored string, names ...string) (versions objects.L) {
	for _, name := range names {
		versions = append(versions, objects.M{"name": name, "served": true, "storage": name == stored,
			"schema": objects.M{"openAPIV3Schema": objects.M{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
	}
	return versions
}
