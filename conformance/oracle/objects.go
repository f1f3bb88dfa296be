package oracle

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/core/install"     // for internal types
	_ "k8s.io/kubernetes/pkg/apis/resource/install" // for internal types
)

// around is the server's time, and the objects beside the one in question.
type around struct {
	Now           time.Time         `json:"now"`
	DeviceClasses []json.RawMessage `json:"deviceClasses,omitempty"`
	Pods          []json.RawMessage `json:"pods,omitempty"`
	Claims        []json.RawMessage `json:"claims,omitempty"`
}

type objectQuestion struct {
	Kind   string          `json:"kind"`
	Object json.RawMessage `json:"object"`
	Old    json.RawMessage `json:"old,omitempty"`
	// Internal makes upstream convert the object from kube-apiserver's internal type.
	Internal bool `json:"internal,omitempty"`
	// Protobuf is the object as Kubernetes marshals it, in hexadecimal.
	Protobuf  string                                     `json:"protobuf,omitempty"`
	Around    around                                     `json:"around"`
	Names     []string                                   `json:"names,omitempty"`
	Selectors []corev1.ScopedResourceSelectorRequirement `json:"selectors,omitempty"`
	Quotas    []json.RawMessage                          `json:"quotas,omitempty"`
}

type objectAnswer struct {
	Usage struct {
		Ok  map[string]string
		Err string
	} `json:"usage"`
	Tracked    []string `json:"tracked"`
	Scopes     []*bool  `json:"scopes"`
	Matches    []*bool  `json:"matches"`
	Constraint *string  `json:"constraint"`
	Handles    []string `json:"handles"`
	// Protobuf says how the object read from protobuf differs from the object read from JSON.
	Protobuf *string `json:"protobuf"`
}

var objects = part[objectQuestion, objectAnswer]{
	name: "objects", key: "object", cases: 200_000,
	ask: func(r *Random) objectQuestion {
		question := objectQuestion{Around: around{Now: now}}
		var object, old runtime.Object
		question.Kind, object, old = r.object(&question.Around)
		question.Object = raw(object)
		question.Internal = r.chance(30)
		question.Protobuf = protobufOf(question.Kind, object)
		if r.chance(70) {
			question.Old = raw(old)
		}
		question.Names = some(r, 12, quotaNames...)
		for range r.IntN(4) {
			question.Selectors = append(question.Selectors, r.requirement())
			if r.chance(15) {
				question.Selectors = append(question.Selectors, r.oddRequirement())
			}
		}
		for range r.IntN(3) {
			made := r.quota("q", some(r, 6, quotaNames...), r.quantity)
			if r.chance(10) {
				made.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{r.oddRequirement()}}
			}
			if r.chance(10) {
				made.Status.Hard = nil
			}
			question.Quotas = append(question.Quotas, raw(made))
		}
		return question
	},
	upstream: func(q objectQuestion) (answer objectAnswer) {
		evaluator := newCluster(q.Around).evaluator(q.Kind)
		object := readObject(q.Kind, q.Object)
		var old runtime.Object
		if q.Old != nil {
			old = readObject(q.Kind, q.Old)
		}
		if q.Internal {
			object, old = internal(object), internal(old)
		}
		usage, err := evaluator.Usage(object)
		if err != nil {
			answer.Usage.Err = err.Error()
		} else {
			answer.Usage.Ok = texts(usage)
		}
		names := resourceNames(q.Names)
		tracked := evaluator.MatchingResources(slices.Clone(names))
		answer.Tracked = inOrder(q.Names, tracked)
		for _, selector := range q.Selectors {
			matching, err := evaluator.MatchingScopes(object, []corev1.ScopedResourceSelectorRequirement{selector})
			answer.Scopes = append(answer.Scopes, unless(err, len(matching) == 1))
		}
		for _, text := range q.Quotas {
			matches, err := evaluator.Matches(decoded[corev1.ResourceQuota](text), object)
			answer.Matches = append(answer.Matches, unless(err, matches))
		}
		if err := evaluator.Constraints(names, object); err != nil {
			text := err.Error()
			answer.Constraint = &text
		}
		for _, operation := range []admission.Operation{admission.Create, admission.Update, admission.Delete, admission.Connect} {
			for _, subresource := range []string{"", "status", "resize", "ephemeralcontainers", "binding", "scale"} {
				if evaluator.Handles(attributes(q.Kind, object, old, "", operation, subresource, false)) {
					answer.Handles = append(answer.Handles, string(operation)+"/"+subresource)
				}
			}
		}
		return answer.normal()
	},
	meant: []difference[objectQuestion, objectAnswer]{
		beyondExa[objectQuestion, objectAnswer](),
		{id: claimShared, explains: func(q objectQuestion, theirs, ours objectAnswer) bool {
			return sharedCount(q.Object) && theirs.sameButUsage(ours)
		}},
		{id: twoClasses, explains: func(q objectQuestion, theirs, ours objectAnswer) bool {
			return q.Kind == "resourceclaims.resource.k8s.io" && q.Around.twoClasses() && theirs.sameButUsage(ours)
		}},
		{id: endlessGrace, explains: func(q objectQuestion, theirs, ours objectAnswer) bool {
			return (endless(decoded[metav1.PartialObjectMetadata](q.Object).ObjectMeta) || q.Around.endless()) && theirs.sameButUsage(ours)
		}},
		{id: ownerByUID, explains: func(q objectQuestion, theirs, ours objectAnswer) bool {
			return misnamed(decoded[metav1.PartialObjectMetadata](q.Object).ObjectMeta, q.Around.Pods) && theirs.sameButUsage(ours)
		}},
	},
}

