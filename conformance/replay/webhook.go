package replay

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	admission "k8s.io/api/admission/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Webhook is an admission webhook that does what the name of the object says: its first word is what, its second for which operation
// (`deny-update`). Anything else is allowed.
func Webhook() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review admission.AdmissionReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
			http.Error(w, "this is no review", http.StatusBadRequest)
			return
		}
		words := append(strings.Split(review.Request.Name, "-"), "")
		if words[0] == "broken" && applies(words, review.Request) {
			http.Error(w, "broken on purpose", http.StatusInternalServerError)
			return
		}
		if words[0] == "slow" && applies(words, review.Request) {
			select {
			case <-r.Context().Done():
			case <-time.After(patience):
			}
			return
		}
		review.Response = answerTo(review.Request, words)
		review.Request = nil
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	})
}

func applies(words []string, request *admission.AdmissionRequest) bool {
	return strings.EqualFold(words[1], string(request.Operation))
}

func answerTo(request *admission.AdmissionRequest, words []string) *admission.AdmissionResponse {
	response := &admission.AdmissionResponse{UID: request.UID, Allowed: true}
	if !applies(words, request) {
		return response
	}
	switch words[0] {
	case "deny":
		response.Allowed = false
		response.Result = &meta.Status{
			Code: http.StatusForbidden, Reason: meta.StatusReasonForbidden, Message: "not this one",
			Details: &meta.StatusDetails{Name: request.Name, Kind: "anything", Causes: []meta.StatusCause{{Type: "Reason", Message: "because", Field: "data"}}},
		}
	case "mute":
		response.Allowed = false
	case "reason":
		response.Allowed, response.Result = false, &meta.Status{Status: meta.StatusSuccess, Reason: meta.StatusReasonConflict, Code: http.StatusOK}
	case "later":
		response.Allowed = false
		response.Result = &meta.Status{
			Code: http.StatusTooManyRequests, Reason: meta.StatusReasonTooManyRequests, Message: "later",
			Details: &meta.StatusDetails{RetryAfterSeconds: 3},
		}
	case "warn":
		response.Warnings = []string{"mind the \"gap\"", "mind the step", "mind the step"}
	case "stranger":
		response.UID = "another"
	case "patch":
		response.Patch = []byte("[]")
	case "echo":
		response.Allowed, response.Result = false, &meta.Status{Message: echo(request)}
	}
	return response
}

// echo tells what was asked, but for what differs between any two servers.
func echo(request *admission.AdmissionRequest) string {
	object := func(raw runtime.RawExtension) string {
		var fields map[string]any
		if json.Unmarshal(raw.Raw, &fields) != nil {
			return "none"
		}
		metadata, _ := fields["metadata"].(map[string]any)
		return fmt.Sprint(fields["apiVersion"], " ", fields["kind"], " ", metadata["name"], " data ", fields["data"], " spec ", fields["spec"],
			" of ", slices.DeleteFunc(sorted(metadata), func(name string) bool { return name == "managedFields" }))
	}
	return fmt.Sprintf("%s %s/%s dry run %t; %v %v %s; asked for %v %v %s; object %s; old object %s; options %s",
		request.Operation, request.Namespace, request.Name, *request.DryRun, request.Kind, request.Resource, request.SubResource,
		request.RequestKind, request.RequestResource, request.RequestSubResource, object(request.Object), object(request.OldObject), options(request.Options.Raw))
}

// options are shown in one order of their fields.
func options(raw []byte) string {
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return "none"
	}
	text, _ := json.Marshal(fields)
	return string(text)
}
