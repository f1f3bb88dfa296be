package resourcequota

import (
	"errors"
	"io"

	resourcequotaapi "k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota"

	"kubequota.dev/conformance/units/answers"
)

// This file stands in the place of upstream's, with its scheme and decoder.

// LoadConfiguration asks kubequota what a configuration file says.
func LoadConfiguration(config io.Reader) (*resourcequotaapi.Configuration, error) {
	question := map[string]any{"file": nil}
	if config != nil {
		file, err := io.ReadAll(config)
		if err != nil {
			return nil, err
		}
		question["file"] = string(file)
	}
	var answer struct {
		Limited       []resourcequotaapi.LimitedResource
		Misconfigured *string
	}
	answers.Ask("configuration", question, &answer)
	if answer.Misconfigured != nil {
		return nil, errors.New(*answer.Misconfigured)
	}
	return &resourcequotaapi.Configuration{LimitedResources: answer.Limited}, nil
}
