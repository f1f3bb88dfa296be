// Package units builds upstream's own unit tests against kubequota: copies of upstream's packages, in which shims of this project
// (folder _shims) stand in the place of upstream's rules and ask the program "answers". Upstream's *_test.go are left as they are.
package units

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"kubequota.dev/conformance/binaries"
)

// Package is one of upstream's packages whose tests are run.
type Package struct {
	// Path is its import path.
	Path string
	// Binary is the path of its built tests, Folder where they are to be run.
	Binary, Folder string
}

// build is a set of packages that are built together, with copies of these modules of upstream's.
type build struct {
	name     string
	modules  []string
	packages []string
}

// Quantities are built apart: under shims of their own nothing else of upstream's would start, since all of it parses quantities.
var builds = []build{
	{
		name:    "quota",
		modules: []string{"k8s.io/apiserver", "k8s.io/kubernetes"},
		packages: []string{
			"k8s.io/apiserver/pkg/quota/v1",
			"k8s.io/apiserver/pkg/quota/v1/generic",
			"k8s.io/kubernetes/pkg/quota/v1/evaluator/core",
			"k8s.io/apiserver/pkg/admission/plugin/resourcequota",
			"k8s.io/apiserver/pkg/admission/plugin/resourcequota/apis/resourcequota/validation",
			"k8s.io/kubernetes/plugin/pkg/admission/resourcequota",
		},
	},
	{
		name:     "quantity",
		modules:  []string{"k8s.io/apimachinery"},
		packages: []string{"k8s.io/apimachinery/pkg/api/resource"},
	},
}

// Build makes the test binaries of all packages into conformance/.build/upstream-units, where they are missing or out of date.
// conformance is the folder of that name.
func Build(ctx context.Context, conformance string, log func(format string, args ...any)) ([]Package, error) {
	var all []Package
	for _, b := range builds {
		packages, err := b.make(ctx, conformance, log)
		if err != nil {
			return nil, fmt.Errorf("upstream's unit tests (%s): %w", b.name, err)
		}
		all = append(all, packages...)
	}
	return all, nil
}

func (b build) make(ctx context.Context, conformance string, log func(format string, args ...any)) ([]Package, error) {
	folder := filepath.Join(conformance, ".build", "upstream-units", b.name)
	packages := make([]Package, len(b.packages))
	for i, path := range b.packages {
		packages[i] = Package{
			Path:   path,
			Binary: filepath.Join(folder, strings.ReplaceAll(path, "/", "_")+".test"),
			Folder: filepath.Join(folder, filepath.FromSlash(path)),
		}
	}
	stamp, err := b.stamp(ctx, conformance)
	if err != nil {
		return nil, err
	}
	stampFile := filepath.Join(folder, "stamp")
	if old, err := os.ReadFile(stampFile); err == nil && string(old) == stamp {
		return packages, nil
	}
	log("building upstream's unit tests: %s (a minute or two, when Go's build cache is cold)", b.name)
	if err := os.RemoveAll(folder); err != nil {
		return nil, err
	}
	if err := b.copyPackages(ctx, conformance, folder); err != nil {
		return nil, err
	}
	if err := b.layShims(conformance, folder); err != nil {
		return nil, err
	}
	modfile, err := b.writeModfile(ctx, conformance, folder)
	if err != nil {
		return nil, err
	}
	for _, p := range packages {
		// Without symbol tables, as all binaries here.
		if _, err := run(ctx, conformance, "go", "test", "-c", "-ldflags=-s -w", "-modfile", modfile, "-o", p.Binary, p.Path); err != nil {
			return nil, err
		}
	}
	return packages, os.WriteFile(stampFile, []byte(stamp), 0o644)
}

// copyPackages copies what the tests need of the modules that shims change: the folders of those packages alone, a few megabytes.
func (b build) copyPackages(ctx context.Context, conformance, folder string) error {
	const format = `{{with .Module}}{{if not $.ForTest}}{{.Path}} {{.Dir}} {{$.Dir}}{{end}}{{end}}`
	list, err := run(ctx, conformance, "go", append([]string{"list", "-deps", "-test", "-f", format}, b.packages...)...)
	if err != nil {
		return err
	}
	copied := map[string]bool{}
	for line := range strings.Lines(list) {
		fields := strings.Fields(line)
		if len(fields) != 3 {
			continue
		}
		module, root, from := fields[0], fields[1], fields[2]
		if !slices.Contains(b.modules, module) || copied[from] {
			continue
		}
		relative, err := filepath.Rel(root, from)
		if err != nil {
			return err
		}
		if err := copyFiles(from, filepath.Join(folder, filepath.FromSlash(module), relative)); err != nil {
			return err
		}
		if !copied[root] {
			content, err := os.ReadFile(filepath.Join(root, "go.mod"))
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(folder, filepath.FromSlash(module), "go.mod"), content, 0o644); err != nil {
				return err
			}
			copied[root] = true
		}
		copied[from] = true
	}
	return nil
}

// copyFiles copies the files of one folder, without those in folders below it. What is copied can be written to.
func copyFiles(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, entry.Name()), content, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// layShims lays the shims of the changed modules.
func (b build) layShims(conformance, folder string) error {
	shims := shimsFolder(conformance)
	for _, module := range b.modules {
		err := filepath.WalkDir(filepath.Join(shims, filepath.FromSlash(module)), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			relative, err := filepath.Rel(shims, path)
			if err != nil {
				return err
			}
			return layShims(path, filepath.Join(folder, relative))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func shimsFolder(conformance string) string { return filepath.Join(conformance, "units", "_shims") }

// writeModfile makes a go.mod for go's -modfile: conformance's own, with the copies in place of the modules.
func (b build) writeModfile(ctx context.Context, conformance, folder string) (string, error) {
	modfile := filepath.Join(folder, "go.mod")
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(conformance, name))
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
			return "", err
		}
	}
	args := []string{"mod", "edit"}
	for _, module := range b.modules {
		relative, err := filepath.Rel(conformance, filepath.Join(folder, filepath.FromSlash(module)))
		if err != nil {
			return "", err
		}
		args = append(args, "-replace", module+"=./"+filepath.ToSlash(relative))
	}
	_, err := run(ctx, conformance, "go", append(args, modfile)...)
	return modfile, err
}

// stamp is a hash of everything that decides what the binaries are.
func (b build) stamp(ctx context.Context, conformance string) (string, error) {
	toolchain, err := run(ctx, conformance, "go", "env", "GOVERSION", "GOOS", "GOARCH", "CGO_ENABLED")
	if err != nil {
		return "", err
	}
	paths := []string{filepath.Join(conformance, "go.mod"), filepath.Join(conformance, "go.sum")}
	// How they are built, what is linked into them, and the shims.
	for _, name := range []string{"units.go", "shims.go", "answers"} {
		paths = append(paths, filepath.Join(conformance, "units", name))
	}
	for _, module := range b.modules {
		paths = append(paths, filepath.Join(shimsFolder(conformance), filepath.FromSlash(module)))
	}
	return binaries.Stamp(conformance, fmt.Sprintf("%s\n%+v", toolchain, b), paths...)
}

func run(ctx context.Context, folder, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "GOFLAGS=-buildvcs=false", "GOWORK=off")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args[:min(2, len(args))], " "), err, stderr.String())
	}
	return stdout.String(), nil
}
