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

// Program is an executable that cargo builds from the checkout.
type Program struct {
	Name string
	pkg  string
	// form is cargo's flag that selects it, --bin or --example.
	form string
}

var (
	// Kubequota is the program under test.
	Kubequota = Program{Name: "kubequota", pkg: "kubequota-cli", form: "--bin"}
	// Answers answers questions about kubequota's rules.
	Answers = Program{Name: "answers", pkg: "kubequota-answers", form: "--bin"}
	// Serve serves an empty embedded API server.
	Serve = Program{Name: "serve", pkg: "kubequota-testserver", form: "--example"}
)

// Build builds it from the checkout at root and returns its path. Cargo decides what is out of date.
func (p Program) Build(ctx context.Context, root string, log func(format string, args ...any)) (string, error) {
	if _, err := exec.LookPath("cargo"); err != nil {
		return "", fmt.Errorf("'cargo' is not installed; install Rust (https://rustup.rs), or pass --%s PATH of a built binary", p.Name)
	}
	log("building %s (cargo build --release)", p.Name)
	// The JSON messages name the executable wherever CARGO_TARGET_DIR or a cargo configuration puts it.
	cmd := exec.CommandContext(ctx, "cargo", "build", "--release", "--package", p.pkg, p.form, p.Name,
		"--message-format=json-render-diagnostics")
	cmd.Dir = root
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("cargo build --release %s %s: %w\n%s", p.form, p.Name, err, stderr.String())
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
		if message.Target.Name == p.Name && message.Executable != "" {
			return message.Executable, nil
		}
	}
	return "", fmt.Errorf("cargo built no executable called %s", p.Name)
}

// Find is the path of the program: the one that the caller gave, or of what is built from the checkout at root.
func (p Program) Find(ctx context.Context, root, given string, log func(format string, args ...any)) (string, error) {
	if given != "" {
		return p.Given(given)
	}
	return p.Build(ctx, root, log)
}

// Given checks a path that the caller gave instead.
func (p Program) Given(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", p.Name, err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return "", fmt.Errorf("--%s: %s is not an executable file", p.Name, path)
	}
	// A bare name would be looked for in PATH.
	return filepath.Abs(path)
}
