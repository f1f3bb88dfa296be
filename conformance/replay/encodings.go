package replay

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"kubequota.dev/conformance/protobuf"
)

// Encodings sends the embedded server objects of every kind that it serves, every field of them set, once as JSON and once as protobuf, in dry
// runs. It must take both for the same. Each kind is a case.
func Encodings(ctx context.Context, embedded *Player, tally Tally) error {
	compared := 0
	for _, object := range protobuf.Kinds() {
		kind := object.GetObjectKind().GroupVersionKind()
		path, err := embedded.collection(ctx, kind.GroupVersion().String(), kind.Kind)
		if err != nil {
			return err
		}
		if path == "" {
			continue
		}
		findings, err := embedded.inBoth(ctx, path, object)
		step := Step{Case: "the encodings of " + kind.Kind, Request: "POST " + path}
		judge(step, findings, err, nil, tally)
		compared++
	}
	if compared == 0 {
		tally.Fail("the encodings: no kind is served")
	}
	return nil
}

// collection is where objects of a kind are created, in the namespace default where they have one. It is empty for a kind that isn't served.
func (p *Player) collection(ctx context.Context, apiVersion, kind string) (string, error) {
	group := "/apis/" + apiVersion
	if !strings.Contains(apiVersion, "/") {
		group = "/api/" + apiVersion
	}
	answer, err := p.send(ctx, Step{Request: "GET " + group})
	if err != nil || answer.Code != http.StatusOK {
		return "", err
	}
	resources, _ := field(answer.Body, "resources")
	list, _ := resources.([]any)
	for _, item := range list {
		resource, _ := item.(map[string]any)
		name, _ := resource["name"].(string)
		switch {
		case resource["kind"] != kind || strings.Contains(name, "/"):
		case resource["namespaced"] == true:
			return group + "/namespaces/default/" + name, nil
		default:
			return group + "/" + name, nil
		}
	}
	return "", nil
}

func (p *Player) inBoth(ctx context.Context, path string, object runtime.Object) ([]finding, error) {
	protobuf.Fill(object)
	if configuration, ok := object.(*admissionregistration.ValidatingWebhookConfiguration); ok {
		// What fills them is no CEL, which both refuse.
		for i := range configuration.Webhooks {
			configuration.Webhooks[i].MatchConditions = nil
		}
	}
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var bodies []map[string]any
	for _, mediaType := range []string{"application/json", protobuf.MediaType} {
		answer, err := p.send(ctx, Step{Request: "POST " + path + "?dryRun=All", Type: mediaType, Body: text})
		if err != nil {
			return nil, err
		}
		if answer.Code != http.StatusCreated {
			return nil, fmt.Errorf("sent as %s it is answered with %d: %s", mediaType, answer.Code, show(answer.Body))
		}
		bodies = append(bodies, p.normal(answer))
	}
	return compare("", bodies[0], bodies[1]), nil
}
