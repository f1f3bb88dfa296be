package oracle

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/quota/v1/evaluator/core"
	testingclock "k8s.io/utils/clock/testing"
)

// cluster is what upstream's evaluators look at: objects by kind, device classes and a clock.
type cluster struct {
	clock      *testingclock.FakeClock
	stores     map[string]cache.Indexer
	classes    *extendedresourcecache.ExtendedResourceCache
	evaluators map[string]quota.Evaluator
}

// aliases are the kinds that quotas also count under their bare name.
var aliases = []string{"configmaps", "resourcequotas", "replicationcontrollers", "secrets"}

func newCluster(around around) *cluster {
	c := &cluster{
		clock:   testingclock.NewFakeClock(around.Now),
		stores:  map[string]cache.Indexer{},
		classes: extendedresourcecache.NewExtendedResourceCache(klog.Background()),
	}
	for _, text := range around.DeviceClasses {
		c.classes.OnAdd(decoded[resourcev1.DeviceClass](text), true)
	}
	for _, text := range around.Pods {
		c.set("pods", readObject("pods", text))
	}
	for _, text := range around.Claims {
		c.set("resourceclaims.resource.k8s.io", readObject("resourceclaims.resource.k8s.io", text))
	}
	lister := func(gvr schema.GroupVersionResource) (cache.GenericLister, error) {
		return cache.NewGenericLister(c.store(gvr.GroupResource().String()), gvr.GroupResource()), nil
	}
	c.evaluators = map[string]quota.Evaluator{
		"pods":                   core.NewPodEvaluator(lister, c.clock),
		"services":               core.NewServiceEvaluator(lister),
		"persistentvolumeclaims": core.NewPersistentVolumeClaimEvaluator(lister),
		"resourceclaims.resource.k8s.io": core.NewResourceClaimEvaluator(lister, c.classes,
			corev1listers.NewPodLister(c.store("pods")), c.claimsOf),
	}
	count := func(gr schema.GroupResource, alias corev1.ResourceName) {
		c.evaluators[gr.String()] = generic.NewObjectCountEvaluator(gr, generic.ListResourceUsingListerFunc(lister, gr.WithVersion("v1")), alias)
	}
	for _, kind := range countedKinds {
		count(schema.ParseGroupResource(kind), "")
	}
	for _, alias := range aliases {
		count(schema.GroupResource{Resource: alias}, corev1.ResourceName(alias))
	}
	return c
}

// claimsOf are the extended-resource claims that a pod controls, as upstream's index has them.
func (c *cluster) claimsOf(namespace string, pod types.UID) (owned []*resourcev1.ResourceClaim, err error) {
	for _, object := range c.store("resourceclaims.resource.k8s.io").List() {
		claim := object.(*resourcev1.ResourceClaim)
		owner := metav1.GetControllerOfNoCopy(claim)
		if claim.Namespace == namespace && claim.Annotations[resourcev1.ExtendedResourceClaimAnnotation] == "true" && owner != nil &&
			owner.Kind == "Pod" && owner.APIVersion == "v1" && owner.UID == pod {
			owned = append(owned, claim)
		}
	}
	return owned, nil
}

func (c *cluster) store(kind string) cache.Indexer {
	store, known := c.stores[kind]
	if !known {
		store = cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
		c.stores[kind] = store
	}
	return store
}

func (c *cluster) set(kind string, object runtime.Object) {
	if err := c.store(kind).Add(object); err != nil {
		panic(err)
	}
}

func (c *cluster) evaluator(kind string) quota.Evaluator {
	evaluator, known := c.evaluators[kind]
	if !known {
		panic(fmt.Sprintf("no evaluator for %q", kind))
	}
	return evaluator
}

// registry has all evaluators, as the controller's.
func (c *cluster) registry() quota.Registry {
	var all []quota.Evaluator
	for _, kind := range sortedKeys(c.evaluators) {
		all = append(all, c.evaluators[kind])
	}
	return generic.NewRegistry(all)
}
