package core

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/dynamic-resource-allocation/deviceclass/extendedresourcecache"
	"k8s.io/utils/clock"
)

// What upstream decides here is gone; kubequota decides it. Upstream's conversions of objects stay.
//
//kubequota:cut podEvaluator podObjectCountName resourceRequestsDeviceClassPrefix podResources podResourcePrefixes validationSet
//kubequota:cut requestedResourcePrefixes maskResourceWithPrefix isExtendedResourceNameForQuota enforcePodContainerConstraints
//kubequota:cut podComputeUsageHelper PodUsageFunc isBestEffort podMatchesSelector crossNamespacePodAffinityTerm
//kubequota:cut crossNamespacePodAffinityTerms crossNamespaceWeightedPodAffinityTerms usesCrossNamespacePodAffinity
//kubequota:cut serviceEvaluator serviceObjectCountName serviceResources portsWithNodePorts
//kubequota:cut pvcEvaluator pvcObjectCountName pvcResources pvcMatchesScopeFunc pvcMatchesSelector
//kubequota:cut getReferencedVolumeAttributesClassNames
//kubequota:cut claimEvaluator _

func kubequotaList(f quota.ListerForResourceFunc, resource schema.GroupVersionResource) generic.ListFuncByNamespace {
	return generic.ListResourceUsingListerFunc(f, resource)
}

func kubequotaConvert[T any](convert func(runtime.Object) (T, error)) func(runtime.Object) (any, error) {
	return func(object runtime.Object) (any, error) { return convert(object) }
}

func NewPodEvaluator(f quota.ListerForResourceFunc, clock clock.Clock) quota.Evaluator {
	pods := corev1.SchemeGroupVersion.WithResource("pods")
	return &generic.KubequotaEvaluator{
		Kind:    pods.GroupResource(),
		Convert: kubequotaConvert(toExternalPodOrError),
		Around:  func(any) generic.KubequotaAround { return generic.KubequotaAround{Now: clock.Now()} },
		List:    kubequotaList(f, pods),
	}
}

func NewServiceEvaluator(f quota.ListerForResourceFunc) quota.Evaluator {
	services := corev1.SchemeGroupVersion.WithResource("services")
	return &generic.KubequotaEvaluator{
		Kind:    services.GroupResource(),
		Convert: kubequotaConvert(toExternalServiceOrError),
		List:    kubequotaList(f, services),
	}
}

func NewPersistentVolumeClaimEvaluator(f quota.ListerForResourceFunc) quota.Evaluator {
	claims := corev1.SchemeGroupVersion.WithResource("persistentvolumeclaims")
	return &generic.KubequotaEvaluator{
		Kind:    claims.GroupResource(),
		Convert: kubequotaConvert(toExternalPersistentVolumeClaimOrError),
		List:    kubequotaList(f, claims),
	}
}

func NewResourceClaimEvaluator(f quota.ListerForResourceFunc, m *extendedresourcecache.ExtendedResourceCache, pods corev1listers.PodLister, claimsOf resourceClaimPodOwnerGetter) quota.Evaluator {
	claims := resourceapi.SchemeGroupVersion.WithResource("resourceclaims")
	classes := &kubequotaClasses{byName: map[string]*resourceapi.DeviceClass{}}
	if m != nil {
		m.AddEventHandler(classes)
	}
	around := func(object any) generic.KubequotaAround {
		around := generic.KubequotaAround{Now: clock.RealClock{}.Now(), DeviceClasses: classes.all()}
		claim, is := object.(*resourceapi.ResourceClaim)
		if !is {
			return around
		}
		// The pods by the names, and the claims by the uids, that the claim gives: which of them matter is for kubequota to say.
		for _, owner := range claim.OwnerReferences {
			if pods != nil {
				if pod, err := pods.Pods(claim.Namespace).Get(owner.Name); err == nil {
					around.Pods = append(around.Pods, pod)
				}
			}
			if claimsOf != nil {
				owned, err := claimsOf(claim.Namespace, owner.UID)
				if err != nil {
					panic(err)
				}
				for _, other := range owned {
					around.Claims = append(around.Claims, other)
				}
			}
		}
		return around
	}
	return &generic.KubequotaEvaluator{
		Kind:    claims.GroupResource(),
		Convert: kubequotaConvert(toExternalResourceClaimOrError),
		Around:  around,
		List:    kubequotaList(f, claims),
	}
}

// kubequotaClasses holds the device classes that upstream's cache is told of.
type kubequotaClasses struct {
	mutex  sync.Mutex
	byName map[string]*resourceapi.DeviceClass
}

func (c *kubequotaClasses) all() (all []any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, class := range c.byName {
		all = append(all, class)
	}
	return all
}

func (c *kubequotaClasses) OnAdd(object any, _ bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	class := object.(*resourceapi.DeviceClass)
	c.byName[class.Name] = class
}

func (c *kubequotaClasses) OnUpdate(_, object any) { c.OnAdd(object, false) }

func (c *kubequotaClasses) OnDelete(object any) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	delete(c.byName, object.(*resourceapi.DeviceClass).Name)
}

// podMatchesScopeFunc is for upstream's benchmark of it.
func podMatchesScopeFunc(selector corev1.ScopedResourceSelectorRequirement, object runtime.Object) (bool, error) {
	matching, err := NewPodEvaluator(nil, clock.RealClock{}).MatchingScopes(object, []corev1.ScopedResourceSelectorRequirement{selector})
	return len(matching) == 1, err
}

// These serve upstream's controller, which chooses the updates it counts at once. kubequota counts all of them, and no test asks.

func IsTerminating(*corev1.Pod) bool { panic(kubequotaNotAsked) }

func QuotaV1Pod(*corev1.Pod, clock.Clock) bool { panic(kubequotaNotAsked) }

func GetQuotaServiceType(*corev1.Service) corev1.ServiceType { panic(kubequotaNotAsked) }

func RequiresQuotaReplenish(_, _ *corev1.PersistentVolumeClaim) bool { panic(kubequotaNotAsked) }

const kubequotaNotAsked = "kubequota is not asked which updates of upstream's controller count at once"
