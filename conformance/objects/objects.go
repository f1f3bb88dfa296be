// Package objects makes a varied population of everything that a quota can count, and the quotas over it. The same seed makes the same
// population. Every object in it is one that a v1.37 server accepts.
package objects

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
)

// M and L are a JSON object and a JSON array.
type (
	M = map[string]any
	L = []any
)

// Object is one object and what happens to it after its creation, in the order of the fields.
type Object struct {
	// Collection is the path that it is posted to.
	Collection string
	Body       M
	// OwnerPod is the name of a pod of the same namespace, made before, that becomes its controlling owner.
	OwnerPod string
	// Resize is merged into the pod through its resize subresource.
	Resize M
	// Status is merged into its status through the status subresource.
	Status M
	// DeleteGrace deletes it, with so many seconds of grace.
	DeleteGrace *int
}

// Name of the object.
func (o *Object) Name() string { return o.Body["metadata"].(M)["name"].(string) }

// Path of the object.
func (o *Object) Path() string { return o.Collection + "/" + o.Name() }

// Set is a population. Its parts are created in the order of the fields: quotas come last, so that nothing is refused.
type Set struct {
	Cluster    []*Object // what other objects refer to, and the namespaces
	Objects    []*Object
	Quotas     []*Object
	Namespaces []string
}

// Generate makes the population of a seed.
func Generate(seed uint64) Set {
	var set Set
	set.Cluster = clusterObjects()
	for i := range 6 {
		namespace := fmt.Sprintf("team-%c", 'a'+i)
		set.Namespaces = append(set.Namespaces, namespace)
		set.Cluster = append(set.Cluster, &Object{Collection: "/api/v1/namespaces",
			Body: M{"apiVersion": "v1", "kind": "Namespace", "metadata": M{"name": namespace}}})
		// A stream for each namespace: a change in one maker then moves only what comes after it there.
		g := &generator{namespace: namespace, random: rand.New(rand.NewPCG(seed, uint64(i)))}
		g.pods()
		g.services()
		g.persistentVolumeClaims()
		g.resourceClaims()
		g.counted()
		set.Objects = append(set.Objects, g.made...)
		set.Quotas = append(set.Quotas, quotas(namespace)...)
	}
	return set
}

type generator struct {
	namespace string
	random    *rand.Rand
	made      []*Object
}

// add makes an object of the generator's namespace.
func (g *generator) add(groupVersion, resource, kind, name string, fields M) *Object {
	body := M{"apiVersion": groupVersion, "kind": kind, "metadata": M{"name": name, "namespace": g.namespace}}
	for field, value := range fields {
		if field == "metadata" {
			for key, value := range value.(M) {
				body["metadata"].(M)[key] = value
			}
			continue
		}
		body[field] = value
	}
	object := &Object{Collection: apiRoot(groupVersion) + "/namespaces/" + g.namespace + "/" + resource, Body: body}
	g.made = append(g.made, object)
	return object
}

// chance is true in so many of a hundred cases.
func (g *generator) chance(percent int) bool { return g.random.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.random.IntN(len(from))] }

func apiRoot(groupVersion string) string {
	if groupVersion == "v1" {
		return "/api/v1"
	}
	return "/apis/" + groupVersion
}

// sorted gives a map's keys in an order that is always the same, as the whole population must be.
func sorted[T any](from map[string]T) []string { return slices.Sorted(maps.Keys(from)) }
