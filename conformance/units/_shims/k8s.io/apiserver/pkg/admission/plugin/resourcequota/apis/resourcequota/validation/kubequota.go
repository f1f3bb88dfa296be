package validation

import (
	"encoding/json"
	"errors"

	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"
	resourcequotav1 "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/v1"

	"kubequota.dev/conformance/units/answers"
)

// ValidateConfiguration asks kubequota whether it takes the configuration as a file.
func ValidateConfiguration(config *resourcequotaapi.Configuration) field.ErrorList {
	written := resourcequotav1.Configuration{}
	written.APIVersion = resourcequotav1.SchemeGroupVersion.String()
	written.Kind = "ResourceQuotaConfiguration"
	for _, limited := range config.LimitedResources {
		written.LimitedResources = append(written.LimitedResources, resourcequotav1.LimitedResource(limited))
	}
	file, err := json.Marshal(written)
	if err != nil {
		return field.ErrorList{field.InternalError(nil, err)}
	}
	var answer struct{ Misconfigured *string }
	answers.Ask("configuration", map[string]any{"file": string(file)}, &answer)
	if answer.Misconfigured != nil {
		return field.ErrorList{field.InternalError(nil, errors.New(*answer.Misconfigured))}
	}
	return nil
}
