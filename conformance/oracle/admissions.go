package oracle

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota"
	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	"k8s.io/kubernetes/pkg/apis/core/v1/helper"
)

type admissionQuestion struct {
	Quotas   []json.RawMessage `json:"quotas,omitempty"`
	Limited  []limited         `json:"limited,omitempty"`
	Requests []request         `json:"requests,omitempty"`
	Around   around            `json:"around"`
}

// limited is an entry of limitedResources.
type limited struct {
	APIGroup      string                                     `json:"apiGroup"`
	Resource      string                                     `json:"resource"`
	MatchContains []string                                   `json:"matchContains,omitempty"`
	MatchScopes   []corev1.ScopedResourceSelectorRequirement `json:"matchScopes,omitempty"`
}

type request struct {
	Kind        string          `json:"kind"`
	Operation   string          `json:"operation"`
	Subresource string          `json:"subresource"`
	Namespace   string          `json:"namespace"`
	Name        string          `json:"name"`
	Object      json.RawMessage `json:"object"`
	Old         json.RawMessage `json:"old,omitempty"`
	DryRun      bool            `json:"dryRun"`
}

type admissionAnswer struct {
	Misconfigured string             `json:"misconfigured,omitempty"`
	Verdicts      []admissionVerdict `json:"verdicts"`
}

type admissionVerdict struct {
	// Refused is the whole message.
	Refused string `json:"refused,omitempty"`
	// Allowed is what each quota records afterwards.
	Allowed []map[string]string `json:"allowed,omitempty"`
}

var admissions = part[admissionQuestion, admissionAnswer]{
	name: "admission", key: "admission", cases: 50_000,
	ask: func(r *Random) admissionQuestion { return (&applicant{Random: r}).apply() },
	upstream: func(q admissionQuestion) admissionAnswer {
		c := newCluster(q.Around)
		server := &quotaStore{}
		for _, text := range q.Quotas {
			server.quotas = append(server.quotas, *decoded[corev1.ResourceQuota](text))
		}
		config := &resourcequotaapi.Configuration{}
		for _, entry := range q.Limited {
			config.LimitedResources = append(config.LimitedResources, resourcequotaapi.LimitedResource{
				APIGroup: entry.APIGroup, Resource: entry.Resource, MatchContains: entry.MatchContains, MatchScopes: entry.MatchScopes})
		}
		stop := make(chan struct{})
		defer close(stop)
		evaluator := resourcequota.NewQuotaEvaluator(server, map[schema.GroupResource]struct{}{}, c.registry(), nil, config, 1, stop)
		var answer admissionAnswer
		for _, asked := range q.Requests {
			var old runtime.Object
			if asked.Old != nil {
				old = readObject(asked.Kind, asked.Old)
			}
			// kube-apiserver's plugin sees its internal types.
			err := evaluator.Evaluate(attributes(asked.Kind, internal(readObject(asked.Kind, asked.Object)), internal(old), asked.Name,
				admission.Operation(asked.Operation), asked.Subresource, asked.DryRun))
			if err != nil {
				answer.Verdicts = append(answer.Verdicts, admissionVerdict{Refused: err.Error()})
				continue
			}
			verdict := admissionVerdict{Allowed: []map[string]string{}}
			for _, made := range server.quotas {
				verdict.Allowed = append(verdict.Allowed, texts(made.Status.Used))
			}
			answer.Verdicts = append(answer.Verdicts, verdict)
		}
		return answer
	},
	meant: []difference[admissionQuestion, admissionAnswer]{
		beyondExa[admissionQuestion, admissionAnswer](),
		{id: claimShared, explains: func(q admissionQuestion, _, _ admissionAnswer) bool {
			return slices.ContainsFunc(q.Requests, func(asked request) bool { return sharedCount(asked.Object, asked.Old) })
		}},
		{id: limitedScope, explains: func(q admissionQuestion, _, ours admissionAnswer) bool {
			return ours.Misconfigured != "" && q.misconfigured()
		}},
		{id: scopesAre403, explains: func(q admissionQuestion, theirs, ours admissionAnswer) bool {
			return q.sameBut(theirs, ours, "insufficient quota to match these scopes: ", func(text string) string { return text })
		}},
		{id: invalidScope, explains: func(q admissionQuestion, theirs, ours admissionAnswer) bool {
			return q.sameBut(theirs, ours, "error matching scopes of quota ", func(text string) string { before, _, _ := strings.Cut(text, ", err: "); return before })
		}},
		{id: nameTwice, explains: func(_ admissionQuestion, theirs, ours admissionAnswer) bool {
			return reflect.DeepEqual(theirs.with(onceEach), ours.with(onceEach))
		}},
		{id: twoClasses, explains: func(q admissionQuestion, _, _ admissionAnswer) bool { return q.Around.twoClasses() }},
		{id: endlessGrace, explains: func(q admissionQuestion, _, _ admissionAnswer) bool {
			return q.Around.endless() || slices.ContainsFunc(q.Requests, func(asked request) bool {
				return endless(decoded[metav1.PartialObjectMetadata](asked.Object).ObjectMeta) ||
					asked.Old != nil && endless(decoded[metav1.PartialObjectMetadata](asked.Old).ObjectMeta)
			})
		}},
		{id: ownerByUID, explains: func(q admissionQuestion, _, _ admissionAnswer) bool {
			return slices.ContainsFunc(q.Requests, func(asked request) bool {
				return misnamed(decoded[metav1.PartialObjectMetadata](asked.Object).ObjectMeta, q.Around.Pods)
			})
		}},
	},
}

