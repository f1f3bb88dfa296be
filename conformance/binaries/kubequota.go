package binaries

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Kubequota builds the program under test from the checkout at root and returns its path. Cargo decides what is out of date.
func Kubequota(ctx context.Context, root string, log func(format string, args ...any)) (string, error) {
	if _, err := exec.LookPath("cargo"); err != nil {
		return "", errors.New("'cargo' is not installed; install Rust (https://rustup.rs), or pass --kubequota PATH of a built binary")
	}
	log("building kubequota (cargo build --release)")
	// The JSON messages name the executable wherever CARGO_TARGET_DIR or a cargo configuration puts it.
	cmd := exec.CommandContext(ctx, "cargo", "build", "--release", "--bin", "kubequota",
		"--message-format=json-render-diagnostics")
	cmd.Dir = root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cargo build --release --bin kubequota: %w\n%s", err, stderr.String())
	}
	decoder := json.NewDecoder(&stdout)
	for decoder.More() {
		var message struct {
			Executable string `json:"executable"`
			Target     struct {
				Name string `json:"name"`
			} `json:"target"`
		}
		if err := decoder.Decode(&message); err != nil {
			return "", fmt.Errorf("reading cargo's messages: %w", err)
		}
		if message.Target.Name == "kubequota" && message.Executable != "" {
			return message.Executable, nil
		}
	}
	return "", errors.New("cargo built no executable called kubequota")
}

// GivenKubequota checks a path that the caller gave instead.
func GivenKubequota(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("--kubequota: %w", err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("--kubequota: %s is not an executable file", path)
	}
	// A bare name would be looked for in PATH.
	return filepath.Abs(path)
}
