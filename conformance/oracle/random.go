package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Random makes the parts of questions. Edges come far more often than an even hand would have them.
type Random struct{ *rand.Rand }

// chance is true in so many of 100 cases.
func (r *Random) chance(percent int) bool { return r.IntN(100) < percent }

// rarely is true in one of so many cases.
func (r *Random) rarely(of int) bool { return r.IntN(of) == 0 }

func pick[T any](r *Random, from ...T) T { return from[r.IntN(len(from))] }

// some picks between 0 and most items of from, without repetition and in its order.
func some[T any](r *Random, most int, from ...T) []T {
	var picked []T
	left := r.IntN(min(most, len(from)) + 1)
	for i, item := range from {
		if left > 0 && r.IntN(len(from)-i) < left {
			picked, left = append(picked, item), left-1
		}
	}
	return picked
}

func sortedKeys[V any](from map[string]V) []string { return slices.Sorted(maps.Keys(from)) }

// now is the server's time in all questions.
var now = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// quantityTexts are written the usual way, the odd way, and at every border of rounding and format.
var quantityTexts = []string{
	"0", "1", "2", "3", "10", "100m", "250m", "500m", "1500m", "1.5", "0.1", "1k", "2M", "1Ki", "64Mi", "128Mi", "1Gi", "1.5Gi", "1Ti",
	"1000", "1024", "1000m", "2000m", "1e3", "1e6", "12e-3", "0.5", "1u", "1n", "999n", "1001n", "0.0000000001", "1.0000000001", "0Ki", "0m",
	"1.000", "1.500", "0.5Ki", "0.0001Ki", "1500Mi", "1023", "1025", "999", "1001", "5Gi", "1.1Gi", "1.234Ti", "9223372036854775807",
	"9223372036854775808", "9223372036854775800", "9007199254740993", "1P", "1Pi", "1E", "1Ei", "123456789m",
}

// quantity of an object or a limit, as text.
func (r *Random) quantity() string {
	switch {
	case r.chance(70):
		return quantityTexts[r.IntN(20)]
	case r.chance(80):
		return pick(r, quantityTexts...)
	case r.rarely(10):
		return "-" + pick(r, quantityTexts...)
	default:
		return fmt.Sprint(r.IntN(3000)) + pick(r, "", "m", "k", "Ki", "Mi", "e3", "u")
	}
}

// parsed is a quantity as an object decoded from JSON has it, kept text included.
func parsed(text string) resource.Quantity {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		panic(fmt.Sprintf("%q: %v", text, err))
	}
	return quantity
}

// texts prints a list.
func texts[N ~string](list map[N]resource.Quantity) map[string]string {
	printed := map[string]string{}
	for name, quantity := range list {
		printed[string(name)] = quantity.String()
	}
	return printed
}

// namesIn are the names of a list in order: a map's own order is another each time.
func namesIn(list corev1.ResourceList) []corev1.ResourceName { return slices.Sorted(maps.Keys(list)) }

// raw is the JSON of an object.
func raw(object any) json.RawMessage {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return text
}

// decoded reads an object as kube-apiserver would have it.
func decoded[T any](text json.RawMessage) *T {
	object := new(T)
	if err := json.Unmarshal(text, object); err != nil {
		panic(fmt.Sprintf("%v: %s", err, text))
	}
	return object
}

// word is a short text of an alphabet.
func (r *Random) word(alphabet string, most int) string {
	var text strings.Builder
	letters := []rune(alphabet)
	for range r.IntN(most + 1) {
		text.WriteRune(pick(r, letters...))
	}
	return text.String()
}
