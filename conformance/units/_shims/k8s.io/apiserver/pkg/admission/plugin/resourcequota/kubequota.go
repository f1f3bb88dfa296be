package resourcequota

import (
	"fmt"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	quota "k8s.io/apiserver/pkg/quota/v1"
	"k8s.io/apiserver/pkg/quota/v1/generic"

	"kubequota.dev/conformance/units/answers"
)

// What upstream decides here is gone; kubequota decides it.
//
//kubequota:cut filterLimitedResourcesByGroupResource limitedByDefault getMatchedLimitedScopes getScopeSelectorsFromQuota
//kubequota:cut prettyPrintResourceNames

// kubequotaConverter is what every evaluator is under these shims.
type kubequotaConverter interface {
	Object(runtime.Object) (converted any, around generic.KubequotaAround, err error)
}

// CheckRequest asks for kubequota's verdict.
func CheckRequest(quotas []corev1.ResourceQuota, a admission.Attributes, evaluator quota.Evaluator, limited []resourcequotaapi.LimitedResource) ([]corev1.ResourceQuota, error) {
	// As upstream has it, an object without a namespace gets the request's. A test looks for it in the object itself.
	if accessor, err := meta.Accessor(a.GetObject()); err == nil && accessor.GetNamespace() == "" {
		accessor.SetNamespace(a.GetNamespace())
	}
	converter := evaluator.(kubequotaConverter)
	object, around, err := converter.Object(a.GetObject())
	if err != nil {
		return nil, err
	}
	old, _, err := converter.Object(a.GetOldObject())
	if err != nil {
		return nil, err
	}
	limits := []any{}
	for _, limit := range limited {
		limits = append(limits, map[string]any{
			"apiGroup":      limit.APIGroup,
			"resource":      limit.Resource,
			"matchContains": limit.MatchContains,
			"matchScopes":   limit.MatchScopes,
		})
	}
	var answer struct {
		Misconfigured string
		Verdicts      []struct {
			Refused *string
			Allowed []corev1.ResourceList
		}
	}
	answers.Ask("admission", map[string]any{
		"quotas":  append([]corev1.ResourceQuota{}, quotas...),
		"limited": limits,
		"requests": []any{map[string]any{
			"kind":        evaluator.GroupResource().String(),
			"operation":   a.GetOperation(),
			"subresource": a.GetSubresource(),
			"name":        a.GetName(),
			"object":      object,
			"old":         old,
			"dryRun":      a.IsDryRun(),
		}},
		"around": around,
	}, &answer)
	if len(answer.Verdicts) != 1 {
		return nil, fmt.Errorf("limitedResources: %s", answer.Misconfigured)
	}
	verdict := answer.Verdicts[0]
	if verdict.Refused != nil {
		return nil, &apierrors.StatusError{ErrStatus: metav1.Status{
			Status:  metav1.StatusFailure,
			Code:    http.StatusForbidden,
			Reason:  metav1.StatusReasonForbidden,
			Message: *verdict.Refused,
		}}
	}
	charged, err := copyQuotas(quotas)
	for i := range charged {
		charged[i].Status.Used = verdict.Allowed[i]
	}
	return charged, err
}

func prettyPrint(list corev1.ResourceList) string { return quota.KubequotaPrinted(list) }

func hasUsageStats(resourceQuota *corev1.ResourceQuota, interesting []corev1.ResourceName) bool {
	tracked := quota.Intersection(quota.ResourceNames(resourceQuota.Status.Hard), interesting)
	return len(quota.Difference(tracked, quota.ResourceNames(resourceQuota.Status.Used))) == 0
}
