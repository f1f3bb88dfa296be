package objects

// clusterObjects are what the namespaced objects refer to.
func clusterObjects() []*Object {
	made := []*Object{{
		Collection: "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
		Body: M{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": M{"name": "widgets.example.com"},
			"spec": M{
				"group": "example.com", "scope": "Namespaced",
				"names": M{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
				"versions": L{M{"name": "v1", "served": true, "storage": true,
					"schema": M{"openAPIV3Schema": M{"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}},
			},
		},
	}}
	add := func(groupVersion, resource, kind, name string, fields M) {
		body := M{"apiVersion": groupVersion, "kind": kind, "metadata": M{"name": name}}
		for field, value := range fields {
			body[field] = value
		}
		made = append(made, &Object{Collection: apiRoot(groupVersion) + "/" + resource, Body: body})
	}
	add("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "low", M{"value": 10})
	add("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", "high", M{"value": 1000})
	add("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", "sandboxed",
		M{"handler": "sandboxed", "overhead": M{"podFixed": M{"cpu": "250m", "memory": "120Mi"}}})
	// Pods that are resized must be on a node that is there and large enough.
	add("v1", "nodes", "Node", "node", nil)
	room := M{"cpu": "64", "memory": "256Gi", "pods": "1000"}
	made[len(made)-1].Status = M{"capacity": room, "allocatable": room}
	for _, name := range []string{"silver", "gold"} {
		add("storage.k8s.io/v1", "volumeattributesclasses", "VolumeAttributesClass", name,
			M{"driverName": "csi.example.com", "parameters": M{"iops": name}})
	}
	// Two device classes carry the same extended resource. No claim uses both: upstream's figure would be random.
	extendedResources := map[string]string{
		"gpu-small": "example.com/gpu", "gpu-large": "example.com/gpu", "fpga": "vendor.example.com/fpga", "nic": "",
	}
	for _, name := range sorted(extendedResources) {
		spec := M{"selectors": L{M{"cel": M{"expression": `device.driver == "` + name + `.example.com"`}}}}
		if extendedResources[name] != "" {
			spec["extendedResourceName"] = extendedResources[name]
		}
		add("resource.k8s.io/v1", "deviceclasses", "DeviceClass", name, M{"spec": spec})
	}
	return made
}
