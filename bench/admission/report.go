package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"kubequota.dev/bench/measure"
)

// report is what a run prints. Times are in milliseconds.
type report struct {
	Benchmark  string `json:"benchmark"`
	Processors int    `json:"processors"`
	Rounds     int    `json:"rounds"`
	Seconds    int    `json:"secondsPerMeasurement"`
	Cells      []row  `json:"cells"`
}

type row struct {
	Clients    int                `json:"clients"`
	Namespaces int                `json:"namespaces"`
	Sides      map[string]figures `json:"sides"`
	// Ratio is kubequota's throughput by the plugin's: of medians, and the lowest and highest of a round. Nil where one side ran alone.
	Ratio *ratio `json:"throughputRatio,omitempty"`
	// Slower is by how much kubequota's median latency is higher.
	Slower *float64 `json:"p50DifferenceMs,omitempty"`
	Target *target  `json:"target,omitempty"`
}

type ratio struct {
	Median  float64 `json:"median"`
	Lowest  float64 `json:"lowest"`
	Highest float64 `json:"highest"`
}

type target struct {
	Text string `json:"text"`
	Met  bool   `json:"met"`
}

// figures are one side's: throughput is the median of its rounds, the rest is of all rounds together.
type figures struct {
	PerSecond float64        `json:"createsPerSecond"`
	P50       float64        `json:"p50Ms"`
	P99       float64        `json:"p99Ms"`
	Created   int            `json:"created"`
	Failed    map[string]int `json:"failed"`
	// Admission is how long kube-apiserver waited for quotas at a create; Review how long the webhook itself took, nil for the plugin.
	Admission float64  `json:"admissionMs"`
	Review    *float64 `json:"reviewMs,omitempty"`
	// Writes, Conflicts (of them) and Batches are by 100 creates.
	Writes    float64  `json:"statusWritesPer100"`
	Conflicts float64  `json:"conflictsPer100"`
	Batch     *float64 `json:"batchSize,omitempty"`
	// Busy is processor time by create.
	Busy map[string]float64 `json:"processorMsPerCreate"`
}

// Targets.
const (
	enoughThroughput = 1.0
	closeEnoughMs    = 3.0
)

func newReport(rounds, seconds int, cells []cell, measured map[cell]map[string][]sample) report {
	r := report{Benchmark: "admission", Processors: runtime.NumCPU(), Rounds: rounds, Seconds: seconds}
	for _, cell := range cells {
		row := row{Clients: cell.clients, Namespaces: cell.namespaces, Sides: map[string]figures{}}
		for name, samples := range measured[cell] {
			row.Sides[name] = figuresOf(samples, name == kubequotaSide)
		}
		row.compare(measured[cell][pluginSide], measured[cell][kubequotaSide])
		r.Cells = append(r.Cells, row)
	}
	return r
}

func (r *row) compare(plugin, own []sample) {
	if len(plugin) == 0 || len(own) == 0 {
		return
	}
	// Those of one round were measured one after the other.
	each := make([]float64, len(own))
	for i := range own {
		each[i] = own[i].throughput() / plugin[i].throughput()
	}
	r.Ratio = &ratio{Median: r.Sides[kubequotaSide].PerSecond / r.Sides[pluginSide].PerSecond, Lowest: slices.Min(each), Highest: slices.Max(each)}
	slower := r.Sides[kubequotaSide].P50 - r.Sides[pluginSide].P50
	r.Slower = &slower
	switch {
	case r.Clients == 1:
		r.Target = &target{fmt.Sprintf("p50 within %g ms", closeEnoughMs), slower <= closeEnoughMs}
	case r.Namespaces == 1:
		r.Target = &target{fmt.Sprintf("ratio >= %.1f", enoughThroughput), r.Ratio.Median >= enoughThroughput}
	}
}

func figuresOf(samples []sample, webhook bool) figures {
	f := figures{Failed: map[string]int{}, Busy: map[string]float64{}}
	var waits []time.Duration
	var each []float64
	var admission, reviews timed
	var writes, conflicts, batches float64
	for _, sample := range samples {
		waits = append(waits, sample.waits...)
		each = append(each, sample.throughput())
		for kind, n := range sample.failed {
			f.Failed[kind] += n
		}
		spent := sample.spent
		admission, reviews = admission.and(spent.admission), reviews.and(spent.reviews)
		writes, conflicts, batches = writes+spent.writes, conflicts+spent.conflicts, batches+spent.batches
		for name, busy := range spent.busy {
			f.Busy[name] += ms(busy)
		}
	}
	slices.Sort(waits)
	f.Created = len(waits)
	created := float64(f.Created)
	f.PerSecond = measure.Median(each)
	f.P50, f.P99 = ms(measure.Quantile(waits, 0.5)), ms(measure.Quantile(waits, 0.99))
	f.Admission = admission.mean()
	f.Writes, f.Conflicts = 100*writes/created, 100*conflicts/created
	for name := range f.Busy {
		f.Busy[name] /= created
	}
	if webhook {
		review, batch := reviews.mean(), reviews.count/max(batches, 1)
		f.Review, f.Batch = &review, &batch
	}
	return f
}

