package suites

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestTallySpecsCountsOnlyWhatWasToRun(t *testing.T) {
	report := filepath.Join(t.TempDir(), "junit.xml")
	text := `<?xml version="1.0" encoding="UTF-8"?>
<testsuites><testsuite>
  <testcase name="[SynchronizedBeforeSuite]" status="passed"></testcase>
  <testcase name="[It] ResourceQuota passes" status="passed"></testcase>
  <testcase name="[It] ResourceQuota fails" status="failed"><failure message="timed out&#xA;and more" type="failed">long</failure></testcase>
  <testcase name="[It] ResourceQuota panics" status="panicked"><error message="nil" type="panicked"></error></testcase>
  <testcase name="[It] ResourceQuota skips itself" status="skipped"><skipped message="skipped - no node"></skipped></testcase>
  <testcase name="[It] Garbage collector was filtered out" status="skipped"><skipped message="skipped"></skipped></testcase>
  <testcase name="[ReportAfterSuite]" status="failed"><failure message="disk full" type="failed"></failure></testcase>
</testsuite></testsuites>`
	if err := os.WriteFile(report, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var tally Tally
	if err := tallySpecs(report, regexp.MustCompile("ResourceQuota"), &tally); err != nil {
		t.Fatal(err)
	}
	if got, want := tally.String(), "1 passed, 3 failed, 1 skipped"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestARunThatJudgedNothingDidNotPass(t *testing.T) {
	if (&Tally{}).OK() || (&Tally{Skipped: 3}).OK() || (&Tally{Passed: 3, Failed: 1}).OK() || !(&Tally{Passed: 1, Skipped: 1}).OK() {
		t.Error("a run passes when something passed and nothing failed")
	}
}
