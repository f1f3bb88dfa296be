package main

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestMetersOf(t *testing.T) {
	const text = `# HELP apiserver_request_total is told elsewhere
apiserver_admission_controller_admission_duration_seconds_sum{name="ResourceQuota",operation="CREATE",rejected="false",type="validate"} 1.5
apiserver_admission_controller_admission_duration_seconds_count{name="ResourceQuota",operation="CREATE",rejected="false",type="validate"} 10
apiserver_admission_controller_admission_duration_seconds_sum{name="ResourceQuota",operation="UPDATE",rejected="false",type="validate"} 100
apiserver_admission_controller_admission_duration_seconds_sum{name="ValidatingAdmissionWebhook",operation="CREATE",rejected="false",type="validate"} 100
apiserver_admission_webhook_admission_duration_seconds_sum{name="charges.kubequota.dev",operation="CREATE",rejected="false",type="validating"} 0.5
apiserver_admission_webhook_admission_duration_seconds_count{name="charges.kubequota.dev",operation="CREATE",rejected="false",type="validating"} 2
apiserver_request_total{code="200",resource="resourcequotas",subresource="status",verb="PATCH"} 7
apiserver_request_total{code="409",resource="resourcequotas",subresource="status",verb="PATCH"} 3
apiserver_request_total{code="409",resource="pods",subresource="",verb="POST"} 50
kubequota_admission_duration_seconds_sum 0.25
kubequota_admission_duration_seconds_count 5
kubequota_admission_batch_size_sum 5.0
kubequota_admission_batch_size_count 2
`
	var m meters
	if err := m.read(&http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(text))}, nil); err != nil {
		t.Fatal(err)
	}
	if m.admission != (timed{12, 2}) || m.reviews != (timed{5, 0.25}) || m.writes != 10 || m.conflicts != 3 || m.batches != 2 {
		t.Errorf("%+v", m)
	}
}

// samples are rounds with so many creates a second, each of which took so long.
func samples(wait time.Duration, perSecond ...int) (all []sample) {
	for _, n := range perSecond {
		s := sample{took: time.Second, failed: map[string]int{}}
		for range n {
			s.waits = append(s.waits, wait)
		}
		all = append(all, s)
	}
	return all
}

func TestTargets(t *testing.T) {
	cases := []struct {
		cell        cell
		plugin, own []sample
		met         *bool
		ratio       ratio
	}{
		{cell{1, 1}, samples(2*time.Millisecond, 10), samples(5*time.Millisecond, 5), new(true), ratio{0.5, 0.5, 0.5}},
		{cell{1, 32}, samples(2*time.Millisecond, 10), samples(6*time.Millisecond, 20), new(false), ratio{2, 2, 2}},
		{cell{8, 1}, samples(time.Millisecond, 10, 20, 30), samples(time.Millisecond, 20, 20, 15), new(true), ratio{1, 0.5, 2}},
		{cell{32, 1}, samples(time.Millisecond, 20), samples(time.Millisecond, 19), new(false), ratio{0.95, 0.95, 0.95}},
		{cell{32, 32}, samples(time.Millisecond, 20), samples(time.Millisecond, 5), nil, ratio{0.25, 0.25, 0.25}},
	}
	for _, c := range cases {
		r := newReport(len(c.own), 1, []cell{c.cell}, map[cell]map[string][]sample{c.cell: {pluginSide: c.plugin, kubequotaSide: c.own}}).Cells[0]
		if r.Ratio == nil || *r.Ratio != c.ratio {
			t.Errorf("%v: ratio %v, not %v", c.cell, r.Ratio, c.ratio)
		}
		if (r.Target == nil) != (c.met == nil) || r.Target != nil && r.Target.Met != *c.met {
			t.Errorf("%v: target %v", c.cell, r.Target)
		}
	}
	if alone := newReport(1, 1, []cell{{1, 1}}, map[cell]map[string][]sample{{1, 1}: {pluginSide: samples(1, 1)}}); alone.Cells[0].Ratio != nil || alone.Cells[0].Target != nil {
		t.Errorf("a side alone is compared: %+v", alone.Cells[0])
	}
}

func TestParseCells(t *testing.T) {
	if cells, err := parseCells("32x1,1x4"); err != nil || !slices.Equal(cells, []cell{{32, 1}, {1, 4}}) {
		t.Errorf("%v, %v", cells, err)
	}
	for _, wrong := range []string{"", "8", "0x1", "8x-1", "8x1,", "x", "8x1x1"} {
		if cells, err := parseCells(wrong); err == nil {
			t.Errorf("%q is taken for %v", wrong, cells)
		}
	}
}

func TestNames(t *testing.T) {
	made := map[string]bool{}
	for range 100 {
		name := nextName()
		if made[name] {
			t.Errorf("%s comes twice", name)
		}
		made[name] = true
	}
	if names := (cell{8, 32}).names(); len(names) != 32 || names[0] == (cell{8, 1}).names()[0] {
		t.Errorf("%v", names)
	}
}
