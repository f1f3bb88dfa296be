// Package measure is what the benches reckon alike: processor time, medians and quantiles.
package measure

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"syscall"
	"time"
	"unsafe"
)

// ProcessorTime is the processor time that a process has taken, by its own clock (clock_getcpuclockid): exact, where /proc counts in ticks.
func ProcessorTime(pid int) (time.Duration, error) {
	var spec syscall.Timespec
	const scheduler = 2
	clock := uintptr(^pid<<3 | scheduler)
	if _, _, errno := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&spec)), 0); errno != 0 {
		return 0, fmt.Errorf("the processor time of process %d: %w", pid, errno)
	}
	return time.Duration(spec.Nano()), nil
}

// Median is the middle of some values, or the mean of the middle two.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// Quantile is the smallest value that at least this share of all does not exceed.
func Quantile[T cmp.Ordered](sorted []T, quantile float64) (value T) {
	if len(sorted) == 0 {
		return value
	}
	return sorted[max(0, int(math.Ceil(quantile*float64(len(sorted))))-1)]
}
