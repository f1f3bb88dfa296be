package objects

import "fmt"

const storageClassAnnotation = "volume.beta.kubernetes.io/storage-class"

func (g *generator) persistentVolumeClaims() {
	claim := func(name, size string, spec M, annotations M) *Object {
		spec["accessModes"] = L{"ReadWriteOnce"}
		spec["resources"] = M{"requests": M{"storage": size}}
		return g.add("v1", "persistentvolumeclaims", "PersistentVolumeClaim", name, M{"metadata": M{"annotations": annotations}, "spec": spec})
	}
	for i := range 8 {
		spec := M{}
		if class := pick(g, "", "fast", "slow", "slow"); class != "" {
			spec["storageClassName"] = class
		}
		if class := pick(g, "", "silver", "gold"); class != "" {
			spec["volumeAttributesClassName"] = class
		}
		claim(fmt.Sprintf("claim-%d", i), pick(g, "1Gi", "10G", "1500m", "2.5", "3e3", "0.1Ki", "1.5Gi", "1e12"), spec, nil)
	}
	claim("class-annotation", "5Gi", M{}, M{storageClassAnnotation: "fast"})
	claim("class-field-empty", "5Gi", M{"storageClassName": ""}, nil)
	claim("class-annotation-empty", "5Gi", M{"storageClassName": "slow"}, M{storageClassAnnotation: ""})
	claim("class-both", "5Gi", M{"storageClassName": "slow"}, M{storageClassAnnotation: "fast"})

	claim("expanding", "2Gi", M{"storageClassName": "fast"}, nil).Status =
		M{"phase": "Bound", "capacity": M{"storage": "2Gi"}, "allocatedResources": M{"storage": "5Gi"},
			"allocatedResourceStatuses": M{"storage": "ControllerResizeInProgress"}}
	claim("expanding-fraction", "2Gi", M{}, nil).Status =
		M{"phase": "Bound", "capacity": M{"storage": "2Gi"}, "allocatedResources": M{"storage": "3333333333.3"}}
	claim("allocated-less", "4Gi", M{"storageClassName": "slow"}, nil).Status =
		M{"phase": "Bound", "capacity": M{"storage": "4Gi"}, "allocatedResources": M{"storage": "1Gi"}}
	// A class that is only wanted, only had, or only aimed at.
	claim("attributes-current", "1Gi", M{}, nil).Status = M{"phase": "Bound", "currentVolumeAttributesClassName": "silver"}
	claim("attributes-moving", "1Gi", M{"volumeAttributesClassName": "gold"}, nil).Status = M{"phase": "Bound",
		"currentVolumeAttributesClassName": "silver", "modifyVolumeStatus": M{"status": "InProgress", "targetVolumeAttributesClassName": "gold"}}
	claim("attributes-target", "1Gi", M{}, nil).Status =
		M{"phase": "Bound", "modifyVolumeStatus": M{"status": "Pending", "targetVolumeAttributesClassName": "gold"}}
}

func (g *generator) resourceClaims() {
	exactly := func(request, class string, fields M) M {
		fields["deviceClassName"] = class
		return M{"name": request, "exactly": fields}
	}
	sub := func(name, class string, fields M) M {
		fields["name"], fields["deviceClassName"] = name, class
		return fields
	}
	claim := func(name string, metadata M, requests ...any) *Object {
		return g.add("resource.k8s.io/v1", "resourceclaims", "ResourceClaim", name,
			M{"metadata": metadata, "spec": M{"devices": M{"requests": L(requests)}}})
	}
	// One of the two classes of example.com/gpu for each namespace and claim, see clusterObjects.
	gpu := pick(g, "gpu-small", "gpu-large")
	claim("one", nil, exactly("r", gpu, M{}))
	claim("exact", nil, exactly("r", gpu, M{"allocationMode": "ExactCount", "count": 1 + g.random.IntN(5)}))
	claim("all", nil, exactly("r", "nic", M{"allocationMode": "All"}))
	claim("two-classes", nil, exactly("a", "nic", M{"count": 2}), exactly("b", "fpga", M{"count": 3}), exactly("c", "fpga", M{}))
	claim("first-available", nil, M{"name": "r", "firstAvailable": L{
		sub("a", gpu, M{"count": 2}), sub("b", "fpga", M{"count": 1 + g.random.IntN(4)}), sub("c", gpu, M{"count": 3})}})
	claim("first-available-all", nil, exactly("q", "fpga", M{}),
		M{"name": "r", "firstAvailable": L{sub("a", "fpga", M{"count": 2}), sub("b", "fpga", M{"allocationMode": "All"})}})
	claim("unknown-class", nil, exactly("r", "elsewhere", M{"count": 4}))

	g.extendedResourceClaims(exactly, claim)
}

// extendedResourceClaims are such as the scheduler makes for a pod that asks for an extended resource which a DeviceClass provides: what
// the pod has been charged for is not charged again.
func (g *generator) extendedResourceClaims(exactly func(string, string, M) M, claim func(string, M, ...any) *Object) {
	annotated := func() M { return M{"annotations": M{"resource.kubernetes.io/extended-resource-claim": "true"}} }
	owner := func(name, resource, amount string) *Object {
		return g.pod(name, M{"nodeName": "node", "containers": L{container("c", M{resource: amount}, M{resource: amount})}})
	}
	owned := func(name, pod string, metadata M, requests ...any) {
		claim(name, metadata, requests...).OwnerPod = pod
	}
	owner("owner-exact", "example.com/gpu", "2")
	owned("owned-exact", "owner-exact", annotated(), exactly("r", "gpu-small", M{"count": 2}))
	owner("owner-less", "vendor.example.com/fpga", "1")
	owned("owned-more", "owner-less", annotated(), exactly("r", "fpga", M{"count": 3}))
	owner("owner-implicit", "deviceclass.resource.kubernetes.io/nic", "2")
	owned("owned-implicit", "owner-implicit", annotated(), exactly("r", "nic", M{"count": 5}))
	// Only the first claim of a pod is its own.
	owner("owner-twice", "example.com/gpu", "2")
	owned("owned-first", "owner-twice", annotated(), exactly("r", "gpu-large", M{"count": 2}))
	owned("owned-second", "owner-twice", annotated(), exactly("r", "gpu-large", M{"count": 2}))
	// Without the annotation an owner means nothing.
	owner("owner-plain", "example.com/gpu", "1")
	owned("owned-plain", "owner-plain", nil, exactly("r", "gpu-small", M{"count": 1}))
	// A pod that has ended is charged for nothing, so its claim is charged in full.
	owner("owner-ended", "example.com/gpu", "1").Status = M{"phase": "Succeeded"}
	owned("owned-by-ended", "owner-ended", annotated(), exactly("r", "gpu-small", M{"count": 1}))
	// The pod's status says which claim is its own.
	for _, names := range []string{"owned-named", "elsewhere"} {
		pod := "owner-names-" + names
		owner(pod, "example.com/gpu", "1").Status = M{"extendedResourceClaimStatus": M{"resourceClaimName": names,
			"requestMappings": L{M{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}}}}
	}
	owned("owned-named", "owner-names-owned-named", annotated(), exactly("r", "gpu-small", M{"count": 1}))
	owned("owned-unnamed", "owner-names-elsewhere", annotated(), exactly("r", "gpu-small", M{"count": 1}))
	// No owner at all.
	claim("annotated-only", annotated(), exactly("r", "fpga", M{"count": 2}))
}
