// Package protobuf knows the kinds that the embedded API server reads from protobuf: it tells their messages to the server, as a table, and
// makes objects with every field set, by which the two encodings can be compared.
package protobuf

import (
	"bytes"
	"fmt"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	batch "k8s.io/api/batch/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	resources "k8s.io/api/resource/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// MediaType is the Content-Type of bodies.
const MediaType = runtime.ContentTypeProtobuf

// Kinds are all that clients send: the kinds that the server serves, and those of options and subresources.
func Kinds() []runtime.Object {
	return []runtime.Object{
		kind("v1", &core.ConfigMap{}),
		kind("v1", &core.Endpoints{}),
		kind("v1", &core.Event{}),
		kind("v1", &core.LimitRange{}),
		kind("v1", &core.Namespace{}),
		kind("v1", &core.Node{}),
		kind("v1", &core.PersistentVolume{}),
		kind("v1", &core.PersistentVolumeClaim{}),
		kind("v1", &core.Pod{}),
		kind("v1", &core.ReplicationController{}),
		kind("v1", &core.ResourceQuota{}),
		kind("v1", &core.Secret{}),
		kind("v1", &core.Service{}),
		kind("v1", &core.ServiceAccount{}),
		kind("admissionregistration.k8s.io/v1", &admissionregistration.MutatingWebhookConfiguration{}),
		kind("admissionregistration.k8s.io/v1", &admissionregistration.ValidatingWebhookConfiguration{}),
		kind("apiextensions.k8s.io/v1", &apiextensions.CustomResourceDefinition{}),
		kind("apiregistration.k8s.io/v1", &apiregistration.APIService{}),
		kind("apps/v1", &apps.DaemonSet{}),
		kind("apps/v1", &apps.Deployment{}),
		kind("apps/v1", &apps.ReplicaSet{}),
		kind("apps/v1", &apps.StatefulSet{}),
		kind("autoscaling/v1", &autoscaling.Scale{}),
		kind("batch/v1", &batch.CronJob{}),
		kind("batch/v1", &batch.Job{}),
		kind("coordination.k8s.io/v1", &coordination.Lease{}),
		kind("discovery.k8s.io/v1", &discovery.EndpointSlice{}),
		kind("meta.k8s.io/v1", &meta.DeleteOptions{}),
		kind("networking.k8s.io/v1", &networking.Ingress{}),
		kind("policy/v1", &policy.Eviction{}),
		kind("policy/v1", &policy.PodDisruptionBudget{}),
		kind("resource.k8s.io/v1", &resources.DeviceClass{}),
		kind("resource.k8s.io/v1", &resources.ResourceClaim{}),
		kind("resource.k8s.io/v1", &resources.ResourceClaimTemplate{}),
		kind("scheduling.k8s.io/v1", &scheduling.PriorityClass{}),
		kind("storage.k8s.io/v1", &storage.StorageClass{}),
		kind("storage.k8s.io/v1", &storage.VolumeAttributesClass{}),
	}
}

// kind tells an empty object what it is. Kinds have the names of their Go types.
func kind(apiVersion string, object runtime.Object) runtime.Object {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		panic(err) // they stand above
	}
	object.GetObjectKind().SetGroupVersionKind(version.WithKind(message(object).Name()))
	return object
}

// Empty is a new object of a kind, or nil where it is not one of Kinds. Every group has DeleteOptions.
func Empty(apiVersion, kind string) runtime.Object {
	for _, object := range Kinds() {
		gvk := object.GetObjectKind().GroupVersionKind()
		_, options := object.(*meta.DeleteOptions)
		if gvk.Kind == kind && (options || gvk.GroupVersion().String() == apiVersion) {
			return object
		}
	}
	return nil
}

// Encode writes an object as clients do: the magic bytes, and the envelope that says what it is.
func Encode(object runtime.Object) ([]byte, error) {
	var body bytes.Buffer
	if err := serializer.NewSerializer(nil, nil).Encode(object, &body); err != nil {
		return nil, fmt.Errorf("%s: %w", object.GetObjectKind().GroupVersionKind(), err)
	}
	return body.Bytes(), nil
}
