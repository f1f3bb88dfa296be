// Package replay plays one script of requests on two API servers and compares their answers.
//
// The script is data: script/*.yaml, played in the order of the files' names. Requests build on one another, so that a server which
// goes astray early differs often.
package replay

import (
	"embed"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed script/*.yaml differences.yaml
var files embed.FS

// Step is one request and what to look at in its answer. Each step is a case.
//
// In request, accept, type, body and text, ${NAME} stands for a value that an earlier step kept: what its own server answered.
type Step struct {
	// Case names the step; it is unique.
	Case string `json:"case"`
	// Request is a method and a path with its query, `GET /api/v1/pods?limit=1`.
	Request string `json:"request"`
	// Accept is a header; without it none is sent.
	Accept string `json:"accept,omitempty"`
	// Type is the Content-Type. By default it is application/merge-patch+json for a PATCH and application/json for other bodies.
	Type string `json:"type,omitempty"`
	// Body is sent as JSON, or as protobuf where Type says so; Text is sent as it is.
	Body json.RawMessage `json:"body,omitempty"`
	Text string          `json:"text,omitempty"`
	// Keep maps names to fields of the answer (`metadata.uid`), whose values later steps use.
	Keep map[string]string `json:"keep,omitempty"`
	// Events is how many events of a watch are read before it is closed; a watch without it is read to its end.
	Events int `json:"events,omitempty"`
	// Until repeats the request until it is answered with this code: for what a server does in its own time.
	Until int `json:"until,omitempty"`
	// Shared narrows lists of the answer to the items that the embedded server has, for it serves fewer kinds: paths of lists, a colon,
	// and the field that identifies an item (`groups:name`). Where one holds another, the outer comes first.
	Shared []string `json:"shared,omitempty"`
	// Compact forgets all history before this step is played.
	Compact bool `json:"compact,omitempty"`
}

// Difference is a place where the embedded server is meant to differ.
type Difference struct {
	// Case is the step's.
	Case string `json:"case"`
	// Fields are the paths that differ, as they are printed; each stands for all below it. Without any the whole answer may differ.
	Fields []string `json:"fields,omitempty"`
	Reason string   `json:"reason"`
}

// Script reads the whole script.
func Script() ([]Step, error) {
	entries, err := files.ReadDir("script")
	if err != nil {
		return nil, err
	}
	var script []Step
	seen := map[string]bool{}
	for _, entry := range entries {
		var steps []Step
		if err := read(path.Join("script", entry.Name()), &steps); err != nil {
			return nil, err
		}
		for _, step := range steps {
			if step.Case == "" || seen[step.Case] {
				return nil, fmt.Errorf("%s: a step needs a case of its own, not %q", entry.Name(), step.Case)
			}
			if method, path, _ := strings.Cut(step.Request, " "); method == "" || !strings.HasPrefix(path, "/") {
				return nil, fmt.Errorf("%s: %s: a request is a method and a path, not %q", entry.Name(), step.Case, step.Request)
			}
			seen[step.Case] = true
		}
		script = append(script, steps...)
	}
	return script, nil
}

// Differences reads the list of meant differences.
func Differences() ([]Difference, error) {
	var differences []Difference
	return differences, read("differences.yaml", &differences)
}

func read(name string, into any) error {
	text, err := files.ReadFile(name)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}