// sameButUsage says that the answers differ in what the object uses, if at all.
func (a objectAnswer) sameButUsage(other objectAnswer) bool {
	a.Usage = other.Usage
	return reflect.DeepEqual(a, other)
}

// normal makes nothing and an empty list the same.
func (a objectAnswer) normal() objectAnswer {
	if a.Tracked == nil {
		a.Tracked = []string{}
	}
	if a.Scopes == nil {
		a.Scopes = []*bool{}
	}
	if a.Matches == nil {
		a.Matches = []*bool{}
	}
	if a.Handles == nil {
		a.Handles = []string{}
	}
	return a
}

// inOrder are the picked names in the order of all, once each.
func inOrder(all []string, picked []corev1.ResourceName) []string {
	made := []string{}
	for _, name := range all {
		if slices.Contains(picked, corev1.ResourceName(name)) {
			made = append(made, name)
		}
	}
	return made
}

func unless(err error, value bool) *bool {
	if err != nil {
		return nil
	}
	return &value
}

// object of any kind, how it might have been before, and what it depends on.
func (r *Random) object(around *around) (kind string, object, old runtime.Object) {
	const name = "o"
	if r.chance(15) {
		for _, class := range r.deviceClasses() {
			around.DeviceClasses = append(around.DeviceClasses, raw(class))
		}
	}
	switch n := r.IntN(100); {
	case n < 55:
		pod := r.pod(name)
		return "pods", pod, r.before(pod)
	case n < 65:
		return "services", r.service(name), r.service(name)
	case n < 80:
		claim := r.persistentVolumeClaim(name)
		old := r.persistentVolumeClaim(name)
		if r.chance(40) {
			old = claim.DeepCopy()
		}
		return "persistentvolumeclaims", claim, old
	case n < 93:
		claim := r.resourceClaim(name)
		if r.chance(50) {
			r.owners(around, claim)
		}
		return "resourceclaims.resource.k8s.io", claim, r.resourceClaim(name)
	default:
		return pick(r, countedKinds...), r.counted(name), r.counted(name)
	}
}

// before is a pod as it may have been before an update.
func (r *Random) before(pod *corev1.Pod) *corev1.Pod {
	old := pod.DeepCopy()
	switch r.IntN(4) {
	case 0:
		return r.pod(pod.Name)
	case 1:
		old.Spec.ActiveDeadlineSeconds = nil
	case 2:
		for i := range old.Spec.Containers {
			old.Spec.Containers[i].Resources = r.requirements()
		}
	}
	if r.chance(10) {
		old.ResourceVersion = ""
	}
	return old
}

