package oracle

import (
	"encoding/json"
	"slices"
	"testing"
)

func tree(t *testing.T, text string) (tree any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &tree); err != nil {
		t.Fatal(err)
	}
	return tree
}

func TestApartNamesEachPlace(t *testing.T) {
	got := apart("", tree(t, `{"a":1,"b":[1,{"c":2}],"d":null,"e":[1]}`), tree(t, `{"a":1,"b":[1,{"c":3}],"e":[1,2],"f":true}`))
	want := []string{
		".b[1].c: Kubernetes 2, kubequota 3",
		".e: Kubernetes [1], kubequota [1,2]",
		".f: Kubernetes null, kubequota true",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

// Whatever is not needed for a difference goes, and what is needed stays.
func TestSmallerKeepsWhatMatters(t *testing.T) {
	question := tree(t, `{"a":{"x":1,"y":[1,2,3]},"b":[{"z":1},{"z":2}],"c":[[7,8]]}`)
	matters := func() bool {
		root, _ := question.(map[string]any)
		list, _ := root["b"].([]any)
		inner, _ := root["c"].([]any)
		return len(list) > 0 && len(inner) > 0 && slices.ContainsFunc(list, func(item any) bool {
			object, _ := item.(map[string]any)
			return object["z"] == 2.0
		})
	}
	smaller(question, matters)
	if got := string(raw(question)); got != `{"b":[{"z":2}],"c":[[]]}` {
		t.Errorf("got %s", got)
	}
}

// The same seed asks the same questions, so that a failure can be found again.
func TestTheSameSeedAsksTheSame(t *testing.T) {
	for name, ask := range map[string]func(*Random) any{
		"quantities": func(r *Random) any { return quantities.ask(r) },
		"lists":      func(r *Random) any { return lists.ask(r) },
		"objects":    func(r *Random) any { return objects.ask(r) },
		"namespaces": func(r *Random) any { return namespaces.ask(r) },
		"admission":  func(r *Random) any { return admissions.ask(r) },
	} {
		one, other, another := random(1, name), random(1, name), random(2, name)
		same := true
		for range 100 {
			question := string(raw(ask(one)))
			if question != string(raw(ask(other))) {
				t.Errorf("%s: the same seed asks something else", name)
				break
			}
			same = same && question == string(raw(ask(another)))
		}
		if same {
			t.Errorf("%s: another seed asks the same", name)
		}
	}
}

// A wrong answer is a failure, and one that differs as meant is not.
func TestDifferencesAreTakenByPredicateAlone(t *testing.T) {
	theirs := quantityAnswer{A: &quantityValue{Text: "55"}}
	explained := func(q quantityQuestion, ours quantityAnswer) string {
		for _, d := range quantities.meant {
			if d.explains(q, theirs, ours) {
				return d.id
			}
		}
		return ""
	}
	for _, c := range []struct{ question, ours, want string }{
		{"55000E", "55000E", quantityExa},
		{"55", "56", ""},
		{"-9223372036854775808", "56", quantityLeast},
	} {
		if got := explained(quantityQuestion{A: c.question}, quantityAnswer{A: &quantityValue{Text: c.ours}}); got != c.want {
			t.Errorf("%v: %q", c, got)
		}
	}
	if got := explained(quantityQuestion{A: "1e1001"}, quantityAnswer{}); got != quantityBounds {
		t.Errorf("%q", got)
	}
}
