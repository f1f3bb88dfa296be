package oracle

import (
	"fmt"
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (r *Random) service(name string) *corev1.Service {
	service := &corev1.Service{ObjectMeta: r.metadata(name)}
	service.Spec.Type = pick(r, "", corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeNodePort,
		corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName, "Future")
	for range r.IntN(5) {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Port: 80, NodePort: pick[int32](r, 0, 0, 30_000, -1)})
	}
	if r.chance(50) {
		allocate := r.chance(40)
		service.Spec.AllocateLoadBalancerNodePorts = &allocate
	}
	return service
}

func (r *Random) persistentVolumeClaim(name string) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: r.metadata(name)}
	class := func() *string {
		name := pick(r, "gold", "silver", "", "a.b")
		return &name
	}
	storage := func() corev1.ResourceList {
		list := corev1.ResourceList{}
		if r.chance(85) {
			list[corev1.ResourceStorage] = parsed(r.quantity())
		}
		if r.chance(5) {
			list[corev1.ResourceCPU] = parsed(r.quantity())
		}
		return list
	}
	if r.chance(60) {
		claim.Spec.StorageClassName = class()
	}
	if r.chance(15) {
		claim.Annotations = map[string]string{corev1.BetaStorageClassAnnotation: *class()}
	}
	if r.chance(95) {
		claim.Spec.Resources.Requests = storage()
	}
	if r.chance(40) {
		claim.Status.AllocatedResources = storage()
	}
	if r.chance(20) {
		claim.Status.Capacity = storage()
	}
	if r.chance(40) {
		claim.Spec.VolumeAttributesClassName = class()
	}
	if r.chance(30) {
		claim.Status.CurrentVolumeAttributesClassName = class()
	}
	if r.chance(25) {
		claim.Status.ModifyVolumeStatus = &corev1.ModifyVolumeStatus{TargetVolumeAttributesClassName: *class(),
			Status: pick(r, corev1.PersistentVolumeClaimModifyVolumePending, corev1.PersistentVolumeClaimModifyVolumeInProgress, corev1.PersistentVolumeClaimModifyVolumeInfeasible)}
	}
	return claim
}

// deviceClassNames are those that claims ask for; gone has no object.
var deviceClassNames = []string{"small", "large", "nic", "gone", ""}

// deviceClasses of a cluster: small and nic are extended resources, large is none.
func (r *Random) deviceClasses() []*resourcev1.DeviceClass {
	class := func(name, extended string) *resourcev1.DeviceClass {
		made := &resourcev1.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: name,
			CreationTimestamp: metav1.NewTime(now.Add(-time.Duration(r.IntN(3)) * time.Hour))}}
		if extended != "" {
			made.Spec.ExtendedResourceName = &extended
		}
		return made
	}
	nic := "vendor.org/fpga"
	if r.rarely(150) {
		nic = "example.com/gpu" // a second class of one extended resource
	}
	return some(r, 3, class("small", "example.com/gpu"), class("nic", nic), class("large", ""))
}

func (r *Random) resourceClaim(name string) *resourcev1.ResourceClaim {
	claim := &resourcev1.ResourceClaim{ObjectMeta: r.metadata(name)}
	mode := func() (resourcev1.DeviceAllocationMode, int64) {
		return pick(r, resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeExactCount, resourcev1.DeviceAllocationModeAll, "", "Future"),
			pick[int64](r, 0, 1, 1, 2, 5, 31, 32, 33, -1, math.MaxInt64)
	}
	for i := range r.IntN(4) {
		request := resourcev1.DeviceRequest{Name: fmt.Sprint("r", i)}
		if r.chance(65) {
			made := resourcev1.ExactDeviceRequest{DeviceClassName: pick(r, deviceClassNames...)}
			made.AllocationMode, made.Count = mode()
			request.Exactly = &made
		}
		if r.chance(35) {
			for j := range r.IntN(4) {
				made := resourcev1.DeviceSubRequest{Name: fmt.Sprint("s", j), DeviceClassName: pick(r, deviceClassNames...)}
				made.AllocationMode, made.Count = mode()
				request.FirstAvailable = append(request.FirstAvailable, made)
			}
		}
		claim.Spec.Devices.Requests = append(claim.Spec.Devices.Requests, request)
	}
	return claim
}

// own makes claims the extended-resource claims of a pod, in every way that is nearly right too.
func (r *Random) own(pod *corev1.Pod, claims ...*resourcev1.ResourceClaim) {
	for _, claim := range claims {
		claim.Annotations = map[string]string{resourcev1.ExtendedResourceClaimAnnotation: pick(r, "true", "true", "true", "true", "true", "True", "false", "")}
		controller := r.chance(90)
		owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID, Controller: &controller}
		switch r.IntN(20) {
		case 0:
			owner.Kind = "Job"
		case 1:
			owner.APIVersion = "v2"
		case 2:
			owner.UID = "00000000-0000-4000-8000-ffffffffffff"
		case 3:
			owner.Controller = nil
		case 4:
			if r.rarely(10) {
				owner.Name = "another"
			}
		}
		claim.OwnerReferences = []metav1.OwnerReference{owner}
		if r.chance(10) {
			other := false
			claim.OwnerReferences = append([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "x", Controller: &other}}, claim.OwnerReferences...)
		}
	}
	if len(claims) > 0 && r.chance(50) {
		pod.Status.ExtendedResourceClaimStatus = &corev1.PodExtendedResourceClaimStatus{
			ResourceClaimName: pick(r, claims[0].Name, claims[0].Name, claims[len(claims)-1].Name, "gone", "")}
	}
}

