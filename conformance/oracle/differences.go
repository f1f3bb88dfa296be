package oracle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"reflect"
	"regexp"
	"slices"
)

// The ids of docs/differences.md that can show in an answer.
const (
	quantityBounds = "quantity-bounds"
	quantityExa    = "quantity-beyond-exa"
	quantityLeast  = "quantity-least-integer"
	claimShared    = "claim-beyond-int64"
	twoClasses     = "two-classes"
	twoClassesGone = "two-classes-one-gone"
	endlessGrace   = "endless-grace"
	ownerByUID     = "owner-by-uid"
	invalidScope   = "invalid-selector"
	scopesAre403   = "uncovered-scopes-403"
	limitedScope   = "invalid-limited-scope"
	nameTwice      = "name-twice"
)

// Differences are the ids by which the oracle skips.
var Differences = []string{
	quantityBounds, quantityExa, quantityLeast, claimShared, twoClasses, twoClassesGone, endlessGrace, ownerByUID, invalidScope, scopesAre403, limitedScope, nameTwice,
}

// documented is the first column of docs/differences.md.
var documented = regexp.MustCompile("(?m)^\\| `?([a-z][a-z0-9-]*)`? \\|")

// CheckDocument holds the ids to the document.
func CheckDocument(path string) error {
	document, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var known []string
	for _, match := range documented.FindAllSubmatch(document, -1) {
		known = append(known, string(match[1]))
	}
	for _, id := range Differences {
		if !slices.Contains(known, id) {
			return fmt.Errorf("the oracle skips by %q, which %s does not know", id, path)
		}
	}
	return nil
}

// difference is one that is meant. It is looked at only where the answers differ.
type difference[Q, A any] struct {
	id       string
	explains func(question Q, theirs, ours A) bool
}

// beyond is a number that the largest suffix leaves with four digits or more.
var beyond = regexp.MustCompile(`([0-9]{4,})(E|Ei|e18)\b`)

// beyondExa: kubequota's answer prints thousands of E or Ei, and upstream's is the same without them and their suffixes.
func beyondExa[Q, A any]() difference[Q, A] {
	return difference[Q, A]{id: quantityExa, explains: func(_ Q, theirs, ours A) bool {
		if !beyond.Match(raw(ours)) {
			return false
		}
		cut := beyond.ReplaceAllFunc(raw(ours), func(text []byte) []byte {
			match := beyond.FindSubmatch(text)
			number, _ := new(big.Int).SetString(string(match[1]), 10)
			step := big.NewInt(1000)
			if string(match[2]) == "Ei" {
				step = big.NewInt(1024)
			}
			// Upstream takes out every thousand before it looks for a suffix; what has none to take out keeps its own.
			thousands := 0
			for {
				less, rest := new(big.Int).QuoRem(number, step, new(big.Int))
				if rest.Sign() != 0 {
					break
				}
				number, thousands = less, thousands+1
			}
			if thousands == 0 {
				return text
			}
			return []byte(number.String())
		})
		var without A
		return json.Unmarshal(cut, &without) == nil && reflect.DeepEqual(theirs, without)
	}}
}

// sharedCount says that a resource claim asks for so many devices that their sum needs more than 64 bits. Upstream keeps such a sum behind
// a pointer that copies share, and what it subtracts from one is gone from the other.
func sharedCount(objects ...json.RawMessage) bool {
	return slices.ContainsFunc(objects, func(object json.RawMessage) bool {
		return bytes.Contains(object, []byte(`"count":9223372036854775807`))
	})
}
