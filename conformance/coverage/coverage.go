// Package coverage tells how much of upstream's code the oracle's questions reach.
package coverage

import (
	"bufio"
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

// Subject is a part of upstream's code that the questions must reach.
type Subject struct {
	Name string
	// Module and Files say where it is; paths are relative to the module.
	Module string
	Files  []string
	// Functions, if there are any, are all that counts of the files: NAME or TYPE.NAME.
	Functions []string
	// Without are functions that give no answer.
	Without []string
}

// Subjects are what kubequota's rules take the place of.
var Subjects = []Subject{
	{
		Name: "evaluators", Module: "k8s.io/kubernetes",
		Files: []string{"pkg/quota/v1/evaluator/core/pods.go", "pkg/quota/v1/evaluator/core/services.go",
			"pkg/quota/v1/evaluator/core/persistent_volume_claims.go", "pkg/quota/v1/evaluator/core/resource_claims.go"},
		// The index of an informer, which the oracle has not, and a filter of events, which counts nothing.
		Without: []string{"makeResourceClaimPodOwnerGetter", "extendedResourceClaimPodUIDOwnerIndex", "resourceClaimPodOwnerKey", "GetQuotaServiceType"},
	},
	{
		Name: "counting", Module: "k8s.io/apiserver",
		Files: []string{"pkg/quota/v1/generic/evaluator.go"},
		Functions: []string{"Matches", "MatchesNoScopeFunc", "getScopeSelectorsFromQuota", "CalculateUsageStats", "NewObjectCountEvaluator", "ObjectCountQuotaResourceNameFor",
			"objectCountEvaluator.Constraints", "objectCountEvaluator.Handles", "objectCountEvaluator.Matches", "objectCountEvaluator.MatchingResources",
			"objectCountEvaluator.MatchingScopes", "objectCountEvaluator.UncoveredQuotaScopes", "objectCountEvaluator.Usage", "objectCountEvaluator.UsageStats"},
	},
	{
		Name: "lists", Module: "k8s.io/apiserver",
		Files: []string{"pkg/quota/v1/resources.go"},
	},
	{
		Name: "CheckRequest", Module: "k8s.io/apiserver",
		Files: []string{"pkg/admission/plugin/resourcequota/controller.go"},
		Functions: []string{"CheckRequest", "filterLimitedResourcesByGroupResource", "limitedByDefault", "getMatchedLimitedScopes", "getScopeSelectorsFromQuota",
			"prettyPrint", "prettyPrintResourceNames", "hasUsageStats"},
	},
	{
		Name: "quantities", Module: "k8s.io/apimachinery",
		Files: []string{"pkg/api/resource/quantity.go", "pkg/api/resource/amount.go", "pkg/api/resource/math.go", "pkg/api/resource/scale_int.go",
			"pkg/api/resource/suffix.go"},
		// They describe the type to openapi, command lines and CBOR; the last two are called by nobody.
		Without: []string{"Quantity.OpenAPISchemaType", "Quantity.OpenAPISchemaFormat", "Quantity.OpenAPIV3OneOfTypes", "Quantity.ToUnstructured",
			"Quantity.MarshalCBOR", "Quantity.UnmarshalCBOR", "QuantityValue.Set", "QuantityValue.Type", "listSuffixer.construct", "suffixHandler.construct"},
	},
}

// Statements of a profile, by the file's path as Go names it.
type Statements map[string][]block

// block is a run of statements.
type block struct {
	first, last, count int
	hit                bool
}

var profileLine = regexp.MustCompile(`^(.+):(\d+)\.\d+,(\d+)\.\d+ (\d+) (\d+)$`)

// ReadProfile reads what `go tool covdata textfmt` writes.
func ReadProfile(file string) (Statements, error) {
	opened, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	statements := Statements{}
	lines := bufio.NewScanner(opened)
	for lines.Scan() {
		match := profileLine.FindStringSubmatch(lines.Text())
		if match == nil {
			continue // the mode
		}
		number := func(i int) int { n, _ := strconv.Atoi(match[i]); return n }
		statements[match[1]] = append(statements[match[1]], block{number(2), number(3), number(4), match[5] != "0"})
	}
	return statements, lines.Err()
}

// Reached is how much of a subject was reached.
type Reached struct {
	Hit, All int
	// Missing are the lines that were not reached.
	Missing []string
}

// Percent of all statements.
func (r Reached) Percent() float64 {
	if r.All == 0 {
		return 0
	}
	return 100 * float64(r.Hit) / float64(r.All)
}

// Reached counts the statements of a subject. locate gives the folder of a module.
func (s Subject) Reached(statements Statements, locate func(module string) (string, error)) (Reached, error) {
	var all Reached
	folder, err := locate(s.Module)
	if err != nil {
		return all, fmt.Errorf("where is %s: %w", s.Module, err)
	}
	known := map[string]bool{}
	for _, file := range s.Files {
		functions, err := functionsOf(filepath.Join(folder, file))
		if err != nil {
			return all, err
		}
		for _, block := range statements[path.Join(s.Module, file)] {
			name := ""
			for function, lines := range functions {
				if block.first >= lines[0] && block.last <= lines[1] {
					name = function
				}
			}
			known[name] = true
			if slices.Contains(s.Without, name) || len(s.Functions) > 0 && !slices.Contains(s.Functions, name) {
				continue
			}
			all.All += block.count
			if block.hit {
				all.Hit += block.count
			} else {
				all.Missing = append(all.Missing, fmt.Sprintf("%s:%d", path.Base(file), block.first))
			}
		}
	}
	for _, name := range slices.Concat(s.Functions, s.Without) {
		if !known[name] {
			return all, fmt.Errorf("%s has no statements of %s: has upstream changed?", strings.Join(s.Files, ", "), name)
		}
	}
	return all, nil
}

// functionsOf are the first and last lines of a file's functions.
func functionsOf(file string) (map[string][2]int, error) {
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, 0)
	if err != nil {
		return nil, err
	}
	functions := map[string][2]int{}
	for _, declared := range parsed.Decls {
		function, is := declared.(*ast.FuncDecl)
		if !is {
			continue
		}
		name := function.Name.Name
		if function.Recv != nil {
			receiver := function.Recv.List[0].Type
			if star, is := receiver.(*ast.StarExpr); is {
				receiver = star.X
			}
			name = fmt.Sprint(receiver) + "." + name
		}
		functions[name] = [2]int{set.Position(function.Pos()).Line, set.Position(function.End()).Line}
	}
	return functions, nil
}
