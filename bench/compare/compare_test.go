package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantities(t *testing.T) {
	for text, wanted := range map[string]int64{
		"0": 0, "12": 12_000, "250m": 250, "3k": 3_000_000, "1Ki": 1_024_000, "448Mi": 448 << 20 * 1000, "2Gi": 2 << 30 * 1000,
	} {
		if got, err := milli(text); err != nil || got != wanted {
			t.Errorf("%s is %d (%v), not %d", text, got, err, wanted)
		}
	}
	for _, text := range []string{"", "m", "1e3", "1.5", "many"} {
		if got, err := milli(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// What is expected is what the pods ask for, not written down twice without being compared.
func TestExpectationIsWhatPodsAskFor(t *testing.T) {
	var made struct {
		Spec struct {
			Containers []struct{ Resources map[string]map[string]string }
		}
	}
	if err := json.Unmarshal(pod("p", "n", blue), &made); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, container := range made.Spec.Containers {
		for list, resources := range container.Resources {
			for name, text := range resources {
				amount, err := milli(text)
				if err != nil {
					t.Fatal(err)
				}
				got[list+"."+name] += amount
			}
		}
	}
	compute := expected(0, 1, 0)["compute"]
	for name, wanted := range compute {
		if strings.Contains(name, ".") && got[name] != wanted {
			t.Errorf("%s of a pod is %d, not %d", name, got[name], wanted)
		}
	}
	for name, hard := range quotas() {
		for limited := range hard["spec"].(object)["hard"].(object) {
			if _, found := expected(1, 1, 1)[name][limited]; !found {
				t.Errorf("nothing is expected of %s in %s", limited, name)
			}
		}
	}
}

func TestLatencies(t *testing.T) {
	at := func(ms int) time.Time { return time.UnixMilli(int64(ms)) }
	k := key{"team", "compute"}
	o := newObserver()
	used := func(reds string, ms int) { o.observe(k, map[string]string{red.used(): reds}, false, at(ms)) }
	used("5", 0)
	o.expected = map[key]map[string]int64{k: {red.used(): 2000}}
	o.count(red)
	used("5", 5)  // a create's: shows none
	used("3", 30) // two at once
	used("2", 31)
	// Answers come in any order; the third was shown before it was answered.
	got, unseen := o.latencies(map[string][]time.Time{"team": {at(20), at(10), at(40)}})
	wanted := []time.Duration{0, 10 * time.Millisecond, 20 * time.Millisecond}
	if !slices.Equal(got, wanted) || unseen != 0 {
		t.Errorf("latencies %v, %d unseen; wanted %v", got, unseen, wanted)
	}
	if _, unseen := o.latencies(map[string][]time.Time{"team": {at(1), at(2), at(3), at(4)}}); unseen != 1 {
		t.Errorf("%d unseen, not the fourth", unseen)
	}
}

func TestWhatIsWrong(t *testing.T) {
	k := key{"team", "compute"}
	for _, c := range []struct {
		used  map[string]string
		wrong int
	}{
		{nil, 1}, {map[string]string{"pods": "2"}, 1}, {map[string]string{"pods": "odd"}, 1}, {map[string]string{"pods": "3"}, 0},
		{map[string]string{"pods": "3000m", "secrets": "7"}, 0},
	} {
		o := newObserver()
		o.expect(map[key]map[string]int64{k: {"pods": 3000}})
		o.observe(k, c.used, false, time.Now())
		if got := o.wrongNow(); got != c.wrong {
			t.Errorf("%v: %d wrong, not %d", c.used, got, c.wrong)
		}
	}
}

func TestAuditCountsAControllersWrites(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	event := func(verb, user string, code string) string {
		return `{"verb":"` + verb + `","user":{"username":"` + user + `"},"responseStatus":{"code":` + code + "}}\n"
	}
	first := event("update", "admin", "200")
	lines := first + event("update", "system:apiserver", "200") + event("patch", "kubequota", "200") + event("patch", "kubequota", "409") +
		event("get", "kubequota", "200") + `{"verb":"upd`
	if err := os.WriteFile(path, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		offset int
		wanted writes
	}{{0, writes{2, 1}}, {len(first), writes{1, 1}}} {
		got, end, err := readAudit(path, int64(c.offset))
		if err != nil || got != c.wanted || end != int64(strings.LastIndex(lines, "\n")+1) {
			t.Errorf("from %d: %+v up to %d (%v), not %+v", c.offset, got, end, err, c.wanted)
		}
	}
}

func TestShapesAreChosen(t *testing.T) {
	for _, c := range []struct {
		names  string
		wanted []string
	}{
		{"", []string{"20x200", few, many, "1000x5", "burst", "idle"}}, {"burst,20x200", []string{"burst", "20x200"}}, {"3x4", []string{"3x4"}},
		{"nothing", nil}, {"0x4", nil}, {"3x4x5", nil},
	} {
		chosen, err := chooseShapes(shapes(20), c.names)
		var names []string
		for _, s := range chosen {
			names = append(names, s.name)
		}
		if !slices.Equal(names, c.wanted) || (err == nil) != (c.wanted != nil) {
			t.Errorf("%q chooses %v (%v), not %v", c.names, names, err, c.wanted)
		}
	}
}

func TestFigures(t *testing.T) {
	rounds := []measured{{peakKiB: 9}, {peakKiB: 1}, {peakKiB: 2}, {peakKiB: 3}}
	if got := middle(func(m measured) float64 { return float64(m.peakKiB) })(rounds); got != 2.5 {
		t.Errorf("the median is %v", got)
	}
	for value, wanted := range map[float64]string{0: "0", 4: "4", 0.01234: "0.012", 0.0001234: "0.00012", 1.234: "1.23", 12.34: "12.3", 1234.5: "1234"} {
		if got := text(value); got != wanted {
			t.Errorf("%v is written %s, not %s", value, got, wanted)
		}
	}
	if f := newFigure(1, 0); f.Ratio != nil {
		t.Errorf("something is %v times nothing", *f.Ratio)
	}
	if f := newFigure(1, 3); math.Abs(*f.Ratio-1.0/3) > 1e-4 {
		t.Errorf("one is %v of three", *f.Ratio)
	}
}

func TestReport(t *testing.T) {
	rounds := func(cpu time.Duration) []measured {
		return []measured{{cpu: cpu, events: 10, latencies: []time.Duration{time.Millisecond}}}
	}
	r := report{Shapes: map[string]map[string]*figure{}}
	for _, s := range shapes(20)[1:3] {
		cpu := time.Second
		if s.name == many {
			cpu = 3 * time.Second
		}
		r.add(s, s.name, map[contender][]measured{kubequota: rounds(time.Second), upstream: rounds(cpu)})
	}
	var out bytes.Buffer
	if err := r.printJSON(&out); err != nil {
		t.Fatal(err)
	}
	var read struct {
		Shapes map[string]map[string]struct{ Kubequota, Upstream, Ratio float64 }
		Growth struct{ Kubequota, Upstream float64 } `json:"cpu_per_event_5000_to_50"`
	}
	if err := json.Unmarshal(out.Bytes(), &read); err != nil {
		t.Fatal(err)
	}
	if f := read.Shapes[many]["cpu_s"]; f.Kubequota != 1 || f.Upstream != 3 || f.Ratio != 0.3333 {
		t.Errorf("cpu_s is %+v", f)
	}
	if g := read.Growth; g.Kubequota != 1 || g.Upstream != 3 {
		t.Errorf("growth is %+v", g)
	}
	out.Reset()
	if err := r.printTables(&out); err != nil {
		t.Fatal(err)
	}
	for _, wanted := range []string{"in times that at 50: kubequota 1 (target 1.30), upstream 3", "0.050, missed"} {
		if !strings.Contains(out.String(), wanted) {
			t.Errorf("%q is not told:\n%s", wanted, &out)
		}
	}
	if err := r.wrong(); err != nil {
		t.Error(err)
	}
	r.add(shape{name: "3x4"}, "", map[contender][]measured{kubequota: {{wrong: 1}}, upstream: {{}}})
	if r.wrong() == nil {
		t.Error("a quota that is wrong is not told")
	}
}
