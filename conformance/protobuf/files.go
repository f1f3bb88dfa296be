package protobuf

import (
	"encoding/json"
	"fmt"

	"kubequota.dev/conformance/binaries"
)

// samplesFolder is where the tests of the embedded server find objects in both encodings, from the checkout's folder.
const samplesFolder = "crates/testserver/tests/protobuf/"

// Files are what is kept in crates/testserver, by path from the checkout's folder. conformance is the folder of that name.
func Files(conformance string) (map[string][]byte, error) {
	version, err := binaries.KubernetesVersion(conformance)
	if err != nil {
		return nil, err
	}
	table, err := Table(version)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{TableFile: []byte(table)}
	// Of the kinds these two hold nearly all that is special. The others are compared by the suite apiserver.
	for _, sample := range []struct{ name, apiVersion, kind string }{
		{"pod", "v1", "Pod"},
		{"customresourcedefinition", "apiextensions.k8s.io/v1", "CustomResourceDefinition"},
	} {
		object := Empty(sample.apiVersion, sample.kind)
		if object == nil {
			return nil, fmt.Errorf("%s is none of the kinds", sample.kind)
		}
		Fill(object)
		encoded, err := Encode(object)
		if err != nil {
			return nil, err
		}
		text, err := json.Marshal(object)
		if err != nil {
			return nil, err
		}
		files[samplesFolder+sample.name+".pb"] = encoded
		files[samplesFolder+sample.name+".json"] = append(text, '\n')
	}
	return files, nil
}
