package witness

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/client-go/tools/cache"

	"kubequota.dev/conformance/cluster"
)

// inForce is how long a limit that was replaced still allows for objects: they may have been admitted before, and are stored by then.
const inForce = 10 * time.Second

// settling is how long a quota that is new, or whose scopes changed, is not expected to cover all that it counts: kube-apiserver knows of it a
// little later, and lets pass without a charge what comes in between.
const settling = 15 * time.Second

// history follows all objects, change by change.
type history struct {
	evaluators map[*kind]quota.Evaluator
	namespaces map[string]*namespace
}

type namespace struct {
	objects map[place]*object
	quotas  map[string]*account
	// last are the last changes, for the log when something is wrong; told is for which quotas they were written there.
	last []string
	told map[string]bool
}

// remembered is how many changes the log gets.
const remembered = 60

func (n *namespace) remember(change cluster.Change, at *place, new *object, now time.Time) {
	line := fmt.Sprintf("%s %d %s", now.Format("15:04:05.000"), change.Revision, at)
	switch {
	case new == nil:
		line += " gone"
	case at.kind.resource == quotas:
		status := new.read.(*corev1.ResourceQuota).Status
		line += fmt.Sprintf(" used %s of %s", list(status.Used), list(status.Hard))
	default:
		line += " uses " + list(new.usage)
	}
	if n.last = append(n.last, line); len(n.last) > remembered {
		n.last = n.last[1:]
	}
}

func (n *namespace) tell(what string, about *corev1.ResourceQuota) {
	if key := what + about.Name; !n.told[key] {
		n.told[key] = true
		fmt.Fprintf(os.Stderr, "quota %s/%s is %s; the last changes in its namespace:\n  %s\n", about.Namespace, about.Name, what,
			strings.Join(n.last, "\n  "))
	}
}

