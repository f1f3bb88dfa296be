package witness

import (
	"fmt"
	"testing"
	"time"

	"kubequota.dev/conformance/cluster"
)

// stored is a change as etcd tells it, and when it was seen.
type stored struct {
	after time.Duration
	key   string
	value string // empty: deleted
}

func pod(name, metadata string) stored {
	return stored{key: "pods/a/" + name, value: fmt.Sprintf(
		`{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"a","name":%q%s},"spec":{"containers":[{"name":"c"}]}}`, name, metadata)}
}

func quotaOf(hard, used, spec string) stored {
	return stored{key: "resourcequotas/a/q", value: fmt.Sprintf(
		`{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"namespace":"a","name":"q","uid":"u"},"spec":{"hard":{"pods":%q}%s},"status":{"hard":{"pods":%q},"used":{"pods":%q}}}`,
		hard, spec, hard, used)}
}

func (s stored) at(after time.Duration) stored { s.after = after; return s }

func gone(key string) stored { return stored{key: key} }

const scoped = `,"scopes":["BestEffort"]`

func told(changes []stored) *history {
	h, begin := newHistory(), time.Unix(1_800_000_000, 0)
	for i, change := range changes {
		h.apply(cluster.Change{
			Entry:   cluster.Entry{Key: []byte(prefix + change.key), Value: []byte(change.value), Revision: int64(i)},
			Deleted: change.value == "",
		}, begin.Add(change.after))
	}
	return h
}

func TestHistory(t *testing.T) {
	const later = time.Minute
	for _, test := range []struct {
		name            string
		changes         []stored
		exceeded, under string
	}{
		{"raised, then stored, up to the limit", []stored{quotaOf("1", "0", ""), quotaOf("1", "1", "").at(later), pod("p", "").at(later)}, "", ""},
		{"beyond the limit", []stored{quotaOf("1", "1", ""), pod("p", ""), pod("q", "").at(later)}, "1", "1"},
		{"below what is stored", []stored{quotaOf("5", "2", ""), pod("p", ""), pod("q", ""), quotaOf("5", "1", "").at(later)}, "", "1"},
		{"the worst time counts", []stored{quotaOf("1", "1", ""), pod("p", ""), pod("q", "").at(later), pod("r", "").at(later), gone("pods/a/r").at(later)}, "2", "2"},
		{"a new quota need not cover what came with it", []stored{quotaOf("2", "0", ""), pod("p", "").at(time.Second)}, "", ""},
		{"a limit that was just lowered", []stored{quotaOf("2", "2", ""), pod("p", ""), quotaOf("1", "2", "").at(later), pod("q", "").at(later + time.Second)}, "", ""},
		{"a limit lowered long ago", []stored{quotaOf("2", "2", ""), pod("p", ""), quotaOf("1", "2", "").at(later), pod("q", "").at(2 * later)}, "1", ""},
		{"a change of what is there is no breach", []stored{pod("p", ""), pod("q", ""), quotaOf("1", "2", ""), pod("p", `,"labels":{"a":"b"}`).at(later)}, "", ""},
		{"a pod whose grace is over", []stored{quotaOf("1", "1", ""), pod("p", `,"deletionTimestamp":"2020-01-01T00:00:00Z","deletionGracePeriodSeconds":1`), pod("q", "").at(later)}, "", ""},
		{"other scopes", []stored{quotaOf("1", "0", scoped), pod("p", "").at(later), pod("q", "").at(later)}, "1", "2"},
		{"what can't be read counts nothing", []stored{quotaOf("1", "0", ""), {after: later, key: "pods/a/p", value: `{"kind":"Pod","apiVersion":"v1","spec":1}`}}, "", ""},
		{"another namespace", []stored{quotaOf("1", "0", ""), {after: later, key: "pods/b/p", value: pod("p", "").value}}, "", ""},
		{"no limit is on yet", []stored{{key: "resourcequotas/a/q", value: `{"kind":"ResourceQuota","apiVersion":"v1","metadata":{"namespace":"a","name":"q"},"spec":{"hard":{"pods":"0"}}}`}, pod("p", "").at(later)}, "", ""},
	} {
		account := told(test.changes).namespaces["a"].quotas["q"]
		by := func(of *Breach) string {
			if of == nil {
				return ""
			}
			return of.By
		}
		if exceeded, under := by(account.exceeded["pods"]), by(account.under["pods"]); exceeded != test.exceeded || under != test.under {
			t.Errorf("%s: exceeded by %q, under by %q; expected %q and %q", test.name, exceeded, under, test.exceeded, test.under)
		}
	}
}

func TestJudge(t *testing.T) {
	var entries []cluster.Entry
	for _, change := range []stored{pod("p", ""), pod("q", ""), quotaOf("3", "1", "")} {
		entries = append(entries, cluster.Entry{Key: []byte(prefix + change.key), Value: []byte(change.value)})
	}
	names, off, err := judge(entries, []string{"a"})
	if err != nil || names != 1 || len(off) != 1 || off[0] != (Figure{Quota: "a/q", Name: "pods", Says: "1", Should: "2", Less: true}) {
		t.Errorf("%d names, %v, %v", names, off, err)
	}
	if names, off, err := judge(entries, []string{"b"}); names != 0 || off != nil || err != nil {
		t.Errorf("of another namespace: %d names, %v, %v", names, off, err)
	}
}

func TestPlaces(t *testing.T) {
	for key, expected := range map[string]string{
		"/registry/pods/a/p":                          "pods a/p",
		"/registry/services/specs/a/s":                "services a/s",
		"/registry/services/endpoints/a/s":            "",
		"/registry/faults.example.com/widgets/a/w":    "widgets a/w",
		"/registry/namespaces/a":                      "",
		"/other/pods/a/p":                             "",
		"/registry/resourcequotas/a/q":                "resourcequotas a/q",
		"/registry/podsecurity/a/p":                   "",
		"/registry/persistentvolumeclaims/a/claim":    "persistentvolumeclaims a/claim",
		"/registry/kubequota-witness":                 "",
		"/registry/faults.example.com/elsewhere/a/w":  "",
		"/registry/apiextensions.k8s.io/pods/a/x":     "",
		"/registry/configmaps/kube-system/more/parts": "",
	} {
		found := ""
		if at := placeOf([]byte(key)); at != nil {
			found = at.String()
		}
		if found != expected {
			t.Errorf("%s is %q, expected %q", key, found, expected)
		}
	}
}
