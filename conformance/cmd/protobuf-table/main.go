// protobuf-table writes what crates/testserver has of Kubernetes' protobuf messages, for the version in go.mod: the table by which it reads
// bodies, and two objects in both encodings for its tests. Run it in this module: go run -C conformance ./cmd/protobuf-table
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"kubequota.dev/conformance/protobuf"
)

func main() {
	if err := write(".."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write(root string) error {
	files, err := protobuf.Files(filepath.Join(root, "conformance"))
	if err != nil {
		return err
	}
	for path, content := range files {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
