package units

import (
	"fmt"
	"strings"
	"testing"
)

func TestReadEvents(t *testing.T) {
	events := func(lines ...string) []byte { return []byte(strings.Join(lines, "\n")) }
	output := func(test, text string) string {
		return fmt.Sprintf(`{"Action":"output","Test":%q,"Output":%q}`, test, text)
	}
	ended := func(action, test string) string { return fmt.Sprintf(`{"Action":%q,"Test":%q}`, action, test) }
	const asked = "kubequota is asked: list\n"
	table := []struct {
		name   string
		events []byte
		want   []Case
	}{
		{
			"a test by itself",
			events(output("TestA", "=== RUN   TestA\n"), output("TestA", asked), output("TestA", asked), output("TestA", "text\n"), ended("pass", "TestA"), ended("pass", "")),
			[]Case{{Name: "p TestA", Passed: true, Asked: 2, Output: "text\n"}},
		},
		{
			"subtests are the cases",
			events(output("TestA/x", asked), ended("pass", "TestA/x"), output("TestA/y", "wrong\n"), ended("fail", "TestA/y"), ended("fail", "TestA"), ended("fail", "")),
			[]Case{{Name: "p TestA/x", Passed: true, Asked: 1}, {Name: "p TestA/y", Output: "wrong\n"}},
		},
		{
			"a test that fails by itself beside its subtests",
			events(ended("pass", "TestA/x"), output("TestA", "wrong\n"), ended("fail", "TestA")),
			[]Case{{Name: "p TestA", Output: "wrong\n"}, {Name: "p TestA/x", Passed: true}},
		},
		{
			"a process that dies",
			events(output("TestA", asked), output("", "panic: no answer\n"), ended("fail", "")),
			[]Case{{Name: "p TestA", Asked: 1, Output: "panic: no answer\n"}},
		},
		{"a test that skips itself has not passed", events(ended("skip", "TestA")), []Case{{Name: "p TestA"}}},
		{"a package that passes without the test", events(ended("pass", "")), []Case{{Name: "p TestA"}}},
	}
	for _, test := range table {
		got, err := readEvents("p", "TestA", test.events)
		if err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", test.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", test.name, got, test.want)
		}
	}
	if _, err := readEvents("p", "TestA", []byte("no JSON")); err == nil {
		t.Error("what is no JSON must be an error")
	}
}
