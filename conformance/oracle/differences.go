package oracle

import (
	"fmt"
	"os"
	"regexp"
	"slices"
)

// The ids of docs/differences.md that can show in an answer.
const (
	quantityBounds = "quantity-bounds"
	quantityExa    = "quantity-beyond-exa"
	quantityLeast  = "quantity-least-integer"
	quantityShared = "quantity-beyond-int64"
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
	quantityBounds, quantityExa, quantityLeast, quantityShared, twoClasses, twoClassesGone, endlessGrace, ownerByUID, invalidScope, scopesAre403, limitedScope, nameTwice,
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
var beyond = regexp.MustCompile(`[0-9]{4,}(E|Ei|e18)\b`)

// beyondExa: kubequota's answer prints a value of 1000E or 1024Ei or more, of which upstream would leave out the suffix.
func beyondExa[Q, A any]() difference[Q, A] {
	return difference[Q, A]{id: quantityExa, explains: func(_ Q, _, ours A) bool { return beyond.Match(raw(ours)) }}
}

// large is a number of 19 digits or more.
var large = regexp.MustCompile(`[0-9]{19,}`)

// shared: a value is too large for 64 bits. Upstream then keeps it behind a pointer that copies share, and changes one with the other.
func shared[Q, A any]() difference[Q, A] {
	return difference[Q, A]{id: quantityShared, explains: func(_ Q, theirs, ours A) bool {
		return large.Match(raw(theirs)) && large.Match(raw(ours))
	}}
}
