package oracle

import (
	"errors"
	"math"
	"math/big"
	"strconv"
	"strings"

	"gopkg.in/inf.v0"
	"k8s.io/apimachinery/pkg/api/resource"
)

type quantityQuestion struct {
	A string `json:"a"`
	B string `json:"b"`
	// JSON is a raw token.
	JSON   string `json:"json"`
	Factor int64  `json:"factor"`
	// Number is made into a quantity without any text.
	Number int64 `json:"number"`
	// Decimal makes upstream work on its slower representation, which must not matter.
	Decimal bool `json:"decimal"`
}

type quantityAnswer struct {
	A        *quantityValue    `json:"a"`
	B        *quantityValue    `json:"b"`
	JSON     *quantityValue    `json:"json"`
	Together *quantityTogether `json:"together"`
	Whole    *quantityValue    `json:"whole"`
	Binary   *quantityValue    `json:"binary"`
	Milli    *quantityValue    `json:"milli"`
}

type quantityValue struct {
	Text       string   `json:"text"`
	Canonical  string   `json:"canonical"`
	Format     string   `json:"format"`
	Sign       int      `json:"sign"`
	RoundedUp  string   `json:"roundedUp"`
	Units      *int64   `json:"units"`
	Milli      *int64   `json:"milli"`
	Nano       *int64   `json:"nano"`
	Float      *float64 `json:"float"`
	Negated    string   `json:"negated"`
	Multiplied string   `json:"multiplied"`
	Compared   int      `json:"compared"`
}

type quantityTogether struct {
	Compare    int    `json:"compare"`
	Sum        string `json:"sum"`
	Difference string `json:"difference"`
}

var quantities = part[quantityQuestion, quantityAnswer]{
	name: "quantities", key: "quantity", cases: 1_000_000,
	ask: func(r *Random) quantityQuestion {
		question := quantityQuestion{
			A:       r.modest(r.quantityText),
			B:       r.modest(r.quantityText),
			JSON:    r.modest(r.quantityToken),
			Factor:  pick[int64](r, 0, 1, -1, 2, 3, 7),
			Number:  r.number(),
			Decimal: r.chance(30),
		}
		if r.rarely(200) {
			question.Factor = pick(r, 1000, 1024, math.MaxInt64, math.MinInt64, r.Int64N(100_000)-50_000)
		}
		return question
	},
	upstream: func(q quantityQuestion) quantityAnswer {
		a, b, token := q.parse(q.A), q.parse(q.B), q.fromJSON()
		answer := quantityAnswer{
			A: q.value(a), B: q.value(b), JSON: q.value(token),
			Whole:  q.value(q.whole(resource.DecimalSI)),
			Binary: q.value(q.whole(resource.BinarySI)),
			Milli:  q.value(q.milli()),
		}
		if a != nil && b != nil {
			sum, difference := a.DeepCopy(), a.DeepCopy()
			if q.Decimal {
				sum.ToDec()
				difference.ToDec()
			}
			sum.Add(*b)
			difference.Sub(*b)
			answer.Together = &quantityTogether{Compare: a.Cmp(*b), Sum: sum.String(), Difference: difference.String()}
			if equal := answer.Together.Compare == 0; a.Equal(*b) != equal || resource.QuantityPtrEqual(a, b) != equal {
				answer.Together.Sum = "upstream contradicts itself"
			}
		}
		return answer
	},
	meant: []difference[quantityQuestion, quantityAnswer]{
		{id: quantityBounds, explains: func(q quantityQuestion, _, ours quantityAnswer) bool {
			return ours.A == nil && beyondBounds(q.A) || ours.B == nil && beyondBounds(q.B) || ours.JSON == nil && beyondBounds(q.JSON)
		}},
		beyondExa[quantityQuestion, quantityAnswer](),
		{id: quantityLeast, explains: func(q quantityQuestion, _, _ quantityAnswer) bool {
			const least = "-9223372036854775808"
			return q.Number == math.MinInt64 || q.Factor == math.MinInt64 || strings.Contains(q.A+" "+q.B+" "+q.JSON, least)
		}},
	},
}

func (q quantityQuestion) parse(text string) *resource.Quantity {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return nil
	}
	return &quantity
}

