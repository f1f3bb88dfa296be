package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kubequota.dev/bench/measure"
)

// report is what a run found. Its JSON is read by other programs.
type report struct {
	Conditions conditions                    `json:"conditions"`
	Shapes     map[string]map[string]*figure `json:"shapes"`
	// Growth is the processor time of an event where 5,000 pods share a namespace, in times that where 50 do.
	Growth *figure `json:"cpu_per_event_5000_to_50,omitempty"`

	titles []string // of shapes, in order
	order  []string
}

type conditions struct {
	Kubernetes     string  `json:"kubernetes"`
	Rounds         int     `json:"rounds"`
	Rate           int     `json:"deletes_per_s"`
	LengthSeconds  float64 `json:"load_s"`
	QPS            int     `json:"kube_api_qps"`
	Burst          int     `json:"kube_api_burst"`
	Workers        int     `json:"workers"`
	ConfigMaps     int     `json:"configmaps_in_1000x5"`
	PodBytes       int     `json:"pod_json_bytes"`
	ProcessorCount int     `json:"processors"`
}

// figure is one of both controllers, and kubequota's divided by upstream's.
type figure struct {
	Kubequota float64  `json:"kubequota"`
	Upstream  float64  `json:"upstream"`
	Ratio     *float64 `json:"ratio"` // null where upstream's is 0
	// Target is what the ratio shall not exceed.
	Target *float64 `json:"target,omitempty"`
}

// targets of ratios, by shape and figure.
var targets = map[string]map[string]float64{
	"20x200": {"cpu_s": 1.0 / 20, "latency_p99_ms": 1.0 / 5, "rss_mib": 1.0 / 10, "first_sync_ms": 1.0 / 3, "status_writes": 1},
	many:     {"latency_p99_ms": 1.0 / 20},
}

// growthTarget is what the growth of kubequota's processor time for an event shall not exceed.
const growthTarget = 1.3

func newFigure(ours, theirs float64) *figure {
	f := &figure{Kubequota: rounded(ours), Upstream: rounded(theirs)}
	if theirs != 0 {
		ratio := rounded(ours / theirs)
		f.Ratio = &ratio
	}
	return f
}

// rounded keeps four digits.
func rounded(value float64) float64 {
	if value == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(value))))
	return math.Round(value*scale) / scale
}

// row is how a figure is worked out of a controller's rounds.
type row struct {
	name, title string
	of          func(rounds []measured) float64
	// skip says that a shape has no such figure.
	skip func(s shape) bool
}

func never(shape) bool    { return false }
func isIdle(s shape) bool { return s.load == idle }

const perEvent = "cpu_us_per_event"

var rows = []row{
	{"first_sync_ms", "first sync, ms", middle(func(m measured) float64 { return milliseconds(m.firstSync) }), never},
	{"first_sync_cpu_s", "first sync, CPU s", middle(func(m measured) float64 { return m.firstSyncCPU.Seconds() }), never},
	{"first_sync_received_mib", "first sync, received, MiB", middle(func(m measured) float64 { return float64(m.firstSyncReceived) / (1 << 20) }), never},
	{"cpu_s", "load, CPU s", middle(func(m measured) float64 { return m.cpu.Seconds() }), never},
	{perEvent, "load, CPU us per event", middle(func(m measured) float64 { return float64(m.cpu.Microseconds()) / float64(m.events) }), isIdle},
	{"latency_p50_ms", "latency p50, ms", latency(0.5), isIdle},
	{"latency_p99_ms", "latency p99, ms", latency(0.99), isIdle},
	{"latency_max_ms", "latency max, ms", latency(1), isIdle},
	{"rss_mib", "peak resident memory, MiB", middle(func(m measured) float64 { return float64(m.peakKiB) / 1024 }), never},
	{"status_writes", "status writes", middle(func(m measured) float64 { return float64(m.writes.landed) }), never},
	{"status_writes_refused", "status writes refused", middle(func(m measured) float64 { return float64(m.writes.refused) }), never},
	{"received_mib", "received in all, MiB", middle(func(m measured) float64 { return float64(m.received) / (1 << 20) }), never},
	{"creates_refused", "creates refused for conflicts", sum(func(m measured) int { return m.conflicts }), func(s shape) bool { return s.load != steady }},
	{"unseen_deletes", "deletes never shown", sum(func(m measured) int { return m.unseen }), isIdle},
	{"wrong_at_rest", "wrong quotas at rest", sum(func(m measured) int { return m.wrong }), never},
}

