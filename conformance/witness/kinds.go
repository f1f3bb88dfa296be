package witness

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	"k8s.io/utils/clock"

	"kubequota.dev/conformance/cluster"
)

// Group is that of the custom resources which are counted.
const Group = "faults.example.com"

// kind is one that is counted: where it is stored, and by which rule.
type kind struct {
	resource schema.GroupVersionResource
	folder   string
	alias    corev1.ResourceName
	evaluate func(quota.ListerForResourceFunc) quota.Evaluator
}

var kinds = []kind{
	{resource: corev1.SchemeGroupVersion.WithResource("pods"), evaluate: func(l quota.ListerForResourceFunc) quota.Evaluator {
		return core.NewPodEvaluator(l, clock.RealClock{})
	}},
	{resource: corev1.SchemeGroupVersion.WithResource("services"), folder: "services/specs", evaluate: core.NewServiceEvaluator},
	{resource: corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims"), evaluate: core.NewPersistentVolumeClaimEvaluator},
	{resource: corev1.SchemeGroupVersion.WithResource("configmaps"), alias: "configmaps"},
	{resource: corev1.SchemeGroupVersion.WithResource("secrets"), alias: "secrets"},
	{resource: quotas, alias: "resourcequotas"},
	custom("widgets"),
	custom("gadgets"),
	custom("gizmos"),
}

var quotas = corev1.SchemeGroupVersion.WithResource("resourcequotas")

func custom(resource string) kind {
	return kind{resource: schema.GroupVersionResource{Group: Group, Version: "v1", Resource: resource}}
}

// path is the part of a kind's keys between the prefix and the namespace.
func (k kind) path() string {
	if k.folder != "" {
		return k.folder
	}
	return strings.Trim(k.resource.Group+"/"+k.resource.Resource, "/")
}

func (k kind) evaluator(lister quota.ListerForResourceFunc) quota.Evaluator {
	if k.evaluate != nil {
		return k.evaluate(lister)
	}
	return generic.NewObjectCountEvaluator(k.resource.GroupResource(), generic.ListResourceUsingListerFunc(lister, k.resource), k.alias)
}

// place is where a key belongs; nil where it is not of a kind that is counted.
type place struct {
	kind            *kind
	namespace, name string
}

func placeOf(key []byte) *place {
	rest, under := strings.CutPrefix(string(key), prefix)
	if !under {
		return nil
	}
	for i := range kinds {
		if of, found := strings.CutPrefix(rest, kinds[i].path()+"/"); found {
			if namespace, name, found := strings.Cut(of, "/"); found && !strings.Contains(name, "/") {
				return &place{kind: &kinds[i], namespace: namespace, name: name}
			}
		}
	}
	return nil
}

func (p *place) String() string { return p.kind.resource.Resource + " " + p.namespace + "/" + p.name }

// decode reads an object as it is stored: protobuf, or JSON.
func decode(at *place, entry cluster.Entry) (runtime.Object, error) {
	if at.kind.resource.Group == Group {
		object := &metav1.PartialObjectMetadata{}
		return object, json.Unmarshal(entry.Value, object)
	}
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(entry.Value, nil, nil)
	return object, err
}

// judge compares all quotas of some namespaces with what upstream computes from the same list.
func judge(entries []cluster.Entry, namespaces []string) (names int, off []Figure, err error) {
	stores := map[schema.GroupResource]cache.Indexer{}
	for _, kind := range kinds {
		stores[kind.resource.GroupResource()] = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	}
	for _, entry := range entries {
		at := placeOf(entry.Key)
		if at == nil || !slices.Contains(namespaces, at.namespace) {
			continue
		}
		// What can't be read can't be counted; who asks knows of it.
		if object, err := decode(at, entry); err == nil {
			if err := stores[at.kind.resource.GroupResource()].Add(object); err != nil {
				return 0, nil, err
			}
		}
	}
	lister := func(resource schema.GroupVersionResource) (cache.GenericLister, error) {
		return cache.NewGenericLister(stores[resource.GroupResource()], resource.GroupResource()), nil
	}
	var evaluators []quota.Evaluator
	for _, kind := range kinds {
		evaluators = append(evaluators, kind.evaluator(lister))
	}
	registry := generic.NewRegistry(evaluators)
	for _, object := range stores[quotas.GroupResource()].List() {
		made := object.(*corev1.ResourceQuota)
		used, err := quota.CalculateUsage(made.Namespace, made.Spec.Scopes, made.Spec.Hard, registry, made.Spec.ScopeSelector)
		if err != nil {
			return 0, nil, fmt.Errorf("quota %s/%s: %w", made.Namespace, made.Name, err)
		}
		for _, name := range quota.ResourceNames(used) {
			names++
			should := used[name]
			figure := Figure{Quota: made.Namespace + "/" + made.Name, Name: string(name), Should: should.String()}
			says, told := made.Status.Used[name]
			if told {
				figure.Says, figure.Less = says.String(), says.Cmp(should) < 0
			}
			if !told || says.Cmp(should) != 0 {
				off = append(off, figure)
			}
			wanted, limit := made.Spec.Hard[name], made.Status.Hard[name]
			if wanted.Cmp(limit) != 0 {
				off = append(off, Figure{Quota: figure.Quota, Name: "hard " + figure.Name, Says: limit.String(), Should: wanted.String()})
			}
		}
	}
	slices.SortFunc(off, func(a, b Figure) int { return strings.Compare(a.Quota+" "+a.Name, b.Quota+" "+b.Name) })
	return names, off, nil
}