// owners puts a claim's pod around it, and other claims of that pod.
func (r *Random) owners(around *around, claim *resourcev1.ResourceClaim) {
	pod := r.pod("owner")
	// Upstream looks at the machine's clock here: only pods that are long past their grace, or never will be, have one answer.
	if pod.DeletionTimestamp != nil {
		at := metav1.NewTime(now.AddDate(pick(r, -5, 100), 0, 0))
		pod.DeletionTimestamp = &at
	}
	if len(pod.Spec.Containers) > 0 && r.chance(80) {
		extended := corev1.ResourceName(pick(r, "example.com/gpu", "vendor.org/fpga", "deviceclass.resource.kubernetes.io/small", "deviceclass.resource.kubernetes.io/large"))
		if pod.Spec.Containers[0].Resources.Requests == nil {
			pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{}
		}
		pod.Spec.Containers[0].Resources.Requests[extended] = quantityOf(int64(r.IntN(4)))
	}
	claims := []*resourcev1.ResourceClaim{claim}
	for _, name := range some(r, 2, "n", "p", "o2") {
		claims = append(claims, r.resourceClaim(name))
	}
	r.own(pod, claims...)
	if r.chance(90) {
		around.Pods = append(around.Pods, raw(pod))
	}
	for _, other := range claims[1:] {
		around.Claims = append(around.Claims, raw(other))
	}
	// The claim itself may have been seen already.
	if r.chance(50) {
		around.Claims = append(around.Claims, raw(claim))
	}
}

func (a around) twoClasses() bool {
	seen := map[string]bool{}
	for _, text := range a.DeviceClasses {
		if extended := decoded[resourcev1.DeviceClass](text).Spec.ExtendedResourceName; extended != nil {
			if seen[*extended] {
				return true
			}
			seen[*extended] = true
		}
	}
	return false
}

func (a around) endless() bool {
	return slices.ContainsFunc(a.Pods, func(text json.RawMessage) bool {
		return endless(decoded[metav1.PartialObjectMetadata](text).ObjectMeta)
	})
}

// misnamed says that an object's owner is there under another name.
func misnamed(object metav1.ObjectMeta, pods []json.RawMessage) bool {
	for _, owner := range object.OwnerReferences {
		for _, text := range pods {
			if pod := decoded[metav1.PartialObjectMetadata](text); pod.UID == owner.UID && pod.Name != owner.Name {
				return true
			}
		}
	}
	return false
}

// readObject decodes an object of a kind.
func readObject(kind string, text json.RawMessage) runtime.Object {
	switch kind {
	case "pods":
		return decoded[corev1.Pod](text)
	case "services":
		return decoded[corev1.Service](text)
	case "persistentvolumeclaims":
		return decoded[corev1.PersistentVolumeClaim](text)
	case "resourceclaims.resource.k8s.io":
		return decoded[resourcev1.ResourceClaim](text)
	default:
		return decoded[metav1.PartialObjectMetadata](text)
	}
}

// internal converts an object to the type that kube-apiserver's plugins see.
func internal(object runtime.Object) runtime.Object {
	if object == nil {
		return nil
	}
	if _, counted := object.(*metav1.PartialObjectMetadata); counted {
		return object
	}
	converted, err := legacyscheme.Scheme.ConvertToVersion(object, runtime.InternalGroupVersioner)
	if err != nil {
		panic(err)
	}
	return converted
}

// protobufKinds are those that kube-apiserver sends whole as protobuf.
var protobufKinds = map[string]schema.GroupVersionKind{
	"pods":                           corev1.SchemeGroupVersion.WithKind("Pod"),
	"services":                       corev1.SchemeGroupVersion.WithKind("Service"),
	"persistentvolumeclaims":         corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
	"resourceclaims.resource.k8s.io": resourcev1.SchemeGroupVersion.WithKind("ResourceClaim"),
}

var protobufSerializer = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

func protobufOf(kind string, object runtime.Object) string {
	gvk, known := protobufKinds[kind]
	if !known {
		return ""
	}
	// The question's own object stays as it is.
	object = object.DeepCopyObject()
	object.GetObjectKind().SetGroupVersionKind(gvk)
	var encoded bytes.Buffer
	if err := protobufSerializer.Encode(object, &encoded); err != nil {
		panic(err)
	}
	return hex.EncodeToString(encoded.Bytes())
}

func attributes(kind string, object, old runtime.Object, name string, operation admission.Operation, subresource string, dryRun bool) admission.Attributes {
	gr := schema.ParseGroupResource(kind)
	return admission.NewAttributesRecord(object, old, schema.GroupVersionKind{Group: gr.Group, Version: "v1"}, namespace, name,
		gr.WithVersion("v1"), subresource, operation, nil, dryRun, nil)
}
