package measure

import (
	"os"
	"testing"
)

func TestQuantile(t *testing.T) {
	for quantile, wanted := range map[float64]int{0: 1, 0.5: 2, 0.75: 3, 0.99: 4, 1: 4} {
		if got := Quantile([]int{1, 2, 3, 4}, quantile); got != wanted {
			t.Errorf("quantile %v is %d, not %d", quantile, got, wanted)
		}
	}
}

func TestMedian(t *testing.T) {
	for wanted, values := range map[float64][]float64{2.5: {9, 1, 2, 3}, 2: {3, 1, 2}, 7: {7}} {
		if got := Median(values); got != wanted {
			t.Errorf("the median of %v is %v, not %v", values, got, wanted)
		}
	}
}

func TestProcessorTime(t *testing.T) {
	before, err := ProcessorTime(os.Getpid())
	for range 1_000_000 {
		_ = Median([]float64{1})
	}
	after, later := ProcessorTime(os.Getpid())
	if err != nil || later != nil || after <= before {
		t.Errorf("%s, then %s (%v, %v)", before, after, err, later)
	}
	if _, err := ProcessorTime(1 << 22); err == nil {
		t.Error("a process that is not there has taken time")
	}
}