// sameBut says that the answers are the same, if refusals of upstream's that begin so lack the object's name, and the text is cut so.
func (q admissionQuestion) sameBut(theirs, ours admissionAnswer, beginning string, cut func(string) string) bool {
	if len(theirs.Verdicts) != len(ours.Verdicts) {
		return false
	}
	for i, asked := range q.Requests {
		their, our := theirs.Verdicts[i], ours.Verdicts[i]
		if strings.HasPrefix(their.Refused, beginning) {
			their.Refused = fmt.Sprintf("%s %q is forbidden: %s", asked.Kind, asked.displayName(), cut(their.Refused))
			our.Refused = cut(our.Refused)
		}
		if !reflect.DeepEqual(their, our) {
			return false
		}
	}
	return true
}

// displayName is what messages call the object.
func (asked request) displayName() string {
	object := decoded[metav1.PartialObjectMetadata](asked.Object)
	return cmp.Or(asked.Name, object.Name, object.GenerateName, "Unknown")
}

// misconfigured says that a scope of limitedResources can't be evaluated, by upstream's own judgement.
func (q admissionQuestion) misconfigured() bool {
	for _, entry := range q.Limited {
		for _, requirement := range entry.MatchScopes {
			if requirement.Operator == corev1.ScopeSelectorOpExists || requirement.ScopeName != corev1.ResourceQuotaScopePriorityClass &&
				requirement.ScopeName != corev1.ResourceQuotaScopeVolumeAttributesClass {
				continue // upstream looks at neither operator nor values
			}
			if _, err := helper.ScopedResourceSelectorRequirementsAsSelector(requirement); err != nil {
				return true
			}
		}
	}
	return false
}

// onceEach leaves out a name that is listed twice in a row.
func onceEach(message string) string {
	head, names, found := strings.Cut(message, ", resources: ")
	if !found {
		return message
	}
	return head + ", resources: " + strings.Join(slices.Compact(strings.Split(names, ",")), ",")
}

func (a admissionAnswer) with(edit func(string) string) admissionAnswer {
	edited := admissionAnswer{Misconfigured: a.Misconfigured}
	for _, verdict := range a.Verdicts {
		verdict.Refused = edit(verdict.Refused)
		edited.Verdicts = append(edited.Verdicts, verdict)
	}
	return edited
}

// quotaStore is the server's side of admission: it stores every status it is given.
type quotaStore struct{ quotas []corev1.ResourceQuota }

func (s *quotaStore) GetQuotas(string) ([]corev1.ResourceQuota, error) {
	return slices.Clone(s.quotas), nil
}

