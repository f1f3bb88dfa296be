package resource

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	inf "gopkg.in/inf.v0"

	"kubequota.dev/conformance/units/answers"
)

// What upstream decides here is gone; kubequota decides it. How Go holds a value (int64Amount, inf.Dec) stays upstream's.
//
//kubequota:cut int64QuantityExpectedBytes

// kubequotaValue is a quantity as it is sent: a whole number times a power of ten, and a format.
type kubequotaValue struct {
	Amount string `json:"amount"`
	Format string `json:"format"`
}

// kubequotaFormats are kubequota's names of the formats. Upstream takes any other for DecimalExponent.
var kubequotaFormats = map[Format]string{DecimalSI: "DecimalSi", BinarySI: "BinarySi", DecimalExponent: "DecimalExponent"}

// kubequotaOf is q times a power of ten.
func kubequotaOf(q Quantity, power Scale) kubequotaValue {
	unscaled, exponent := big.NewInt(q.i.value), q.i.scale
	if q.d.Dec != nil {
		unscaled, exponent = q.d.Dec.UnscaledBig(), Scale(-q.d.Dec.Scale())
	}
	format, known := kubequotaFormats[q.Format]
	if !known {
		format = kubequotaFormats[DecimalExponent]
	}
	return kubequotaValue{Amount: fmt.Sprintf("%se%d", unscaled, exponent+power), Format: format}
}

// quantity is the value times a power of ten, held as an int64Amount where that is wanted and it fits.
func (v kubequotaValue) quantity(power Scale, small bool) (q Quantity) {
	for format, name := range kubequotaFormats {
		if name == v.Format {
			q.Format = format
		}
	}
	mantissa, exponent, _ := strings.Cut(v.Amount, "e")
	unscaled, ok := new(big.Int).SetString(mantissa, 10)
	if !ok {
		panic("kubequota gave no number: " + v.Amount)
	}
	scale := power
	if exponent != "" {
		parsed, err := strconv.ParseInt(exponent, 10, 32)
		if err != nil {
			panic(err)
		}
		scale += Scale(parsed)
	}
	if small && unscaled.IsInt64() {
		q.i = int64Amount{value: unscaled.Int64(), scale: scale}
	} else {
		q.d = infDecAmount{inf.NewDecBig(unscaled, scale.infScale())}
	}
	return q
}

// kubequotaProperties is what kubequota says of a quantity and another one.
type kubequotaProperties struct {
	Text       string
	Sign       int
	RoundedUp  kubequotaValue
	IsWhole    bool
	Units      *int64
	Float      *float64
	Negated    kubequotaValue
	Product    kubequotaValue
	Compare    int
	Sum        kubequotaValue
	Difference kubequotaValue
}

func kubequotaAsk(a, b kubequotaValue, factor int64) (properties kubequotaProperties) {
	answers.Ask("unit", map[string]any{"quantity": map[string]any{"a": a, "b": b, "factor": factor}}, &properties)
	return properties
}

func (q *Quantity) kubequota() kubequotaProperties {
	return kubequotaAsk(kubequotaOf(*q, 0), kubequotaOf(Quantity{}, 0), 1)
}

// kubequotaBecome takes a new value, held as the old one was.
func (q *Quantity) kubequotaBecome(value kubequotaValue, power Scale) {
	*q = value.quantity(power, q.d.Dec == nil)
}

func kubequotaRead(question, text string) (Quantity, error) {
	var read *struct {
		Value kubequotaValue
		Text  string
	}
	answers.Ask("unit", map[string]any{question: text}, &read)
	if read == nil {
		return Quantity{}, ErrFormatWrong
	}
	// Tests look at how Go holds what was read: as int64Amount up to 18 digits.
	digits := 0
	for _, char := range strings.TrimSuffix(text, "\"") {
		if char >= '0' && char <= '9' {
			digits++
		}
	}
	q := read.Value.quantity(0, digits <= maxInt64Factors)
	if read.Text == text {
		q.s = text
	}
	return q, nil
}

func ParseQuantity(str string) (Quantity, error) { return kubequotaRead("text", str) }

func (q *Quantity) UnmarshalJSON(value []byte) error {
	read, err := kubequotaRead("token", string(value))
	if err == nil {
		*q = read
	}
	return err
}

func (q *Quantity) CanonicalizeBytes([]byte) (result, suffix []byte) {
	return []byte(q.kubequota().Text), nil
}

func (q *Quantity) String() string {
	if q == nil {
		return "<nil>"
	}
	if q.s == "" {
		q.s = q.kubequota().Text
	}
	return q.s
}

func (q Quantity) MarshalJSON() ([]byte, error) { return []byte(`"` + q.String() + `"`), nil }

func (q *Quantity) IsZero() bool { return q.kubequota().Sign == 0 }

func (q *Quantity) Sign() int { return q.kubequota().Sign }

// AsFloat64Slow is the nearest number, the only one kubequota has: AsApproximateFloat64 stays upstream's.
func (q *Quantity) AsFloat64Slow() float64 {
	properties := q.kubequota()
	if properties.Float == nil {
		return math.Inf(properties.Sign)
	}
	return *properties.Float
}

// RoundUp to another scale is asked as rounding up to units of as many times the value.
func (q *Quantity) RoundUp(scale Scale) bool {
	properties := kubequotaAsk(kubequotaOf(*q, -scale), kubequotaOf(Quantity{}, 0), 1)
	if properties.IsWhole {
		return true
	}
	q.kubequotaBecome(properties.RoundedUp, scale)
	return false
}

func (q *Quantity) ScaledValue(scale Scale) int64 {
	properties := kubequotaAsk(kubequotaOf(*q, -scale), kubequotaOf(Quantity{}, 0), 1)
	if properties.Units == nil {
		return 0
	}
	return *properties.Units
}

func (q *Quantity) Add(y Quantity) {
	q.kubequotaBecome(kubequotaAsk(kubequotaOf(*q, 0), kubequotaOf(y, 0), 1).Sum, 0)
}

func (q *Quantity) Sub(y Quantity) {
	q.kubequotaBecome(kubequotaAsk(kubequotaOf(*q, 0), kubequotaOf(y, 0), 1).Difference, 0)
}

// Mul also says whether Go's number of as many decimals fits 64 bits.
func (q *Quantity) Mul(y int64) bool {
	operand := q.DeepCopy()
	decimals := operand.AsDec().Scale()
	q.kubequotaBecome(kubequotaAsk(kubequotaOf(*q, 0), kubequotaOf(Quantity{}, 0), y).Product, 0)
	product := q.DeepCopy()
	return new(inf.Dec).Round(product.AsDec(), decimals, inf.RoundDown).UnscaledBig().IsInt64()
}

func (q *Quantity) Neg() { q.kubequotaBecome(q.kubequota().Negated, 0) }

func (q *Quantity) Cmp(y Quantity) int {
	return kubequotaAsk(kubequotaOf(*q, 0), kubequotaOf(y, 0), 1).Compare
}

func (q *Quantity) CmpInt64(y int64) int {
	return q.Cmp(Quantity{i: int64Amount{value: y}, Format: DecimalSI})
}