func (t timed) and(other timed) timed {
	return timed{count: t.count + other.count, seconds: t.seconds + other.seconds}
}

// mean is in milliseconds.
func (t timed) mean() float64 { return 1000 * t.seconds / max(t.count, 1) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func (r report) json() error {
	encoder := json.NewEncoder(os.Stdout)
	encoder.SetIndent("", "  ")
	return encoder.Encode(r)
}

func (r report) print(to io.Writer) {
	fmt.Fprintf(to, "Creates of pods under a quota: %d rounds of %d s a side, in turn, on %d processors\n\n", r.Rounds, r.Seconds, r.Processors)
	out := tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\t\tplugin\t\t\tkubequota\t\t\tratio of throughput\t\t\tfailed\t")
	fmt.Fprintln(out, "clients\tnamespaces\t1/s\tp50 ms\tp99 ms\t1/s\tp50 ms\tp99 ms\t(of a round)\tp50 +ms\ttarget\tplugin/kubequota\t")
	for _, row := range r.Cells {
		plugin, own := row.Sides[pluginSide], row.Sides[kubequotaSide]
		ratio, slower, aim := "-", "-", "-"
		if row.Ratio != nil {
			ratio = fmt.Sprintf("%.2f (%.2f to %.2f)", row.Ratio.Median, row.Ratio.Lowest, row.Ratio.Highest)
			slower = fmt.Sprintf("%.2f", *row.Slower)
		}
		if row.Target != nil {
			aim = row.Target.Text + map[bool]string{true: ": met", false: ": missed"}[row.Target.Met]
		}
		fmt.Fprintf(out, "%d\t%d\t%.0f\t%.2f\t%.2f\t%.0f\t%.2f\t%.2f\t%s\t%s\t%s\t%d/%d\t\n", row.Clients, row.Namespaces, plugin.PerSecond, plugin.P50,
			plugin.P99, own.PerSecond, own.P50, own.P99, ratio, slower, aim, sum(plugin.Failed), sum(own.Failed))
	}
	_ = out.Flush()

	fmt.Fprint(to, "\nWhere it goes: mean time a create waits for quotas by kube-apiserver's clock, and for the webhook by its own; writes of status;\n"+
		"processor time\n\n")
	out = tabwriter.NewWriter(to, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "\t\t\tadmission\treview\tbatch\tby 100 creates\t\tms of processor by create\t\t\t\t")
	fmt.Fprintln(out, "clients\tnamespaces\tside\tms\tms\tsize\twrites\tconflicts\tkube-apiserver\tetcd\tkubequota\tclients\t")
	for _, row := range r.Cells {
		for _, name := range []string{pluginSide, kubequotaSide} {
			f, measured := row.Sides[name]
			if !measured {
				continue
			}
			fmt.Fprintf(out, "%d\t%d\t%s\t%.2f\t%s\t%s\t%.1f\t%.1f\t%.2f\t%.2f\t%.2f\t%.2f\t\n", row.Clients, row.Namespaces, name, f.Admission,
				number(f.Review), number(f.Batch), f.Writes, f.Conflicts, f.Busy[serverTime], f.Busy[etcdTime], f.Busy[kubequotaTime], f.Busy[clientsTime])
		}
	}
	_ = out.Flush()
	for _, row := range r.Cells {
		for _, name := range []string{pluginSide, kubequotaSide} {
			if failed := row.Sides[name].Failed; len(failed) > 0 {
				fmt.Fprintf(to, "failed, %s, %d clients in %d namespaces: %s\n", name, row.Clients, row.Namespaces, kinds(failed))
			}
		}
	}
}

func kinds(failed map[string]int) string {
	var all []string
	for kind, n := range failed {
		all = append(all, fmt.Sprintf("%d times %s", n, kind))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func number(f *float64) string {
	if f == nil {
		return "-"
	}
	return fmt.Sprintf("%.2f", *f)
}

func sum(failed map[string]int) (n int) {
	for _, k := range failed {
		n += k
	}
	return n
}
