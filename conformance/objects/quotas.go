package objects

// Untracked are the names in the quotas below that nothing tracks. Their figures are whatever somebody wrote.
var Untracked = []string{"count/events", "count/gadgets.example.com", "example.com/gadgets", "limits.example.com/gpu"}

// quotas of one namespace: every name, scope and operator, alone and together. No limit is near: the figures are what matters.
func quotas(namespace string) []*Object {
	var made []*Object
	quota := func(name string, hard M, scopes L, selector ...any) *Object {
		spec := M{"hard": hard}
		if scopes != nil {
			spec["scopes"] = scopes
		}
		if selector != nil {
			spec["scopeSelector"] = M{"matchExpressions": L(selector)}
		}
		object := &Object{
			Collection: "/api/v1/namespaces/" + namespace + "/resourcequotas",
			Body: M{"apiVersion": "v1", "kind": "ResourceQuota",
				"metadata": M{"name": name, "namespace": namespace}, "spec": spec},
		}
		made = append(made, object)
		return object
	}
	match := func(scope, operator string, values ...any) M {
		expression := M{"scopeName": scope, "operator": operator}
		if values != nil {
			expression["values"] = L(values)
		}
		return expression
	}
	pods := func() M {
		return M{"pods": "1000", "cpu": "1k", "memory": "1Ti", "requests.cpu": "1000", "requests.memory": "1e15", "limits.cpu": "1e6", "limits.memory": "1P"}
	}

	// Pods without a scope; the limits in odd spellings.
	quota("pods", pods(), nil)
	quota("pods-odd-hard", M{"pods": "100e1", "cpu": "1500000m", "memory": "1.5Ti", "limits.cpu": "+1E3", "requests.memory": "00012E12"}, nil)
	quota("pods-ephemeral", M{"count/pods": "1e3", "ephemeral-storage": "1E", "requests.ephemeral-storage": "1Ei",
		"limits.ephemeral-storage": "9223372036854775807"}, nil)
	quota("pods-hugepages", M{"hugepages-2Mi": "1Gi", "requests.hugepages-2Mi": "1Gi", "hugepages-1Gi": "1Gi", "requests.hugepages-1Gi": "1Gi"}, nil)

	// Scopes, and the same as selectors.
	quota("terminating", pods(), L{"Terminating"})
	quota("not-terminating", pods(), L{"NotTerminating"})
	quota("best-effort", M{"pods": "1000", "count/pods": "1000"}, L{"BestEffort"})
	quota("not-best-effort", pods(), L{"NotBestEffort"})
	quota("two-scopes", pods(), L{"NotTerminating", "NotBestEffort"})
	quota("cross-namespace", pods(), L{"CrossNamespacePodAffinity"})
	quota("priority-scope", pods(), L{"PriorityClass"})
	quota("selector-terminating", pods(), nil, match("Terminating", "Exists"))
	quota("selector-best-effort", M{"pods": "1000"}, nil, match("BestEffort", "Exists"))
	quota("selector-cross-namespace", M{"pods": "1000"}, nil, match("CrossNamespacePodAffinity", "Exists"))
	quota("priority-in", pods(), nil, match("PriorityClass", "In", "high"))
	quota("priority-in-two", pods(), nil, match("PriorityClass", "In", "high", "low"))
	quota("priority-not-in", pods(), nil, match("PriorityClass", "NotIn", "high"))
	quota("priority-exists", pods(), nil, match("PriorityClass", "Exists"))
	quota("priority-does-not-exist", pods(), nil, match("PriorityClass", "DoesNotExist"))
	quota("scope-and-selector", pods(), L{"NotTerminating"}, match("PriorityClass", "In", "low"), match("NotBestEffort", "Exists"))
	// A scope leaves what matches no scope at 0.
	quota("scoped-others", M{"pods": "1000", "count/services": "10", "count/configmaps": "10", "count/widgets.example.com": "10",
		"count/persistentvolumeclaims": "10", "count/resourceclaims.resource.k8s.io": "10", "requests.example.com/gpu": "100"}, L{"NotTerminating"})

	quota("services", M{"services": "100", "count/services": "100", "services.loadbalancers": "100", "services.nodeports": "1k"}, nil)

	storage := func() M {
		return M{"persistentvolumeclaims": "100", "count/persistentvolumeclaims": "100", "requests.storage": "100Ti"}
	}
	quota("claims", storage(), nil)
	quota("claims-by-class", M{
		"fast.storageclass.storage.k8s.io/persistentvolumeclaims": "100", "fast.storageclass.storage.k8s.io/requests.storage": "100Ti",
		"slow.storageclass.storage.k8s.io/persistentvolumeclaims": "100", "slow.storageclass.storage.k8s.io/requests.storage": "1e15",
		"absent.storageclass.storage.k8s.io/persistentvolumeclaims": "100", "absent.storageclass.storage.k8s.io/requests.storage": "1"}, nil)
	quota("attributes-scope", storage(), L{"VolumeAttributesClass"})
	quota("attributes-in", storage(), nil, match("VolumeAttributesClass", "In", "gold"))
	quota("attributes-not-in", storage(), nil, match("VolumeAttributesClass", "NotIn", "gold"))
	quota("attributes-exists", storage(), nil, match("VolumeAttributesClass", "Exists"))
	quota("attributes-does-not-exist", storage(), nil, match("VolumeAttributesClass", "DoesNotExist"))
	quota("attributes-by-class", M{"fast.storageclass.storage.k8s.io/requests.storage": "100Ti"}, nil,
		match("VolumeAttributesClass", "In", "gold", "silver"))

	quota("devices", M{"count/resourceclaims.resource.k8s.io": "100",
		"gpu-small.deviceclass.resource.k8s.io/devices": "1k", "gpu-large.deviceclass.resource.k8s.io/devices": "1k",
		"fpga.deviceclass.resource.k8s.io/devices": "1k", "nic.deviceclass.resource.k8s.io/devices": "1k",
		"elsewhere.deviceclass.resource.k8s.io/devices": "1k"}, nil)
	quota("extended", M{"requests.example.com/gpu": "1k", "requests.vendor.example.com/fpga": "1k", "requests.other.example.com/thing": "1k"}, nil)
	quota("implicit", M{"requests.deviceclass.resource.kubernetes.io/gpu-small": "1k",
		"requests.deviceclass.resource.kubernetes.io/gpu-large": "1k", "requests.deviceclass.resource.kubernetes.io/fpga": "1k"}, nil)
	quota("implicit-beside", M{"requests.deviceclass.resource.kubernetes.io/nic": "1k", "nic.deviceclass.resource.k8s.io/devices": "1k"}, nil)
	// No DeviceClass "elsewhere" exists, so claims do not track its implicit name; pods track any. Upstream counts claims under it only
	// where the same quota makes it look at claims for the sake of another name.
	quota("implicit-unknown", M{"requests.deviceclass.resource.kubernetes.io/elsewhere": "1k"}, nil)
	quota("implicit-unknown-beside", M{"requests.deviceclass.resource.kubernetes.io/elsewhere": "1k",
		"count/resourceclaims.resource.k8s.io": "100"}, nil)

	quota("counts", M{"configmaps": "100", "count/configmaps": "100", "secrets": "100", "count/secrets": "100",
		"replicationcontrollers": "100", "count/replicationcontrollers": "100", "resourcequotas": "100", "count/resourcequotas": "100"}, nil)
	quota("counts-more", M{"count/serviceaccounts": "100", "count/endpoints": "100", "count/deployments.apps": "100",
		"count/statefulsets.apps": "100", "count/jobs.batch": "100", "count/leases.coordination.k8s.io": "100",
		"count/ingresses.networking.k8s.io": "100", "count/networkpolicies.networking.k8s.io": "100", "count/widgets.example.com": "100"}, nil)
	// No object of this kind exists anywhere, so the files cannot show that it is served.
	quota("counts-none", M{"count/cronjobs.batch": "100"}, nil)

	// Names that nothing tracks: a figure that stands there stays, and none appears.
	quota("untracked", M{"pods": "1k", "count/events": "10", "count/gadgets.example.com": "10", "example.com/gadgets": "10",
		"limits.example.com/gpu": "10"}, nil).
		Status = M{"hard": M{"count/gadgets.example.com": "10", "example.com/gadgets": "10"},
		"used": M{"count/gadgets.example.com": "7", "example.com/gadgets": "1e1"}}
	return made
}
