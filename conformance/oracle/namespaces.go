package oracle

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

type namespaceQuestion struct {
	// Kinds are those that are only counted.
	Kinds []string `json:"kinds,omitempty"`
	// Quotas as they are at the end.
	Quotas  []json.RawMessage `json:"quotas,omitempty"`
	History []event           `json:"history,omitempty"`
	Now     time.Time         `json:"now"`
}

// event is one thing that happened; exactly one field of What is set.
type event struct {
	At   time.Time `json:"at"`
	What struct {
		Set               *eventObject    `json:"set,omitempty"`
		Delete            *eventObject    `json:"delete,omitempty"`
		DeviceClass       json.RawMessage `json:"deviceClass,omitempty"`
		DeleteDeviceClass string          `json:"deleteDeviceClass,omitempty"`
		Quota             []any           `json:"quota,omitempty"`
	} `json:"what"`
}

type eventObject struct {
	Kind   string          `json:"kind"`
	Object json.RawMessage `json:"object"`
}

type namespaceAnswer struct {
	Recount []map[string]string `json:"recount"`
	Ledger  []map[string]string `json:"ledger"`
}

// sums prints sums as decimals: upstream adds up objects in no order, and a sum is written in the format of the first of them.
func sums(list corev1.ResourceList) map[string]string {
	one := quantityOf(1)
	made := map[string]string{}
	for name, quantity := range list {
		decimal := one.DeepCopy()
		decimal.Add(quantity)
		decimal.Sub(one)
		made[string(name)] = decimal.String()
	}
	return made
}

var namespaces = part[namespaceQuestion, namespaceAnswer]{
	name: "namespaces", key: "namespace", cases: 20_000,
	ask: func(r *Random) namespaceQuestion { return (&historian{Random: r, at: now.Add(-time.Hour)}).tell() },
	upstream: func(q namespaceQuestion) namespaceAnswer {
		answer := namespaceAnswer{Recount: []map[string]string{}, Ledger: []map[string]string{}}
		for _, text := range q.Quotas {
			made := decoded[corev1.ResourceQuota](text)
			if made.Namespace != namespace || made.Name == "" {
				panic("a quota of no namespace or without a name")
			}
			// Of objects of its own: what upstream works out of one quota can change the objects that the next one sees.
			c := q.cluster()
			used, err := quota.CalculateUsage(namespace, made.Spec.Scopes, made.Spec.Hard, c.registry(), made.Spec.ScopeSelector)
			if err != nil {
				panic(err)
			}
			answer.Recount, answer.Ledger = append(answer.Recount, sums(used)), append(answer.Ledger, sums(used))
		}
		return answer
	},
	meant: []difference[namespaceQuestion, namespaceAnswer]{
		beyondExa[namespaceQuestion, namespaceAnswer](),
		{id: claimShared, explains: func(q namespaceQuestion, _, _ namespaceAnswer) bool {
			return sharedCount(q.of("resourceclaims.resource.k8s.io")...)
		}},
		{id: twoClasses, explains: func(q namespaceQuestion, _, _ namespaceAnswer) bool { return q.clash(false) }},
		{id: twoClassesGone, explains: func(q namespaceQuestion, _, _ namespaceAnswer) bool { return q.clash(true) }},
		{id: endlessGrace, explains: func(q namespaceQuestion, _, _ namespaceAnswer) bool {
			return slices.ContainsFunc(q.objects(), func(o metav1.ObjectMeta) bool { return endless(o) })
		}},
		{id: ownerByUID, explains: func(q namespaceQuestion, _, _ namespaceAnswer) bool {
			pods := q.of("pods")
			return slices.ContainsFunc(q.objects(), func(o metav1.ObjectMeta) bool { return misnamed(o, pods) })
		}},
	},
}

