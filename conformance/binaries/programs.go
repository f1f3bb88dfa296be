package binaries

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Kubequota builds the program under test from the checkout at root and returns its path. Cargo decides what is out of date.
func Kubequota(ctx context.Context, root string, log func(format string, args ...any)) (string, error) {
	return cargoBuild(ctx, root, "kubequota", "kubequota-cli", "--bin", log)
}

// Answers builds the program that answers questions about kubequota's rules, and returns its path.
func Answers(ctx context.Context, root string, log func(format string, args ...any)) (string, error) {
	return cargoBuild(ctx, root, "answers", "kubequota-answers", "--bin", log)
}

// Replay builds the program that serves the embedded API server, and returns its path.
func Replay(ctx context.Context, root string, log func(format string, args ...any)) (string, error) {
	return cargoBuild(ctx, root, "replay", "kubequota-testserver", "--example", log)
}

// Serve builds the program that serves an empty embedded API server with the machine's clock, and returns its path.
func Serve(ctx context.Context, root string, log func(format string, args ...any)) (string, error) {
	return cargoBuild(ctx, root, "serve", "kubequota-testserver", "--example", log)
}

// GivenServe checks a path that the caller gave instead.
func GivenServe(path string) (string, error) { return given("serve", path) }

// cargoBuild builds an executable of a package; form is the flag that selects it, --bin or --example.
func cargoBuild(ctx context.Context, root, name, pkg, form string, log func(format string, args ...any)) (string, error) {
	if _, err := exec.LookPath("cargo"); err != nil {
		return "", fmt.Errorf("'cargo' is not installed; install Rust (https://rustup.rs), or pass --%s PATH of a built binary", name)
	}
	log("building %s (cargo build --release)", name)
	// The JSON messages name the executable wherever CARGO_TARGET_DIR or a cargo configuration puts it.
	cmd := exec.CommandContext(ctx, "cargo", "build", "--release", "--package", pkg, form, name,
		"--message-format=json-render-diagnostics")
	cmd.Dir = root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cargo build --release %s %s: %w\n%s", form, name, err, stderr.String())
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
		if message.Target.Name == name && message.Executable != "" {
			return message.Executable, nil
		}
	}
	return "", fmt.Errorf("cargo built no executable called %s", name)
}

// GivenKubequota checks a path that the caller gave instead.
func GivenKubequota(path string) (string, error) { return given("kubequota", path) }

// GivenAnswers checks a path that the caller gave instead.
func GivenAnswers(path string) (string, error) { return given("answers", path) }

// GivenReplay checks a path that the caller gave instead.
func GivenReplay(path string) (string, error) { return given("replay", path) }

func given(name, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", name, err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("--%s: %s is not an executable file", name, path)
	}
	// A bare name would be looked for in PATH.
	return filepath.Abs(path)
}