func (s *quotaStore) UpdateQuotaStatus(updated *corev1.ResourceQuota) error {
	for i := range s.quotas {
		if s.quotas[i].Name == updated.Name {
			s.quotas[i].Status = *updated.Status.DeepCopy()
			return nil
		}
	}
	return fmt.Errorf("no quota is called %q", updated.Name)
}

// applicant makes up requests, and the quotas they meet.
type applicant struct {
	*Random
	question admissionQuestion
	// stored are the objects there are, by kind.
	stored map[string][]runtime.Object
}

func (a *applicant) apply() admissionQuestion {
	a.question.Around.Now = now
	a.question.Limited = a.limits()
	kinds := some(a.Random, 3, "pods", "pods", "services", "persistentvolumeclaims", "resourceclaims.resource.k8s.io", "configmaps", "widgets.example.com")
	if len(kinds) == 0 {
		kinds = []string{"pods"}
	}
	for i := range a.IntN(4) {
		a.question.Quotas = append(a.question.Quotas, raw(a.limiting(fmt.Sprint("q", i), kinds)))
	}
	a.stored = map[string][]runtime.Object{}
	for range 1 + a.IntN(6) {
		a.question.Requests = append(a.question.Requests, a.request(pick(a.Random, kinds...)))
	}
	if a.question.Quotas == nil {
		a.question.Quotas = []json.RawMessage{}
	}
	return a.question
}

// namesOf are names under which objects of a kind count.
var namesOf = map[string][]string{
	"pods": {"pods", "count/pods", "cpu", "requests.cpu", "memory", "requests.memory", "limits.cpu", "limits.memory", "ephemeral-storage",
		"limits.ephemeral-storage", "hugepages-2Mi", "requests.hugepages-2Mi", "requests.example.com/gpu"},
	"services": {"services", "count/services", "services.nodeports", "services.loadbalancers"},
	"persistentvolumeclaims": {"persistentvolumeclaims", "count/persistentvolumeclaims", "requests.storage",
		"gold.storageclass.storage.k8s.io/requests.storage", "gold.storageclass.storage.k8s.io/persistentvolumeclaims"},
	"resourceclaims.resource.k8s.io": {"count/resourceclaims.resource.k8s.io", "small.deviceclass.resource.k8s.io/devices",
		"nic.deviceclass.resource.k8s.io/devices", "requests.example.com/gpu"},
	"configmaps":          {"configmaps", "count/configmaps"},
	"widgets.example.com": {"count/widgets.example.com"},
}

// limiting is a quota with some of it used.
func (a *applicant) limiting(name string, kinds []string) *corev1.ResourceQuota {
	var names []string
	for _, kind := range kinds {
		names = append(names, some(a.Random, 4, namesOf[kind]...)...)
	}
	if a.chance(15) {
		names = append(names, some(a.Random, 2, quotaNames...)...)
	}
	if a.rarely(300) {
		names = append(names, "requests.hugepages-a/b")
	}
	slices.Sort(names)
	roomy := func() string {
		return pick(a.Random, "0", "1", "2", "5", "10", "100", "2Gi", "10Gi", "500m", "3", "1Ti")
	}
	made := a.quota(name, slices.Compact(names), roomy)
	if a.chance(50) {
		made.Spec.Scopes, made.Spec.ScopeSelector = nil, nil
	}
	if a.rarely(200) {
		made.Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{a.oddRequirement()}}
	}
	made.Status.Used = corev1.ResourceList{}
	for _, name := range namesIn(made.Status.Hard) {
		made.Status.Used[name] = parsed(pick(a.Random, "0", "0", "1", "2", "500m", "1Gi", "0Ki"))
		if a.rarely(40) {
			delete(made.Status.Used, name)
		}
	}
	switch a.IntN(40) {
	case 0:
		made.Status.Hard = nil
	case 1:
		made.Status = corev1.ResourceQuotaStatus{}
	case 2:
		made.Status.Used = nil
	case 3:
		made.Status.Used["foo"] = parsed("7")
	}
	return made
}

