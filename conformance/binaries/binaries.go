// Package binaries builds what a suite runs, from Go modules alone, and builds it again only when its inputs changed.
package binaries

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The binaries that suites can ask for.
const (
	Etcd         = "etcd"
	ControlPlane = "control-plane"
	Kubectl      = "kubectl"
	Ginkgo       = "ginkgo"
	E2E          = "e2e.test"
	Oracle       = "oracle"
	Witness      = "witness"
)

// ControlPlaneSet is what every suite with a real server needs.
var ControlPlaneSet = []string{Etcd, ControlPlane, Kubectl}

// recipe says how one binary is made. All paths are relative to the conformance folder.
type recipe struct {
	name string
	// module is the folder whose go.mod and go.sum decide what is built; go runs there.
	module string
	// sources are the folders with this project's own files of the binary.
	sources []string
	// args are those of go; -o and the linker's flags are added.
	args []string
	// release says that the binary reports Kubernetes' version: without it a server calls itself v0.0.0 and clients refuse it.
	release bool
}

// The cheap ones come first, so that a mistake in go.mod shows before minutes of compiling.
var recipes = []recipe{
	{name: Etcd, module: "etcd", sources: []string{"etcd"}, args: []string{"build"}},
	{name: Ginkgo, module: ".", args: []string{"build", "github.com/onsi/ginkgo/v2/ginkgo"}},
	{name: Kubectl, module: ".", sources: []string{"cmd/kubectl"}, args: []string{"build", "./cmd/kubectl"}, release: true},
	{name: ControlPlane, module: ".", sources: []string{"cmd/control-plane"}, args: []string{"build", "./cmd/control-plane"}, release: true},
	{name: E2E, module: ".", sources: []string{"e2e"}, args: []string{"test", "-c", "-tags", "e2e", "./e2e"}, release: true},
	{name: Witness, module: ".", sources: []string{"cmd/witness", "witness", "cluster"}, args: []string{"build", "./cmd/witness"}},
	{name: Oracle, module: ".", sources: []string{"cmd/oracle", "oracle"}, args: []string{"build", "-cover", "-covermode=set", "-coverpkg=" + strings.Join(covered, ","), "./cmd/oracle"}},
}

// covered are the packages of which the oracle counts the statements it reaches. Without its main package nothing would be written.
var covered = []string{
	"kubequota.dev/conformance/cmd/oracle", "k8s.io/kubernetes/pkg/quota/v1/evaluator/core", "k8s.io/apiserver/pkg/quota/v1",
	"k8s.io/apiserver/pkg/quota/v1/generic", "k8s.io/apiserver/pkg/admission/plugin/resourcequota", "k8s.io/apimachinery/pkg/api/resource",
}

// All names every binary, in the order in which they are built.
func All() []string {
	names := make([]string, len(recipes))
	for i, r := range recipes {
		names[i] = r.name
	}
	return names
}

// Set is a folder of built binaries.
type Set struct{ folder string }

// Path is where a binary is.
func (s Set) Path(name string) string { return filepath.Join(s.folder, name) }

// Build makes those of the named binaries that are missing or out of date. conformance is the folder of that name.
func Build(ctx context.Context, conformance string, names []string, log func(format string, args ...any)) (Set, error) {
	set := Set{folder: filepath.Join(conformance, ".build")}
	if err := os.MkdirAll(set.folder, 0o755); err != nil {
		return set, err
	}
	version, err := KubernetesVersion(conformance)
	if err != nil {
		return set, err
	}
	toolchain, err := exec.CommandContext(ctx, "go", "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED").Output()
	if err != nil {
		return set, fmt.Errorf("go env: %w (is Go installed and in PATH?)", err)
	}
	for _, r := range recipes {
		if !slices.Contains(names, r.name) {
			continue
		}
		stamp, err := r.stamp(conformance, version, toolchain)
		if err != nil {
			return set, err
		}
		stampFile := set.Path(r.name) + ".stamp"
		old, _ := os.ReadFile(stampFile)
		if _, err := os.Stat(set.Path(r.name)); err == nil && string(old) == stamp {
			continue
		}
		log("building %s (minutes, when Go's build cache is cold)", r.name)
		begun := time.Now()
		if err := r.build(ctx, conformance, set.Path(r.name), version); err != nil {
			return set, err
		}
		if err := os.WriteFile(stampFile, []byte(stamp), 0o644); err != nil {
			return set, err
		}
		log("built %s in %s", r.name, time.Since(begun).Round(time.Second))
	}
	return set, nil
}

func (r recipe) build(ctx context.Context, conformance, output, version string) error {
	args := append([]string{r.args[0], "-o", output, "-ldflags", r.linkerFlags(version)}, r.args[1:]...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(conformance, r.module)
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building %s: %w\n%s", r.name, err, stderr.String())
	}
	return nil
}

// linkerFlags leave out symbol tables, which halves the size of what a CI cache keeps.
func (r recipe) linkerFlags(version string) string {
	flags := []string{"-s", "-w"}
	if r.release {
		const pkg = "k8s.io/component-base/version."
		parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
		flags = append(flags,
			"-X", pkg+"gitVersion="+version, "-X", pkg+"gitMajor="+parts[0], "-X", pkg+"gitMinor="+parts[1], "-X", pkg+"gitTreeState=clean")
	}
	return strings.Join(flags, " ")
}

// stamp is a hash of everything that decides what the binary is.
func (r recipe) stamp(conformance, version string, toolchain []byte) (string, error) {
	paths := []string{filepath.Join(conformance, r.module, "go.mod"), filepath.Join(conformance, r.module, "go.sum")}
	for _, sources := range r.sources {
		paths = append(paths, filepath.Join(conformance, sources))
	}
	return Stamp(conformance, fmt.Sprintf("%s\n%q\n%s", toolchain, r.args, r.linkerFlags(version)), paths...)
}

var kubernetesRequirement = regexp.MustCompile(`(?m)^(?:require)?\s+k8s\.io/kubernetes (v1\.\d+\.\d+\S*)$`)

// KubernetesVersion is read from go.mod, so that the version stands in one place.
func KubernetesVersion(conformance string) (string, error) {
	content, err := os.ReadFile(filepath.Join(conformance, "go.mod"))
	if err != nil {
		return "", err
	}
	match := kubernetesRequirement.FindSubmatch(content)
	if match == nil {
		return "", fmt.Errorf("%s requires no k8s.io/kubernetes", filepath.Join(conformance, "go.mod"))
	}
	return string(match[1]), nil
}