func (q quantityQuestion) fromJSON() *resource.Quantity {
	var quantity resource.Quantity
	if err := quantity.UnmarshalJSON([]byte(q.JSON)); err != nil {
		return nil
	}
	return &quantity
}

// whole makes so many units, in one of the ways there are.
func (q quantityQuestion) whole(format resource.Format) *resource.Quantity {
	if !q.Decimal {
		return resource.NewQuantity(q.Number, format)
	}
	quantity := &resource.Quantity{Format: format}
	quantity.Set(q.Number)
	return quantity
}

// milli makes so many thousandths, in one of the ways there are.
func (q quantityQuestion) milli() *resource.Quantity {
	quantity := &resource.Quantity{Format: resource.DecimalSI}
	switch ((q.Factor % 5) + 5) % 5 {
	case 0:
		return resource.NewMilliQuantity(q.Number, resource.DecimalSI)
	case 1:
		return resource.NewScaledQuantity(q.Number, resource.Milli)
	case 2:
		return resource.NewDecimalQuantity(*inf.NewDec(q.Number, 3), resource.DecimalSI)
	case 3:
		quantity.SetMilli(q.Number)
	default:
		quantity.SetScaled(q.Number, resource.Milli)
	}
	return quantity
}

func (q quantityQuestion) value(quantity *resource.Quantity) *quantityValue {
	if quantity == nil {
		return nil
	}
	value := &quantityValue{Text: quantity.String(), Sign: quantity.Sign(), Format: map[resource.Format]string{
		// A quantity that was never given a format is printed as a decimal.
		"": "DecimalSi", resource.DecimalSI: "DecimalSi", resource.BinarySI: "BinarySi", resource.DecimalExponent: "DecimalExponent"}[quantity.Format]}
	work := func() *resource.Quantity {
		copied := quantity.DeepCopy()
		if q.Decimal {
			return copied.ToDec()
		}
		return &copied
	}
	number, suffix := work().CanonicalizeBytes(make([]byte, 0, 32))
	value.Canonical = string(number) + string(suffix)

	// Where nothing is rounded upstream's callers keep what they had, text included.
	value.RoundedUp = value.Text
	if rounded := work(); !rounded.RoundUp(0) {
		value.RoundedUp = rounded.String()
	} else if rounded.Cmp(*quantity) != 0 {
		value.RoundedUp = "upstream contradicts itself"
	}

	// Beyond 64 bits upstream gives some number, and below zero it rounds some up and some down: nothing that counts quotas asks for those.
	fits := func(scale resource.Scale) bool {
		return quantity.Sign() >= 0 && quantity.Cmp(*resource.NewScaledQuantity(math.MaxInt64, scale)) <= 0
	}
	if fits(0) {
		units := work().Value()
		value.Units = &units
		if exact, is := work().AsInt64(); is && exact != units {
			value.Units = nil
		}
	}
	if fits(resource.Milli) {
		milli := work().MilliValue()
		value.Milli = &milli
	}
	if fits(resource.Nano) {
		nano := work().ScaledValue(resource.Nano)
		value.Nano = &nano
	}
	// Upstream's two ways to a float differ in the last digits: the nearest there is lies close to both.
	exact, isNumber := new(big.Rat).SetString(work().AsDec().String())
	nearest, _ := exact.Float64()
	near := func(float float64) bool {
		// Nothing times ten to some power is no number upstream, where that power is none.
		return quantity.IsZero() || math.Abs(float-nearest) <= 1e-12*math.Abs(nearest)
	}
	if isNumber && !math.IsInf(nearest, 0) && near(work().AsFloat64Slow()) && near(work().AsApproximateFloat64()) {
		value.Float = &nearest
	}
	negated := work()
	negated.Neg()
	value.Negated = negated.String()
	multiplied := work()
	multiplied.Mul(q.Factor)
	value.Multiplied = multiplied.String()
	value.Compared = work().CmpInt64(q.Number)
	return value
}