// counted objects are of kinds that quotas only count.
var countedKinds = []string{"configmaps", "secrets", "replicationcontrollers", "resourcequotas", "deployments.apps", "widgets.example.com", "endpoints"}

func (r *Random) counted(name string) *metav1.PartialObjectMetadata {
	return &metav1.PartialObjectMetadata{ObjectMeta: r.metadata(name)}
}

// quotaNames are all that a quota may limit, and some that nothing counts.
var quotaNames = []string{
	"cpu", "memory", "pods", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory", "ephemeral-storage", "requests.ephemeral-storage",
	"limits.ephemeral-storage", "count/pods", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.hugepages-1Gi", "requests.example.com/gpu",
	"requests.vendor.org/fpga", "requests.deviceclass.resource.kubernetes.io/small", "requests.deviceclass.resource.kubernetes.io/large",
	"requests.deviceclass.resource.kubernetes.io/gone", "services", "count/services", "services.nodeports", "services.loadbalancers",
	"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage", "gold.storageclass.storage.k8s.io/requests.storage",
	"gold.storageclass.storage.k8s.io/persistentvolumeclaims", "silver.storageclass.storage.k8s.io/requests.storage",
	".storageclass.storage.k8s.io/requests.storage", "count/resourceclaims.resource.k8s.io", "small.deviceclass.resource.k8s.io/devices",
	"nic.deviceclass.resource.k8s.io/devices", "gone.deviceclass.resource.k8s.io/devices", "configmaps", "count/configmaps", "secrets",
	"count/secrets", "replicationcontrollers", "count/replicationcontrollers", "resourcequotas", "count/deployments.apps", "count/widgets.example.com",
	"count/endpoints", "storage", "requests.kubernetes.io/x", "limits.example.com/gpu", "example.com/gpu", "foo", "count/deployments", "requests.",
	"requests.deviceclass.resource.kubernetes.io/", ".deviceclass.resource.k8s.io/devices", "hugepages-", "requests.foo",
}

func (r *Random) requirement() corev1.ScopedResourceSelectorRequirement {
	made := corev1.ScopedResourceSelectorRequirement{
		ScopeName: pick(r, corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort,
			corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopePriorityClass,
			corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity, corev1.ResourceQuotaScopeVolumeAttributesClass),
		Operator: corev1.ScopeSelectorOpExists,
	}
	if made.ScopeName == corev1.ResourceQuotaScopePriorityClass || made.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass {
		made.Operator = pick(r, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist)
		if made.Operator == corev1.ScopeSelectorOpIn || made.Operator == corev1.ScopeSelectorOpNotIn {
			made.Values = []string{pick(r, "hi", "lo", "gold", "silver")}
			if r.chance(40) {
				made.Values = append(made.Values, pick(r, "hi", "lo", "gold", "", "system-node-critical"))
			}
		}
	}
	return made
}

// oddRequirement is as the API would not take it.
func (r *Random) oddRequirement() corev1.ScopedResourceSelectorRequirement {
	made := r.requirement()
	made.Operator = pick(r, corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn, corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist, "Future", "")
	made.Values = pick(r, nil, []string{}, []string{"hi"}, []string{"-"}, []string{"x y"}, []string{string(make([]byte, 64))}, []string{"hi", "hi"})
	if r.chance(10) {
		made.ScopeName = "Future"
	}
	return made
}

// scoped gives a quota scopes.
func (r *Random) scoped(quota *corev1.ResourceQuota) {
	for range pick(r, 0, 0, 0, 1, 1, 2) {
		quota.Spec.Scopes = append(quota.Spec.Scopes, r.requirement().ScopeName)
	}
	if r.chance(35) {
		quota.Spec.ScopeSelector = &corev1.ScopeSelector{}
		for range 1 + r.IntN(2) {
			quota.Spec.ScopeSelector.MatchExpressions = append(quota.Spec.ScopeSelector.MatchExpressions, r.requirement())
		}
	}
}

// quota with limits; status and spec agree.
func (r *Random) quota(name string, names []string, limit func() string) *corev1.ResourceQuota {
	made := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "q", ResourceVersion: "1"}}
	made.Spec.Hard = corev1.ResourceList{}
	for _, name := range names {
		made.Spec.Hard[corev1.ResourceName(name)] = parsed(limit())
	}
	made.Status.Hard = made.Spec.Hard.DeepCopy()
	r.scoped(made)
	return made
}
