package oracle

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

type listQuestion struct {
	A      map[string]string `json:"a"`
	B      map[string]string `json:"b"`
	Names  []string          `json:"names"`
	Others []string          `json:"others"`
}

type listAnswer struct {
	Equals              bool              `json:"equals"`
	Exceeding           []string          `json:"exceeding"`
	Max                 map[string]string `json:"max"`
	Add                 map[string]string `json:"add"`
	AddAssigned         map[string]string `json:"addAssigned"`
	Subtract            map[string]string `json:"subtract"`
	SubtractNonNegative map[string]string `json:"subtractNonNegative"`
	Mask                map[string]string `json:"mask"`
	Names               []string          `json:"names"`
	Intersection        []string          `json:"intersection"`
	Difference          []string          `json:"difference"`
	IsZero              bool              `json:"isZero"`
	WithoutZeros        map[string]string `json:"withoutZeros"`
	Negative            []string          `json:"negative"`
	// Printed is A as messages print it.
	Printed string `json:"printed"`
}

// listNames are few, so that lists share them.
var listNames = []string{"cpu", "memory", "pods", "requests.cpu", "limits.memory", "hugepages-2Mi", "count/x.y", "requests.example.com/gpu"}

var lists = part[listQuestion, listAnswer]{
	name: "lists", key: "list", cases: 200_000,
	ask: func(r *Random) listQuestion {
		list := func() map[string]string {
			made := map[string]string{}
			zeros := r.chance(10)
			for _, name := range some(r, 5, listNames...) {
				made[name] = r.quantity()
				if zeros {
					made[name] = pick(r, "0", "0Ki", "0m")
				}
			}
			return made
		}
		names := func() []string {
			made := []string{}
			for range r.IntN(6) {
				made = append(made, pick(r, listNames...))
			}
			return made
		}
		question := listQuestion{A: list(), B: list(), Names: names(), Others: names()}
		if r.chance(10) {
			question.B = question.A
		}
		return question
	},
	upstream: func(q listQuestion) listAnswer {
		a, b := q.list(q.A), q.list(q.B)
		own, others := resourceNames(q.Names), resourceNames(q.Others)
		sum := quota.Add(a, b)
		_, exceeding := quota.LessThanOrEqual(a, b)
		// Sorted and once each, as everything that upstream prints of them is.
		return listAnswer{
			Equals:              quota.Equals(a, b),
			Exceeding:           sortedNames(exceeding),
			Max:                 texts(quota.Max(a, b)),
			Add:                 texts(sum),
			AddAssigned:         texts(sum),
			Subtract:            texts(quota.Subtract(a, b)),
			SubtractNonNegative: texts(quota.SubtractWithNonNegativeResult(a, b)),
			Mask:                texts(quota.Mask(a, own)),
			Names:               sortedNames(quota.ResourceNames(a)),
			Intersection:        sortedNames(quota.Intersection(own, others)),
			Difference:          sortedNames(quota.Difference(own, others)),
			IsZero:              quota.IsZero(a),
			WithoutZeros:        texts(quota.RemoveZeros(a)),
			Negative:            sortedNames(quota.IsNegative(a)),
			Printed:             printed(a),
		}
	},
	meant: []difference[listQuestion, listAnswer]{beyondExa[listQuestion, listAnswer]()},
}

func (listQuestion) list(texts map[string]string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, text := range texts {
		list[corev1.ResourceName(name)] = parsed(text)
	}
	return list
}

// printed is as upstream's prettyPrint, which is not exported, prints a list.
func printed(list corev1.ResourceList) string {
	var parts []string
	for _, name := range namesIn(list) {
		quantity := list[name]
		parts = append(parts, string(name)+"="+quantity.String())
	}
	return strings.Join(parts, ",")
}

func resourceNames(texts []string) []corev1.ResourceName {
	names := make([]corev1.ResourceName, len(texts))
	for i, text := range texts {
		names[i] = corev1.ResourceName(text)
	}
	return names
}

func sortedNames(names []corev1.ResourceName) []string {
	sorted := make([]string, len(names))
	for i, name := range names {
		sorted[i] = string(name)
	}
	slices.Sort(sorted)
	return slices.Compact(sorted)
}