func (r *Random) number() int64 {
	if r.rarely(1_000) {
		return math.MinInt64
	}
	switch r.IntN(4) {
	case 0:
		return pick[int64](r, 0, 1, -1, 999, 1000, 1001, 1023, 1024, 1025, math.MaxInt64, math.MinInt64+1, math.MaxInt64/1000, math.MaxInt64/1000+1)
	case 1:
		return r.Int64N(1 << (1 + r.IntN(62)))
	default:
		return r.Int64() >> r.IntN(63)
	}
}

// modest tries again for most values that are so large that upstream prints no suffix: those are a meant difference and must stay rare.
func (r *Random) modest(text func() string) string {
	for {
		made := text()
		if exponent, found := exponentOf(made); found && (exponent < -1_100 || exponent > 1_100) {
			continue // upstream would work on it for ever
		}
		quantity, err := resource.ParseQuantity(strings.TrimSpace(strings.Trim(made, `"`)))
		if err != nil || r.rarely(200) || quantity.Cmp(huge) < 0 && quantity.Cmp(hugeNegative) > 0 {
			return made
		}
	}
}

var huge, hugeNegative = resource.MustParse("10E"), resource.MustParse("-10E")

// quantityText is mostly a quantity: a sign, digits, a point, digits and a suffix, any of them odd.
func (r *Random) quantityText() string {
	switch {
	case r.chance(15):
		return pick(r, quantityTexts...)
	case r.rarely(3_000):
		return pick(r, "1e1001", "1e-1001", "1e1000", "1e-1000", strings.Repeat("0", 1_001), strings.Repeat("9", 1_000), "."+strings.Repeat("0", 1_000))
	}
	digits := func(most int) string {
		text := r.word(pick(r, "0123456789", "01", "0", "9", "5"), most)
		return text + pick(r, "", "", "0", "00", "000", "5", "500")
	}
	text := pick(r, "", "", "", "", "-", "+") + pick(r, "", "", "", "0", "00") + digits(pick(r, 1, 3, 3, 6, 12, 17, 19, 22))
	if r.chance(35) {
		text += "." + digits(pick(r, 0, 2, 3, 8, 10, 12))
	}
	switch {
	case r.chance(35):
		text += pick(r, "n", "u", "m", "k", "M", "G", "T", "P", "E")
	case r.chance(40):
		text += pick(r, "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
	case r.chance(35):
		text += pick(r, "e", "E") + pick(r, "", "-", "+") + strconv.Itoa(r.IntN(pick(r, 4, 10, 22, 60)))
	case r.chance(10):
		text += pick(r, "K", "ki", "mi", "i", "Mb", "e", "E", "e+", "ee3", "e3e", "e3.5", " ", "_", "١", "µ", "e0x1", "Kii", "e 3")
	}
	if r.rarely(25) && text != "" {
		// One letter wrong.
		letters := []rune(text)
		letters[r.IntN(len(letters))] = pick(r, []rune("0.+-eEkKmiu \t\"x\x00é")...)
		text = string(letters)
	}
	return text
}

// quantityToken is a JSON token, or something like one.
func (r *Random) quantityToken() string {
	switch {
	case r.chance(50):
		return `"` + r.quantityText() + `"`
	case r.chance(60):
		return r.quantityText()
	case r.chance(30):
		return `"` + pick(r, " ", "\t", "", "  ") + r.quantityText() + pick(r, " ", "\n", "") + `"`
	default:
		return pick(r, "null", `""`, `"`, "", "true", "{}", "[]", `"null"`, "nul", "1.5e3", "-0", "0.1", `"1\u0030"`, `"1\n"`, "1E2", "1e-3", `""1""`, "\u00a01")
	}
}

// beyondBounds says that a text is longer, or has a larger exponent, than kubequota reads.
func beyondBounds(text string) bool {
	text = strings.TrimSpace(strings.Trim(text, `"`))
	if len(text) > 1_000 {
		return true
	}
	exponent, found := exponentOf(text)
	return found && (exponent > 1_000 || exponent < -1_000)
}

func exponentOf(text string) (exponent int64, found bool) {
	text = strings.TrimSpace(strings.Trim(text, `"`))
	at := strings.LastIndexAny(text, "eE")
	if at < 0 {
		return 0, false
	}
	exponent, err := strconv.ParseInt(text[at+1:], 10, 64)
	return exponent, err == nil || errors.Is(err, strconv.ErrRange)
}