// middle is the median of the rounds.
func middle(of func(measured) float64) func([]measured) float64 {
	return func(rounds []measured) float64 {
		values := make([]float64, len(rounds))
		for i, m := range rounds {
			values[i] = of(m)
		}
		return measure.Median(values)
	}
}

func sum(of func(measured) int) func([]measured) float64 {
	return func(rounds []measured) float64 {
		var all int
		for _, m := range rounds {
			all += of(m)
		}
		return float64(all)
	}
}

// latency is a quantile of the deletes of all rounds.
func latency(quantile float64) func([]measured) float64 {
	return func(rounds []measured) float64 {
		var all []time.Duration
		for _, m := range rounds {
			all = append(all, m.latencies...)
		}
		slices.Sort(all)
		return milliseconds(measure.Quantile(all, quantile))
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// add takes a shape's rounds in.
func (r *report) add(s shape, title string, of map[contender][]measured) {
	figures := map[string]*figure{}
	for _, row := range rows {
		if !row.skip(s) {
			f := newFigure(row.of(of[kubequota]), row.of(of[upstream]))
			if target, found := targets[s.name][row.name]; found {
				f.Target = &target
			}
			figures[row.name] = f
		}
	}
	r.Shapes[s.name] = figures
	r.order, r.titles = append(r.order, s.name), append(r.titles, title)
	if less, more := r.Shapes[few], r.Shapes[many]; less != nil && more != nil {
		r.Growth = newFigure(more[perEvent].Kubequota/less[perEvent].Kubequota, more[perEvent].Upstream/less[perEvent].Upstream)
	}
}

func (r *report) printJSON(out io.Writer) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r *report) printTables(out io.Writer) error {
	c := r.Conditions
	fmt.Fprintf(out, "%s, %d processors for everything; %d rounds of each; both with qps %d, burst %d, %d workers; pods of %d bytes of JSON\n",
		c.Kubernetes, c.ProcessorCount, c.Rounds, c.QPS, c.Burst, c.Workers, c.PodBytes)
	for i, name := range r.order {
		table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintf(table, "\n%s: %s\n\tkubequota\tupstream\tratio\ttarget\t\n", name, r.titles[i])
		for _, row := range rows {
			if f := r.Shapes[name][row.name]; f != nil {
				printRow(table, row.title, f)
			}
		}
		if err := table.Flush(); err != nil {
			return err
		}
	}
	if r.Growth != nil {
		fmt.Fprintf(out, "\nCPU per event at 5,000 pods in a namespace, in times that at 50: kubequota %s (target %s), upstream %s\n",
			text(r.Growth.Kubequota), against(r.Growth.Kubequota, growthTarget), text(r.Growth.Upstream))
	}
	return nil
}

func printRow(out io.Writer, title string, f *figure) {
	ratio, target := "-", ""
	if f.Ratio != nil {
		ratio = text(*f.Ratio)
		if f.Target != nil {
			target = against(*f.Ratio, *f.Target)
		}
	}
	fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t\n", title, text(f.Kubequota), text(f.Upstream), ratio, target)
}

// against is a target, and whether it is missed.
func against(value, target float64) string {
	if value > target {
		return text(target) + ", missed"
	}
	return text(target)
}

// wrong is the one figure that must hold: kubequota leaves no quota wrong.
func (r *report) wrong() error {
	for _, name := range r.order {
		if f := r.Shapes[name]["wrong_at_rest"]; f.Kubequota > 0 {
			return fmt.Errorf("%s: kubequota left %s quotas wrong", name, text(f.Kubequota))
		}
	}
	return nil
}

// text writes a number with as many digits as it is worth.
func text(value float64) string {
	digits := 0
	for limit := 100.0; digits < 3 && math.Abs(value) < limit && value != math.Trunc(value); limit /= 10 {
		digits++
	}
	written := fmt.Sprintf("%.*f", digits, value)
	if value != 0 && strings.Trim(written, "0.-") == "" {
		return fmt.Sprintf("%.2g", value)
	}
	return written
}
