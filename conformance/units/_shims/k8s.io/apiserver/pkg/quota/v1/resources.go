// Package v1, with operations on resource lists as kubequota has them.
package v1

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"kubequota.dev/conformance/units/answers"
)

// kubequotaLists is what kubequota makes of two lists, and of two lists of names.
type kubequotaLists struct {
	Equals              bool
	Exceeding           []corev1.ResourceName
	Max                 corev1.ResourceList
	Add                 corev1.ResourceList
	Subtract            corev1.ResourceList
	SubtractNonNegative corev1.ResourceList
	Mask                corev1.ResourceList
	Names               []corev1.ResourceName
	Intersection        []corev1.ResourceName
	Difference          []corev1.ResourceName
	IsZero              bool
	WithoutZeros        corev1.ResourceList
	Negative            []corev1.ResourceName
	Printed             string
}

func kubequotaAsk(a, b corev1.ResourceList, names, others []corev1.ResourceName) (answer kubequotaLists) {
	orEmpty := func(list corev1.ResourceList) corev1.ResourceList {
		if list == nil {
			return corev1.ResourceList{}
		}
		return list
	}
	answers.Ask("list", map[string]any{
		"a":      orEmpty(a),
		"b":      orEmpty(b),
		"names":  append([]corev1.ResourceName{}, names...),
		"others": append([]corev1.ResourceName{}, others...),
	}, &answer)
	return answer
}

// KubequotaPrinted is a list as messages print it.
func KubequotaPrinted(list corev1.ResourceList) string {
	return kubequotaAsk(list, nil, nil, nil).Printed
}

func Equals(a, b corev1.ResourceList) bool { return kubequotaAsk(a, b, nil, nil).Equals }

func LessThanOrEqual(a, b corev1.ResourceList) (bool, []corev1.ResourceName) {
	exceeding := kubequotaAsk(a, b, nil, nil).Exceeding
	return len(exceeding) == 0, exceeding
}

func Max(a, b corev1.ResourceList) corev1.ResourceList { return kubequotaAsk(a, b, nil, nil).Max }

func Add(a, b corev1.ResourceList) corev1.ResourceList { return kubequotaAsk(a, b, nil, nil).Add }

func Subtract(a, b corev1.ResourceList) corev1.ResourceList {
	return kubequotaAsk(a, b, nil, nil).Subtract
}

func SubtractWithNonNegativeResult(a, b corev1.ResourceList) corev1.ResourceList {
	return kubequotaAsk(a, b, nil, nil).SubtractNonNegative
}

func Mask(list corev1.ResourceList, names []corev1.ResourceName) corev1.ResourceList {
	return kubequotaAsk(list, nil, names, nil).Mask
}

func ResourceNames(list corev1.ResourceList) []corev1.ResourceName {
	return kubequotaAsk(list, nil, nil, nil).Names
}

func Intersection(a, b []corev1.ResourceName) []corev1.ResourceName {
	return kubequotaAsk(nil, nil, a, b).Intersection
}

func Difference(a, b []corev1.ResourceName) []corev1.ResourceName {
	return kubequotaAsk(nil, nil, a, b).Difference
}

func IsZero(a corev1.ResourceList) bool { return kubequotaAsk(a, nil, nil, nil).IsZero }

func RemoveZeros(a corev1.ResourceList) corev1.ResourceList {
	return kubequotaAsk(a, nil, nil, nil).WithoutZeros
}

func IsNegative(a corev1.ResourceList) []corev1.ResourceName {
	return kubequotaAsk(a, nil, nil, nil).Negative
}

// The rest is Go's own: kubequota has nothing that answers to it.

func Contains(names []corev1.ResourceName, name corev1.ResourceName) bool {
	return slices.Contains(names, name)
}

func ContainsPrefix(prefixes []string, name corev1.ResourceName) bool {
	return slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(string(name), prefix) })
}

func ToSet(names []corev1.ResourceName) sets.String {
	set := sets.NewString()
	for _, name := range names {
		set.Insert(string(name))
	}
	return set
}
