package units

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A shim is a Go file of this project that joins one of upstream's packages. Where it has the name of a file of upstream's, it stands in
// that file's place. Otherwise each declaration in it replaces upstream's declaration of the same name, and what its lines
//
//	//kubequota:cut NAME...
//
// name is taken out of upstream's files as well: upstream's rules must not be there to fall back on. A type takes its methods with it.
// Upstream's tests are never touched.

// layShims puts the shims of one package into a writable copy of it.
func layShims(shims, copied string) error {
	files, err := filepath.Glob(filepath.Join(shims, "*.go"))
	if err != nil {
		return err
	}
	replaced := declarations{}
	for _, shim := range files {
		content, err := os.ReadFile(shim)
		if err != nil {
			return err
		}
		place := filepath.Join(copied, filepath.Base(shim))
		if _, err := os.Stat(place); err != nil {
			if err := replaced.addAll(shim, content); err != nil {
				return err
			}
		}
		if err := os.WriteFile(place, content, 0o644); err != nil {
			return err
		}
	}
	ours := func(file string) bool {
		return slices.ContainsFunc(files, func(shim string) bool { return filepath.Base(shim) == filepath.Base(file) })
	}
	upstreams, err := filepath.Glob(filepath.Join(copied, "*.go"))
	if err != nil {
		return err
	}
	for _, file := range upstreams {
		if ours(file) || strings.HasSuffix(file, "_test.go") {
			continue
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		content, err = replaced.cut(file, content)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	for name, cut := range replaced {
		if !cut && !isOwn(name) {
			return fmt.Errorf("%s: upstream declares no %s any more; what a shim adds of its own begins with %q", shims, name, ownPrefix)
		}
	}
	return nil
}

const (
	// ownPrefix begins the names that shims declare for themselves, in lower or upper case.
	ownPrefix    = "kubequota"
	cutDirective = "//kubequota:cut "
)

// isOwn is whether a name, or the method or the type in it, is the shims' own.
func isOwn(name string) bool {
	return slices.ContainsFunc(strings.Split(strings.ToLower(name), "."), func(part string) bool { return strings.HasPrefix(part, ownPrefix) })
}

// declarations holds names of a package's level, methods as "Type.Method", and whether upstream's declaration was found and cut.
type declarations map[string]bool

func (d declarations) addAll(name string, content []byte) error {
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	for _, group := range file.Comments {
		for _, comment := range group.List {
			if names, is := strings.CutPrefix(comment.Text, cutDirective); is {
				for _, name := range strings.Fields(names) {
					d[name] = false
				}
			}
		}
	}
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			d[qualified(receiverOf(decl), decl.Name.Name)] = false
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				for _, name := range namesOf(spec) {
					if name != "_" {
						d[name] = false
					}
				}
			}
		}
	}
	return nil
}

// cut takes the declarations out of a file of upstream's, and the imports that nothing needs any more.
func (d declarations) cut(name string, content []byte) ([]byte, error) {
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	var cuts []ast.Node
	for _, decl := range file.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			receiver := receiverOf(decl)
			_, isReplaced := d[qualified(receiver, decl.Name.Name)]
			_, typeIsReplaced := d[receiver]
			if isReplaced || (receiver != "" && typeIsReplaced) {
				cuts = append(cuts, decl)
				d.note(qualified(receiver, decl.Name.Name))
			}
		case *ast.GenDecl:
			var specs []ast.Node
			for _, spec := range decl.Specs {
				names := namesOf(spec)
				if len(names) > 0 && !slices.ContainsFunc(names, func(name string) bool { _, is := d[name]; return !is }) {
					specs = append(specs, spec)
					for _, name := range names {
						d.note(name)
					}
				}
			}
			if len(specs) == len(decl.Specs) {
				specs = []ast.Node{decl}
			}
			cuts = append(cuts, specs...)
		}
	}
	if len(cuts) == 0 {
		return content, nil
	}
	content = blank(files, content, cuts)

	files = token.NewFileSet()
	if file, err = parser.ParseFile(files, name, content, parser.ParseComments|parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	used := map[string]bool{}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, is := node.(*ast.SelectorExpr); is {
			if pkg, is := selector.X.(*ast.Ident); is {
				used[pkg.Name] = true
			}
		}
		return true
	})
	cuts = nil
	for _, spec := range file.Imports {
		if !mayUse(used, spec) {
			cuts = append(cuts, spec)
		}
	}
	return blank(files, content, cuts), nil
}

// note marks a declaration as found, where it was asked for by its own name.
func (d declarations) note(name string) {
	if _, is := d[name]; is {
		d[name] = true
	}
}

// blank overwrites nodes with spaces: every other line keeps its number.
func blank(files *token.FileSet, content []byte, nodes []ast.Node) []byte {
	content = bytes.Clone(content)
	for _, node := range nodes {
		for i := files.Position(node.Pos()).Offset; i < files.Position(node.End()).Offset; i++ {
			if content[i] != '\n' {
				content[i] = ' '
			}
		}
	}
	return content
}

func receiverOf(decl *ast.FuncDecl) string {
	if decl.Recv == nil {
		return ""
	}
	kind := decl.Recv.List[0].Type
	if star, is := kind.(*ast.StarExpr); is {
		kind = star.X
	}
	name, is := kind.(*ast.Ident)
	if !is {
		return ""
	}
	return name.Name
}

func qualified(receiver, name string) string {
	if receiver == "" {
		return name
	}
	return receiver + "." + name
}

func namesOf(spec ast.Spec) []string {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		return []string{spec.Name.Name}
	case *ast.ValueSpec:
		names := make([]string, len(spec.Names))
		for i, name := range spec.Names {
			names[i] = name.Name
		}
		return names
	default:
		return nil
	}
}

// mayUse is whether a file that uses packages by these names may need an import: by its alias, or by the last part of its path, or the
// part before a major version.
func mayUse(used map[string]bool, spec *ast.ImportSpec) bool {
	if spec.Name != nil {
		return used[spec.Name.Name] || spec.Name.Name == "_"
	}
	whole, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return true
	}
	last := path.Base(whole)
	return used[last] || (majorVersion.MatchString(last) && used[path.Base(path.Dir(whole))])
}

var majorVersion = regexp.MustCompile(`^v\d+$`)
