package protobuf

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func TestTheFilesOfTheEmbeddedServerAreCurrent(t *testing.T) {
	files, err := Files("..")
	if err != nil {
		t.Fatal(err)
	}
	for path, wanted := range files {
		actual, err := os.ReadFile(filepath.Join("..", "..", path))
		if err != nil || !bytes.Equal(actual, wanted) {
			t.Errorf("%s is not what Kubernetes' types say now (%v): run go run -C conformance ./cmd/protobuf-table", path, err)
		}
	}
}