// cluster is the namespace as it is at the end.
func (q namespaceQuestion) cluster() *cluster {
	if !slices.Equal(q.Kinds, countedKinds) {
		panic("not all kinds are told")
	}
	c := newCluster(around{Now: q.Now})
	classes := map[string]*resourcev1.DeviceClass{}
	for _, event := range q.History {
		what := event.What
		switch {
		case what.Set != nil:
			if meta := decoded[metav1.PartialObjectMetadata](what.Set.Object); meta.UID == "" || meta.Name == "" {
				panic("an object without a name or uid")
			}
			c.set(what.Set.Kind, readObject(what.Set.Kind, what.Set.Object))
		case what.Delete != nil:
			if err := c.store(what.Delete.Kind).Delete(readObject(what.Delete.Kind, what.Delete.Object)); err != nil {
				panic(err)
			}
		case what.DeviceClass != nil:
			class := decoded[resourcev1.DeviceClass](what.DeviceClass)
			if old := classes[class.Name]; old != nil {
				c.classes.OnUpdate(old, class)
			} else {
				c.classes.OnAdd(class, false)
			}
			classes[class.Name] = class
		case what.DeleteDeviceClass != "":
			if old := classes[what.DeleteDeviceClass]; old != nil {
				c.classes.OnDelete(old)
			}
			delete(classes, what.DeleteDeviceClass)
		}
	}
	return c
}

// clash says that two device classes had one extended resource at once, and whether one of them went away.
func (q namespaceQuestion) clash(gone bool) bool {
	classes, clashed, went := map[string]string{}, false, false
	for _, event := range q.History {
		name := event.What.DeleteDeviceClass
		if event.What.DeviceClass != nil {
			class := decoded[resourcev1.DeviceClass](event.What.DeviceClass)
			name = class.Name
			delete(classes, name)
			if class.Spec.ExtendedResourceName != nil {
				for _, other := range classes {
					clashed = clashed || other == *class.Spec.ExtendedResourceName
				}
				classes[name] = *class.Spec.ExtendedResourceName
				continue
			}
		}
		if name != "" {
			delete(classes, name)
			went = went || clashed
		}
	}
	return clashed && went == gone
}

func (q namespaceQuestion) objects() (made []metav1.ObjectMeta) {
	for _, event := range q.History {
		if event.What.Set != nil {
			made = append(made, decoded[metav1.PartialObjectMetadata](event.What.Set.Object).ObjectMeta)
		}
	}
	return made
}

// of are all objects of a kind that ever were.
func (q namespaceQuestion) of(kind string) (made []json.RawMessage) {
	for _, event := range q.History {
		if event.What.Set != nil && event.What.Set.Kind == kind {
			made = append(made, event.What.Set.Object)
		}
	}
	return made
}

// historian makes up what happened in a namespace.
type historian struct {
	*Random
	at      time.Time
	told    []event
	there   []eventObject
	quotas  []*corev1.ResourceQuota
	numbers int
}

func (h *historian) tell() namespaceQuestion {
	// A few kinds at a time, so that quotas and objects meet.
	names := some(h.Random, 25, quotaNames...)
	for i := range 1 + h.IntN(4) {
		h.quotas = append(h.quotas, h.quota(fmt.Sprint("q", i), some(h.Random, 8, append(names, "pods", "requests.cpu", "services", "requests.storage")...), h.quantity))
	}
	if h.rarely(50) {
		h.quotas[0].Spec.ScopeSelector = &corev1.ScopeSelector{MatchExpressions: []corev1.ScopedResourceSelectorRequirement{h.oddRequirement()}}
	}
	settled := make([]bool, len(h.quotas))
	for range 4 + h.IntN(24) {
		if h.chance(40) {
			h.at = h.at.Add(time.Duration(h.IntN(240)) * time.Second)
		}
		if h.at.After(now) {
			h.at = now
		}
		switch n := h.IntN(100); {
		case n < 60:
			h.make()
		case n < 72:
			h.remake()
		case n < 84:
			h.remove()
		case n < 90:
			h.deviceClass()
		default:
			i := h.IntN(len(h.quotas))
			if before := h.quota(h.quotas[i].Name, some(h.Random, 8, names...), h.quantity); !settled[i] && h.chance(50) {
				h.tellQuota(i, before)
			} else {
				settled[i] = true
				h.tellQuota(i, h.quotas[i])
			}
		}
	}
	for i := range h.quotas {
		if !settled[i] {
			h.tellQuota(i, h.quotas[i])
		}
	}
	question := namespaceQuestion{Kinds: countedKinds, History: h.told, Now: now}
	for _, made := range h.quotas {
		question.Quotas = append(question.Quotas, raw(made))
	}
	return question
}

