package suites

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/units"
)

var upstreamUnits = Suite{
	Name:   "upstream-units",
	Proves: "upstream's own unit tests pass with kubequota's answers in place of upstream's rules",
	Examples: []string{
		"upstream-units",
		"upstream-units --run 'evaluator/core TestPod'",
		"upstream-units --contrast              # must fail: shows that the tests judge the answers",
	},
	Deadline: 5 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		s := &upstreamUnitsSuite{
			program:  programFlag(flags, binaries.Answers),
			only:     flags.String("run", "", "`REGEX` of the tests to run, as \"PACKAGE TEST\""),
			contrast: flags.Bool("contrast", false, "make every answer wrong"),
		}
		return Steps{Build: s.build, Judge: s.judge}
	},
}

// notJudged lists the tests of upstream's that kubequota is not judged by, and why: a feature gate that v1.37 has on is switched off in
// them and they expect other answers for it (there are none today), or they are about what kubequota does not have. They are skipped. A line
// that fits no test any more is a failure.
var notJudged = map[string]string{
	"k8s.io/apimachinery/pkg/api/resource TestQuantityCmpInt64AndDec": "quantity-below-nano: compares values finer than a billionth: whatever is read is rounded up to one, and kubequota holds no finer ones",
}

// plumbing lists the tests that have nothing to ask: they are about Go code around the rules, and run as they are. Any other test that
// asks nothing is a failure, as is a line here that fits no test any more, or one that asks.
var plumbing = map[string]string{
	"k8s.io/apiserver/pkg/quota/v1 TestContains":                                  "a helper for Go's slices",
	"k8s.io/apiserver/pkg/quota/v1 TestContainsPrefix":                            "a helper for Go's slices",
	"k8s.io/apiserver/pkg/quota/v1/generic TestCachedHasSynced":                   "when an informer has synced",
	"k8s.io/apiserver/pkg/quota/v1/generic TestProtectedLister":                   "a lister that waits for its informer",
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota TestExcludedOperations":  "what the plugin does not evaluate at all",
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota TestInitializationOrder": "how the plugin is put together",
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota TestLRUCacheLookup":      "the plugin's cache of quotas",
	"k8s.io/apiserver/pkg/admission/plugin/resourcequota TestGetQuotas":           "the plugin's cache of quotas",
	"k8s.io/apimachinery/pkg/api/resource TestInt64AmountAsInt64":                 "how Go holds a value",
	"k8s.io/apimachinery/pkg/api/resource TestInt64AmountAdd":                     "how Go holds a value",
	"k8s.io/apimachinery/pkg/api/resource TestInt64AmountMul":                     "how Go holds a value",
	"k8s.io/apimachinery/pkg/api/resource TestInt64AmountAsScaledInt64":           "how Go holds a value",
	"k8s.io/apimachinery/pkg/api/resource TestInt64AsCanonicalString":             "how Go holds a value",
	"k8s.io/apimachinery/pkg/api/resource TestAmountSign":                         "how Go holds a value",
	"k8s.io/apimachinery/pkg/api/resource TestDetectOverflowAdd":                  "arithmetic of Go's int64",
	"k8s.io/apimachinery/pkg/api/resource TestDetectOverflowMultiply":             "arithmetic of Go's int64",
	"k8s.io/apimachinery/pkg/api/resource TestDetectOverflowScale":                "arithmetic of Go's int64",
	"k8s.io/apimachinery/pkg/api/resource TestRemoveInt64Factors":                 "arithmetic of Go's int64",
	"k8s.io/apimachinery/pkg/api/resource TestNegativeScaleInt64":                 "arithmetic of Go's int64",
	"k8s.io/apimachinery/pkg/api/resource TestScaledValueInternal":                "arithmetic of Go's big.Int",
	"k8s.io/apimachinery/pkg/api/resource TestDec":                                "a helper of the tests",
	"k8s.io/apimachinery/pkg/api/resource TestBigDec":                             "a helper of the tests",
	"k8s.io/apimachinery/pkg/api/resource TestParseQuantityString":                "how Go's parser cuts a text up",
	"k8s.io/apimachinery/pkg/api/resource TestQuantityPtrEqual/both_nil":          "Go's nil",
	"k8s.io/apimachinery/pkg/api/resource TestQuantityPtrEqual/first_nil":         "Go's nil",
	"k8s.io/apimachinery/pkg/api/resource TestQuantityPtrEqual/second_nil":        "Go's nil",
	"k8s.io/apimachinery/pkg/api/resource TestQuantityAsApproximateFloat64":       "a number that need not be the nearest; kubequota has the nearest alone (TestQuantityAsFloat64Slow)",
}

