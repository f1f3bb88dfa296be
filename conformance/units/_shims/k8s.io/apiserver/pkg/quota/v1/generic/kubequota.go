package generic

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/admission"
	quota "k8s.io/apiserver/pkg/quota/v1"

	"kubequota.dev/conformance/units/answers"
)

// What upstream decides here is gone; kubequota decides it.
//
//kubequota:cut Matches MatchesNoScopeFunc MatchesScopeFunc MatchingResourceNamesFunc UsageFunc
//kubequota:cut CalculateUsageStats getScopeSelectorsFromQuota

// KubequotaEvaluator is an evaluator of upstream's interface that asks kubequota's evaluator of the same kind. It only converts.
type KubequotaEvaluator struct {
	Kind schema.GroupResource
	// Convert makes of an object the versioned one that a server would send; without it, only metadata is sent.
	Convert func(runtime.Object) (any, error)
	// Around is what there is beside an object; without it there is nothing but the time.
	Around func(object any) KubequotaAround
	// List lists objects of a namespace.
	List ListFuncByNamespace
}

// KubequotaAround is what the answer for an object may depend on beside it.
type KubequotaAround struct {
	Now           time.Time `json:"now"`
	DeviceClasses []any     `json:"deviceClasses,omitempty"`
	Pods          []any     `json:"pods,omitempty"`
	Claims        []any     `json:"claims,omitempty"`
}

var _ quota.Evaluator = &KubequotaEvaluator{}

// Object is an object as it is sent, and what is around it; no object is nil.
func (e *KubequotaEvaluator) Object(object runtime.Object) (converted any, around KubequotaAround, err error) {
	switch {
	case object == nil:
	case e.Convert != nil:
		converted, err = e.Convert(object)
	default:
		var metadata any
		if metadata, err = kubequotaMetadata(object); err == nil {
			converted = map[string]any{"metadata": metadata}
		}
	}
	if e.Around == nil {
		return converted, KubequotaAround{Now: time.Now()}, err
	}
	return converted, e.Around(converted), err
}

func kubequotaMetadata(object runtime.Object) (any, error) {
	accessor, err := meta.Accessor(object)
	if err != nil {
		return nil, err
	}
	return map[string]any{
		"name":            accessor.GetName(),
		"generateName":    accessor.GetGenerateName(),
		"namespace":       accessor.GetNamespace(),
		"uid":             accessor.GetUID(),
		"resourceVersion": accessor.GetResourceVersion(),
	}, nil
}

// kubequotaObject is what kubequota's evaluator says of one object.
type kubequotaObject struct {
	// Usage is {"Ok": list} or {"Err": reason}.
	Usage      kubequotaUsage
	Tracked    []corev1.ResourceName
	Scopes     []*bool
	Matches    []*bool
	Constraint *string
}

type kubequotaUsage struct {
	Ok  corev1.ResourceList
	Err *string
}

func (u kubequotaUsage) list() (corev1.ResourceList, error) {
	if u.Err != nil {
		return corev1.ResourceList{}, errors.New(*u.Err)
	}
	return u.Ok, nil
}

func (e *KubequotaEvaluator) ask(object runtime.Object, question map[string]any) (answer kubequotaObject, err error) {
	converted, around, err := e.Object(object)
	if err != nil {
		return answer, err
	}
	if converted == nil {
		converted = map[string]any{}
	}
	question["kind"] = e.Kind.String()
	question["object"] = converted
	question["around"] = around
	answers.Ask("object", question, &answer)
	return answer, nil
}

func (e *KubequotaEvaluator) GroupResource() schema.GroupResource { return e.Kind }

func (e *KubequotaEvaluator) Constraints(required []corev1.ResourceName, item runtime.Object) error {
	answer, err := e.ask(item, map[string]any{"names": required})
	if err == nil && answer.Constraint != nil {
		err = errors.New(*answer.Constraint)
	}
	return err
}