func (a *applicant) limits() []limited {
	made := []limited{}
	if a.chance(70) {
		return made
	}
	for range 1 + a.IntN(2) {
		entry := limited{Resource: "pods", MatchContains: some(a.Random, 2, "cpu", "requests.", "pods", "example.com", "memory", "")}
		switch a.IntN(6) {
		case 0:
			entry = limited{Resource: "persistentvolumeclaims", MatchContains: []string{pick(a.Random, ".storageclass.storage.k8s.io/requests.storage", "storage", "gold")}}
		case 1:
			entry = limited{Resource: "services", MatchContains: []string{"services.loadbalancers"}}
		case 2:
			entry = limited{APIGroup: pick(a.Random, "resource.k8s.io", ""), Resource: "resourceclaims", MatchContains: []string{"device"}}
		case 3:
			entry = limited{APIGroup: "example.com", Resource: "widgets", MatchContains: []string{"count/"}}
		}
		// The message of an uncovered scope is a meant difference, so it must stay rare.
		if a.rarely(20) {
			for range 1 + a.IntN(2) {
				entry.MatchScopes = append(entry.MatchScopes, a.requirement())
			}
		}
		if a.rarely(150) {
			entry.MatchScopes = append(entry.MatchScopes, a.oddRequirement())
		}
		made = append(made, entry)
	}
	return made
}

func (a *applicant) request(kind string) request {
	made := request{Kind: kind, Namespace: namespace, Operation: "CREATE", DryRun: a.chance(10)}
	object := a.fresh(kind)
	stored := a.stored[kind]
	meta := object.(metav1.Object)
	switch n := a.IntN(100); {
	case n < 45 || len(stored) == 0 && n < 90:
		if a.chance(5) {
			meta.SetNamespace("")
		}
		meta.SetResourceVersion("")
		if a.chance(20) {
			meta.SetName("")
			if a.chance(70) {
				meta.SetGenerateName("made-")
			}
		}
	case n < 90:
		old := pick(a.Random, stored...).DeepCopyObject()
		if a.chance(25) {
			// The same again, but for what an update often changes.
			object = old.DeepCopyObject()
		}
		made.Operation, made.Old, made.Name = "UPDATE", raw(old), object.(metav1.Object).GetName()
		made.Subresource = pick(a.Random, "", "", "", map[string]string{"pods": "resize", "persistentvolumeclaims": "status"}[kind])
		if a.rarely(15) {
			made.Old = nil
		}
	default:
		made.Operation = pick(a.Random, "CREATE", "UPDATE", "DELETE", "CONNECT")
		made.Subresource = pick(a.Random, "", "status", "resize", "scale", "binding")
		made.Name = meta.GetName()
		made.Old = raw(a.fresh(kind))
	}
	made.Object = raw(object)
	if made.Operation != "DELETE" {
		if meta.GetResourceVersion() == "" && a.chance(90) {
			meta.SetResourceVersion("5")
		}
		a.stored[kind] = append(a.stored[kind], object)
	}
	return made
}

// fresh is a new object of a kind, mostly small enough to fit somewhere.
func (a *applicant) fresh(kind string) runtime.Object {
	name := pick(a.Random, "a", "b", "c")
	if a.rarely(50) {
		// Admission comes before validation.
		name = pick(a.Random, "a\u200b", "\x7fb\x01", "\u00ad\"\\", "é世", "\n\t")
	}
	switch kind {
	case "pods":
		if a.chance(40) {
			return a.pod(name)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: "u", ResourceVersion: "1"}}
		pod.Spec.PriorityClassName = pick(a.Random, priorityClasses...)
		for i := range 1 + a.IntN(2) {
			requirements := corev1.ResourceRequirements{}
			if a.chance(85) {
				requirements.Requests = corev1.ResourceList{"cpu": parsed(pick(a.Random, "1", "100m", "500m", "2")), "memory": parsed(pick(a.Random, "64Mi", "1Gi", "1"))}
			}
			if a.chance(60) {
				requirements.Limits = requirements.Requests
			}
			pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: requirements})
		}
		return pod
	case "services":
		return a.service(name)
	case "persistentvolumeclaims":
		return a.persistentVolumeClaim(name)
	case "resourceclaims.resource.k8s.io":
		claim := a.resourceClaim(name)
		if a.chance(30) && len(a.question.Around.Pods) == 0 {
			a.owners(&a.question.Around, claim)
		}
		return claim
	default:
		return a.counted(name)
	}
}