type upstreamUnitsSuite struct {
	program  func(ctx context.Context, run *Run) (path string, err error)
	only     *string
	contrast *bool

	// What build makes.
	answers  string
	packages []units.Package
}

func (s *upstreamUnitsSuite) build(ctx context.Context, run *Run) (err error) {
	if s.answers, err = s.program(ctx, run); err != nil {
		return err
	}
	s.packages, err = units.Build(ctx, filepath.Join(run.Root, "conformance"), run.Log)
	return err
}

func (s *upstreamUnitsSuite) judge(ctx context.Context, run *Run) error {
	only, err := regexp.Compile(*s.only)
	if err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	var cases []units.Case
	for _, p := range s.packages {
		run.Log("%s", p.Path)
		log, err := os.Create(filepath.Join(run.Folder, p.LogName()))
		if err != nil {
			return err
		}
		defer log.Close()
		ran, err := p.Run(ctx, units.Options{Answers: s.answers, Spoil: *s.contrast, Only: only, Log: log})
		if err != nil {
			return err
		}
		cases = append(cases, ran...)
	}
	lists := unitLists{notJudged: notJudged, plumbing: plumbing}
	lists.judge(cases, &run.Tally)
	if *s.only == "" {
		lists.judgeThemselves(cases, &run.Tally)
	}
	questions, asking, unmoved := 0, 0, []string{}
	for _, c := range cases {
		questions += c.Asked
		if c.Asked > 0 {
			asking++
			if c.Passed {
				unmoved = append(unmoved, c.Name)
			}
		}
	}
	run.Log("%d questions asked, by %d of %d cases", questions, asking, len(cases))
	if *s.contrast {
		run.Log("%d of these pass with wrong answers, too: %s", len(unmoved), strings.Join(unmoved, "; "))
	}
	return nil
}

// unitLists are the lists of tests that are not judged like the others, by name, with the reason.
type unitLists struct{ notJudged, plumbing map[string]string }

// reason finds a case, or the test it is part of, in a list.
func reason(list map[string]string, name string) (string, bool) {
	for test, reason := range list {
		if name == test || strings.HasPrefix(name, test+"/") {
			return reason, true
		}
	}
	return "", false
}

// judge tells what became of the cases.
func (l unitLists) judge(cases []units.Case, tally *Tally) {
	for _, c := range cases {
		why, skipped := reason(l.notJudged, c.Name)
		_, mayNotAsk := reason(l.plumbing, c.Name)
		switch {
		case skipped:
			tally.Skip("%s (%s)", c.Name, why)
		case !c.Passed:
			tally.Fail("%s\n%s", c.Name, c.Output)
		case c.Asked == 0 && !mayNotAsk:
			tally.Fail("%s: passed without asking kubequota anything", c.Name)
		case c.Asked > 0 && mayNotAsk:
			tally.Fail("%s: asks kubequota, and is listed as one that has nothing to ask", c.Name)
		default:
			tally.Pass()
		}
	}
}

// judgeThemselves fails for lines that fit no case any more.
func (l unitLists) judgeThemselves(cases []units.Case, tally *Tally) {
	for _, list := range []map[string]string{l.notJudged, l.plumbing} {
		for _, test := range sortedKeys(list) {
			fits := func(c units.Case) bool { return c.Name == test || strings.HasPrefix(c.Name, test+"/") }
			if !slices.ContainsFunc(cases, fits) {
				tally.Fail("%s: is listed as a special case, and there is no such test", test)
			}
		}
	}
}
