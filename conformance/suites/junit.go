package suites

import (
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"strings"
)

type junitReport struct {
	Cases []junitCase `xml:"testsuite>testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Failure *junitMessage `xml:"failure"`
	Error   *junitMessage `xml:"error"`
	Skipped *junitMessage `xml:"skipped"`
}

type junitMessage struct {
	Message string `xml:"message,attr"`
}

// tallySpecs counts what ginkgo's report says of each spec. The report also lists every spec that the focus left out, as skipped: those
// do not count. A spec that was to run and was skipped does.
func tallySpecs(path string, focus *regexp.Regexp, tally *Tally) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("no report of the specs: %w", err)
	}
	var report junitReport
	if err := xml.Unmarshal(text, &report); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	for _, c := range report.Cases {
		name, isSpec := strings.CutPrefix(c.Name, "[It] ")
		switch {
		case c.Failure != nil:
			tally.Fail("%s\n    %s", c.Name, firstLine(c.Failure.Message))
		case c.Error != nil:
			tally.Fail("%s\n    %s", c.Name, firstLine(c.Error.Message))
		case !isSpec: // what runs before and after the suite is no spec, but may fail as above
		case c.Skipped == nil:
			tally.Pass()
		case focus.MatchString(name):
			tally.Skip("%s (%s)", name, firstLine(c.Skipped.Message))
		}
	}
	return nil
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}