func list(of corev1.ResourceList) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(of)) {
		quantity := of[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	return "{" + strings.Join(parts, " ") + "}"
}

type object struct {
	kind  *kind
	read  runtime.Object
	usage corev1.ResourceList
	// ages is that its usage may change with time alone.
	ages bool
}

// account is a quota and what was wrong with it.
type account struct {
	quota *corev1.ResourceQuota
	// past are limits that were replaced not long ago.
	past []limits
	// since is when it first counted what it does now; rescoped that this was another selection before.
	since           time.Time
	rescoped        bool
	exceeded, under map[corev1.ResourceName]*Breach
}

type limits struct {
	hard  corev1.ResourceList
	until time.Time
}

func newHistory() *history {
	h := &history{evaluators: map[*kind]quota.Evaluator{}, namespaces: map[string]*namespace{}}
	// Only what an object uses is asked of them, which needs no lister.
	none := func(resource schema.GroupVersionResource) (cache.GenericLister, error) { return nil, nil }
	for i := range kinds {
		h.evaluators[&kinds[i]] = kinds[i].evaluator(none)
	}
	return h
}

// apply follows one change and judges what is then stored.
func (h *history) apply(change cluster.Change, now time.Time) {
	at := placeOf(change.Key)
	if at == nil {
		return
	}
	space := h.namespaces[at.namespace]
	if space == nil {
		space = &namespace{objects: map[place]*object{}, quotas: map[string]*account{}, told: map[string]bool{}}
		h.namespaces[at.namespace] = space
	}
	old := space.objects[*at]
	var new *object
	if !change.Deleted {
		// What can't be read counts nothing here.
		if read, err := decode(at, change.Entry); err == nil {
			new = &object{kind: at.kind, read: read}
			meta, isMeta := read.(metav1.Object)
			new.ages = isMeta && meta.GetDeletionTimestamp() != nil
			new.usage = h.usage(new)
		}
	}
	if new == nil {
		delete(space.objects, *at)
	} else {
		space.objects[*at] = new
	}
	if at.kind.resource == quotas {
		space.follow(at.name, new, now)
	}
	space.remember(change, at, new, now)
	for _, account := range space.quotas {
		h.judge(space, account, change, at, old, new, now)
	}
}

// follow follows a change of a quota. One that is gone keeps what was wrong with it.
func (n *namespace) follow(name string, new *object, now time.Time) {
	known := n.quotas[name]
	if new == nil {
		if known != nil {
			known.quota = nil
		}
		return
	}
	made := new.read.(*corev1.ResourceQuota)
	if known == nil {
		known = &account{exceeded: map[corev1.ResourceName]*Breach{}, under: map[corev1.ResourceName]*Breach{}}
		n.quotas[name] = known
	}
	if before := known.quota; before != nil && before.UID == made.UID {
		if !quota.Equals(before.Status.Hard, made.Status.Hard) {
			known.past = append(known.past, limits{hard: before.Status.Hard, until: now})
		}
		if !reflect.DeepEqual(before.Spec.ScopeSelector, made.Spec.ScopeSelector) {
			known.since, known.rescoped = now, true
		}
		if len(before.Status.Hard) == 0 {
			known.since = now
		}
	} else {
		known.past, known.since, known.rescoped = nil, now, false
	}
	known.quota = made
}

func (h *history) usage(of *object) corev1.ResourceList {
	usage, err := h.evaluators[of.kind].Usage(of.read)
	if err != nil {
		return nil
	}
	return usage
}

// counts is what a quota counts of an object.
func (h *history) counts(made *corev1.ResourceQuota, of *object) corev1.ResourceList {
	if of == nil {
		return nil
	}
	if of.ages {
		of.usage = h.usage(of)
	}
	if matches, err := h.evaluators[of.kind].Matches(made, of.read); err != nil || !matches {
		return nil
	}
	return of.usage
}

func (h *history) judge(space *namespace, account *account, change cluster.Change, at *place, old, new *object, now time.Time) {
	made := account.quota
	if made == nil || len(made.Status.Hard) == 0 {
		return
	}
	stored := corev1.ResourceList{}
	for name := range made.Status.Hard {
		stored[name] = resource.Quantity{}
	}
	for _, of := range space.objects {
		for name, quantity := range h.counts(made, of) {
			if sum, limited := stored[name]; limited {
				sum.Add(quantity)
				stored[name] = sum
			}
		}
	}
	had, has := h.counts(made, old), h.counts(made, new)
	for name, sum := range stored {
		before, after := had[name], has[name]
		settled := now.Sub(account.since) > settling
		if limit := account.limit(name, now); (settled || !account.rescoped) && after.Cmp(before) > 0 && sum.Cmp(limit) > 0 {
			account.note(account.exceeded, name, sum, limit, change, at, now)
			space.tell("exceeded", made)
		}
		if used, told := made.Status.Used[name]; settled && told && sum.Cmp(used) > 0 {
			account.note(account.under, name, sum, used, change, at, now)
			space.tell("below what is stored", made)
		}
	}
}

// limit is the highest that was in force a little while ago or is now.
func (a *account) limit(name corev1.ResourceName, now time.Time) resource.Quantity {
	limit := a.quota.Status.Hard[name]
	for _, past := range a.past {
		if other, limited := past.hard[name]; now.Sub(past.until) < inForce && limited && other.Cmp(limit) > 0 {
			limit = other
		}
	}
	return limit
}

func (a *account) note(in map[corev1.ResourceName]*Breach, name corev1.ResourceName, stored, allowed resource.Quantity, change cluster.Change, at *place, now time.Time) {
	by := stored.DeepCopy()
	by.Sub(allowed)
	known := in[name]
	if known == nil {
		known = &Breach{Quota: a.quota.Namespace + "/" + a.quota.Name, Name: string(name)}
		in[name] = known
	}
	known.Times++
	if worst, err := resource.ParseQuantity(known.By); err == nil && by.Cmp(worst) <= 0 {
		return
	}
	known.By, known.Stored, known.Allowed = by.String(), stored.String(), allowed.String()
	known.Object, known.Revision, known.At = at.String(), change.Revision, now
}
