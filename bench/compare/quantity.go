package main

import (
	"fmt"
	"strconv"
	"strings"
)

// suffixes of the quantities that appear here, in thousandths. The longer ones come first.
var suffixes = []struct {
	text  string
	milli int64
}{
	{"Ki", 1000 << 10}, {"Mi", 1000 << 20}, {"Gi", 1000 << 30}, {"Ti", 1000 << 40}, {"m", 1}, {"k", 1e6}, {"M", 1e9}, {"G", 1e12}, {"", 1000},
}

// milli reads a quantity of whole thousandths. Controllers write no others here, and no exponents.
func milli(text string) (int64, error) {
	for _, suffix := range suffixes {
		if digits, found := strings.CutSuffix(text, suffix.text); found {
			number, err := strconv.ParseInt(digits, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("quantity %q: %w", text, err)
			}
			return number * suffix.milli, nil
		}
	}
	return 0, fmt.Errorf("quantity %q", text)
}
