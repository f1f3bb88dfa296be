package suites

import (
	"fmt"
	"testing"
	"time"
)

func TestScenariosAreChosen(t *testing.T) {
	names := map[string]bool{}
	slow := 0
	for _, s := range scenarios {
		if names[s.name] {
			t.Errorf("two scenarios are called %s", s.name)
		}
		names[s.name] = true
		if s.slow {
			slow++
		}
	}
	for _, test := range []struct {
		only  string
		quick bool
		count int
	}{
		{"", false, len(scenarios)},
		{"", true, len(scenarios) - slow},
		{"none,bursts", false, 2},
		{"none,burst", false, -1},
		{"clock", true, -1},
	} {
		controller, seed := "kubequota", uint64(1)
		chosen, err := (&faultsFlags{controller: &controller, only: &test.only, quick: &test.quick, seed: &seed}).selected()
		if test.count < 0 && err == nil || test.count >= 0 && (err != nil || len(chosen) != test.count) {
			t.Errorf("%+v: %d chosen, %v", test, len(chosen), err)
		}
	}
	if 3*slow < len(scenarios)-2 || 3*slow > len(scenarios)+2 {
		t.Errorf("--quick leaves out %d of %d scenarios: a third is meant", slow, len(scenarios))
	}
}

func TestAShiftedClockShowsInTheLog(t *testing.T) {
	log := func(off time.Duration) string {
		return fmt.Sprintf("first line\n%s  INFO last line\n", time.Now().Add(off).UTC().Format(time.RFC3339Nano))
	}
	for _, test := range []struct {
		log     string
		offset  time.Duration
		shifted bool
	}{
		{log(5 * time.Minute), 5 * time.Minute, true},
		{log(-5 * time.Minute), -5 * time.Minute, true},
		{log(0), 5 * time.Minute, false},
		{log(5 * time.Minute), -5 * time.Minute, false},
		{"no time\n", 0, false},
	} {
		if err := clockIsOff(test.log, test.offset); (err == nil) != test.shifted {
			t.Errorf("%q, %s: %v", test.log, test.offset, err)
		}
	}
}
