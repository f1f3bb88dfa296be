package suites

import (
	"testing"

	"kubequota.dev/conformance/units"
)

func TestUnitCasesMustAskOrBeListed(t *testing.T) {
	lists := unitLists{
		notJudged: map[string]string{"p TestGate": "gate"},
		plumbing:  map[string]string{"p TestCache": "a cache"},
	}
	table := []struct {
		name string
		of   units.Case
		want string
	}{
		{"asks and passes", units.Case{Name: "p TestA", Passed: true, Asked: 1}, "1 passed, 0 failed, 0 skipped"},
		{"asks and fails", units.Case{Name: "p TestA", Asked: 1}, "0 passed, 1 failed, 0 skipped"},
		{"does not ask", units.Case{Name: "p TestA", Passed: true}, "0 passed, 1 failed, 0 skipped"},
		{"need not ask", units.Case{Name: "p TestCache/x", Passed: true}, "1 passed, 0 failed, 0 skipped"},
		{"need not ask, and fails", units.Case{Name: "p TestCache"}, "0 passed, 1 failed, 0 skipped"},
		{"should not ask", units.Case{Name: "p TestCache", Passed: true, Asked: 1}, "0 passed, 1 failed, 0 skipped"},
		{"is another test", units.Case{Name: "p TestCached", Passed: true}, "0 passed, 1 failed, 0 skipped"},
		{"is not judged", units.Case{Name: "p TestGate/off", Asked: 1}, "0 passed, 0 failed, 1 skipped"},
	}
	for _, test := range table {
		var tally Tally
		lists.judge([]units.Case{test.of}, &tally)
		if got := tally.String(); got != test.want {
			t.Errorf("%s: got %q, want %q", test.name, got, test.want)
		}
	}
	var tally Tally
	lists.judgeThemselves([]units.Case{{Name: "p TestGate/off"}}, &tally)
	if tally.Failed != 1 {
		t.Errorf("a line without a test must fail: %s", tally.String())
	}
}