func (e *KubequotaEvaluator) Handles(a admission.Attributes) (handles bool) {
	// As with upstream, an object that is none of the kind is as good as none.
	object, around, err := e.Object(a.GetObject())
	if err != nil {
		object = nil
	}
	old, _, err := e.Object(a.GetOldObject())
	if err != nil {
		old = nil
	}
	answers.Ask("unit", map[string]any{"handles": map[string]any{
		"kind":        e.Kind.String(),
		"operation":   a.GetOperation(),
		"subresource": a.GetSubresource(),
		"object":      object,
		"old":         old,
		"around":      around,
	}}, &handles)
	return handles
}

func (e *KubequotaEvaluator) Matches(resourceQuota *corev1.ResourceQuota, item runtime.Object) (bool, error) {
	answer, err := e.ask(item, map[string]any{"quotas": []any{resourceQuota}})
	if err != nil {
		return false, err
	}
	if answer.Matches[0] == nil {
		return false, fmt.Errorf("the scopes of %s can't be evaluated", resourceQuota.Name)
	}
	return *answer.Matches[0], nil
}

func (e *KubequotaEvaluator) MatchingScopes(item runtime.Object, scopes []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	matching := []corev1.ScopedResourceSelectorRequirement{}
	answer, err := e.ask(item, map[string]any{"selectors": append([]corev1.ScopedResourceSelectorRequirement{}, scopes...)})
	if err != nil {
		return matching, err
	}
	for i, matches := range answer.Scopes {
		if matches == nil {
			return []corev1.ScopedResourceSelectorRequirement{}, fmt.Errorf("scope %v can't be evaluated", scopes[i])
		}
		if *matches {
			matching = append(matching, scopes[i])
		}
	}
	return matching, nil
}

// UncoveredQuotaScopes is part of CheckRequest, which kubequota answers as a whole: nothing calls this.
func (e *KubequotaEvaluator) UncoveredQuotaScopes([]corev1.ScopedResourceSelectorRequirement, []corev1.ScopedResourceSelectorRequirement) ([]corev1.ScopedResourceSelectorRequirement, error) {
	panic("kubequota is not asked for uncovered scopes by themselves")
}

func (e *KubequotaEvaluator) MatchingResources(input []corev1.ResourceName) []corev1.ResourceName {
	answer, err := e.ask(nil, map[string]any{"names": input})
	if err != nil {
		panic(err)
	}
	return answer.Tracked
}

func (e *KubequotaEvaluator) Usage(item runtime.Object) (corev1.ResourceList, error) {
	answer, err := e.ask(item, map[string]any{})
	if err != nil {
		return corev1.ResourceList{}, err
	}
	return answer.Usage.list()
}

func (e *KubequotaEvaluator) UsageStats(options quota.UsageStatsOptions) (quota.UsageStats, error) {
	items, err := e.List(options.Namespace)
	if err != nil {
		return quota.UsageStats{}, err
	}
	selectors := []corev1.ScopedResourceSelectorRequirement{}
	for _, scope := range options.Scopes {
		selectors = append(selectors, corev1.ScopedResourceSelectorRequirement{ScopeName: scope, Operator: corev1.ScopeSelectorOpExists})
	}
	if options.ScopeSelector != nil {
		selectors = append(selectors, options.ScopeSelector.MatchExpressions...)
	}
	objects := []any{}
	_, around, _ := e.Object(nil)
	for _, item := range items {
		object, beside, err := e.Object(item)
		if err != nil {
			return quota.UsageStats{}, err
		}
		objects = append(objects, object)
		around.Pods = append(around.Pods, beside.Pods...)
		around.Claims = append(around.Claims, beside.Claims...)
	}
	var total kubequotaUsage
	answers.Ask("unit", map[string]any{"total": map[string]any{
		"kind":      e.Kind.String(),
		"objects":   objects,
		"selectors": selectors,
		"names":     append([]corev1.ResourceName{}, options.Resources...),
		"around":    around,
	}}, &total)
	used, err := total.list()
	return quota.UsageStats{Used: used}, err
}

type objectCountEvaluator struct{ KubequotaEvaluator }

// NewObjectCountEvaluator ignores the alias: kubequota knows the aliases itself.
func NewObjectCountEvaluator(groupResource schema.GroupResource, list ListFuncByNamespace, _ corev1.ResourceName) quota.Evaluator {
	return &objectCountEvaluator{KubequotaEvaluator{Kind: groupResource, List: list}}
}
