package replay

import (
	"net/http"
	"testing"
)

type counter struct{ passed, failed, skipped int }

func (c *counter) Pass()               { c.passed++ }
func (c *counter) Skip(string, ...any) { c.skipped++ }
func (c *counter) Fail(string, ...any) { c.failed++ }

func TestScriptAndListAreWellFormed(t *testing.T) {
	script, err := Script()
	if err != nil {
		t.Fatal(err)
	}
	differences, err := Differences()
	if err != nil {
		t.Fatal(err)
	}
	if len(script) < 150 || len(differences)*10 > len(script) {
		t.Errorf("%d cases, %d of them listed as different: at least 150 and at most a tenth are wanted", len(script), len(differences))
	}
}

func TestJudgement(t *testing.T) {
	body := func(text string) map[string]any { return map[string]any{"message": text, "code": 400.0} }
	same := compare("", body("a"), body("a"))
	different := compare("", body("a"), body("b"))
	listed := &Difference{Fields: []string{"message"}}
	for _, test := range []struct {
		name     string
		findings []finding
		listed   *Difference
		want     counter
	}{
		{"the same", same, nil, counter{passed: 1}},
		{"different", different, nil, counter{failed: 1}},
		{"meant", different, listed, counter{skipped: 1}},
		{"meant, whatever it is", different, &Difference{}, counter{skipped: 1}},
		{"meant and the same", same, listed, counter{failed: 1}},
		{"another field is meant", different, &Difference{Fields: []string{"mess"}}, counter{failed: 1}},
	} {
		got := counter{}
		judge(Step{Case: test.name}, test.findings, nil, test.listed, &got)
		if got != test.want {
			t.Errorf("%s: %+v, not %+v", test.name, got, test.want)
		}
	}
}

func TestAnswersAreComparedByKeptNames(t *testing.T) {
	answer := func(uid, version string) Answer {
		return Answer{Code: 200, Header: http.Header{}, Body: map[string]any{"metadata": map[string]any{"uid": uid, "resourceVersion": version, "managedFields": version}}}
	}
	const one, two = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
	real := &Player{kept: map[string]string{"podUid": one, "podVersion": "7"}}
	embedded := &Player{kept: map[string]string{"podUid": two, "podVersion": "90"}}
	if found := compare("", real.normal(answer(one, "7")), embedded.normal(answer(two, "90"))); len(found) != 0 {
		t.Errorf("the same object differs: %v", found)
	}
	if found := compare("", real.normal(answer(one, "7")), embedded.normal(answer(one, "91"))); len(found) != 2 {
		t.Errorf("another uid and version do not show: %v", found)
	}
}

func TestSharedItemsAreCompared(t *testing.T) {
	item := func(name string, size float64) any { return map[string]any{"name": name, "size": size} }
	real := map[string]any{"items": []any{item("b", 1), item("a", 1), item("c", 1)}}
	embedded := map[string]any{"items": []any{item("a", 2), item("b", 1)}}
	if err := share("items:name", real, embedded); err != nil {
		t.Fatal(err)
	}
	if found := compare("", real, embedded); len(found) != 1 || found[0].path != "items[0].size" {
		t.Errorf("%v", found)
	}
}