func (h *historian) happens() *event {
	h.told = append(h.told, event{At: h.at})
	return &h.told[len(h.told)-1]
}

func (h *historian) tellQuota(i int, made *corev1.ResourceQuota) {
	h.happens().What.Quota = []any{i, raw(made)}
}

func (h *historian) set(kind string, object runtime.Object) {
	made := eventObject{Kind: kind, Object: raw(object)}
	h.there = append(h.there, made)
	h.happens().What.Set = &made
}

func (h *historian) name() string {
	h.numbers++
	return fmt.Sprint("o", h.numbers)
}

// make makes a new object, or a pod with claims of its own.
func (h *historian) make() {
	switch n := h.IntN(100); {
	case n < 45:
		h.set("pods", h.pod(h.name()))
	case n < 55:
		h.set("services", h.service(h.name()))
	case n < 68:
		h.set("persistentvolumeclaims", h.persistentVolumeClaim(h.name()))
	case n < 76:
		h.set("resourceclaims.resource.k8s.io", h.resourceClaim(h.name()))
	case n < 86:
		var around around
		claim := h.resourceClaim(h.name())
		h.owners(&around, claim)
		owned := []runtime.Object{claim}
		for _, text := range around.Claims {
			if other := decoded[resourcev1.ResourceClaim](text); other.Name != claim.Name {
				other.Name += h.name()
				owned = append(owned, other)
			}
		}
		pods := []*corev1.Pod{}
		for _, text := range around.Pods {
			pod := decoded[corev1.Pod](text)
			// An owner is named by its claims, so its name stays; it may only be there once.
			if !slices.ContainsFunc(h.there, func(o eventObject) bool {
				return o.Kind == "pods" && decoded[metav1.PartialObjectMetadata](o.Object).Name == pod.Name
			}) {
				pods = append(pods, pod)
			}
		}
		podsFirst := h.chance(50)
		if podsFirst {
			for _, pod := range pods {
				h.set("pods", pod)
			}
		}
		for _, claim := range owned {
			h.set("resourceclaims.resource.k8s.io", claim)
		}
		if !podsFirst {
			for _, pod := range pods {
				h.set("pods", pod)
			}
		}
	default:
		h.set(pick(h.Random, countedKinds...), h.counted(h.name()))
	}
}

// remake changes an object, under the same name and uid.
func (h *historian) remake() {
	if len(h.there) == 0 {
		return
	}
	i := h.IntN(len(h.there))
	kind := h.there[i].Kind
	old := decoded[metav1.PartialObjectMetadata](h.there[i].Object)
	var object runtime.Object
	switch kind {
	case "pods":
		if old.Name == "owner" {
			return // its deletion must stay far from the machine's time
		}
		object = h.pod(old.Name)
	case "services":
		object = h.service(old.Name)
	case "persistentvolumeclaims":
		object = h.persistentVolumeClaim(old.Name)
	case "resourceclaims.resource.k8s.io":
		claim := h.resourceClaim(old.Name)
		claim.Annotations, claim.OwnerReferences = old.Annotations, old.OwnerReferences
		object = claim
	default:
		object = h.counted(old.Name)
	}
	meta := object.(metav1.Object)
	meta.SetUID(old.UID)
	meta.SetCreationTimestamp(old.CreationTimestamp)
	h.there = slices.Delete(h.there, i, i+1)
	h.set(kind, object)
}

func (h *historian) remove() {
	if len(h.there) == 0 {
		return
	}
	i := h.IntN(len(h.there))
	gone := h.there[i]
	h.there = slices.Delete(h.there, i, i+1)
	h.happens().What.Delete = &gone
}

func (h *historian) deviceClass() {
	if h.chance(25) {
		h.happens().What.DeleteDeviceClass = pick(h.Random, "small", "nic", "large")
		return
	}
	for _, class := range h.deviceClasses() {
		h.happens().What.DeviceClass = raw(class)
	}
}
