package replay

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// finding is one place where two answers differ.
type finding struct {
	path           string
	real, embedded any
}

// absent stands for a field that isn't there.
type absent struct{}

func (f finding) String() string {
	return fmt.Sprintf("%s\n      real:     %s\n      embedded: %s", f.path, show(f.real), show(f.embedded))
}

func show(value any) string {
	if _, missing := value.(absent); missing {
		return "(absent)"
	}
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	const longest = 400
	if len(text) > longest {
		return string(text[:longest]) + "..."
	}
	return string(text)
}

func compare(path string, real, embedded any) []finding {
	switch real := real.(type) {
	case map[string]any:
		other, same := embedded.(map[string]any)
		if !same {
			break
		}
		var found []finding
		keys := slices.Compact(slices.Sorted(slices.Values(append(sorted(real), sorted(other)...))))
		for _, key := range keys {
			found = append(found, compare(join(path, key), item(real, key), item(other, key))...)
		}
		return found
	case []any:
		other, same := embedded.([]any)
		if !same || len(other) != len(real) {
			break
		}
		var found []finding
		for i := range real {
			found = append(found, compare(fmt.Sprintf("%s[%d]", path, i), real[i], other[i])...)
		}
		return found
	default:
		if real == embedded {
			return nil
		}
	}
	return []finding{{path, real, embedded}}
}

func item(from map[string]any, key string) any {
	if value, found := from[key]; found {
		return value
	}
	return absent{}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// covers is whether a listed field is the place that differs, or holds it.
func covers(field, path string) bool {
	rest, below := strings.CutPrefix(path, field)
	return below && (rest == "" || rest[0] == '.' || rest[0] == '[')
}

// share drops from a list of real those items that embedded lacks, and brings both into one order: how kinds are ordered says nothing.
// spec is Step.Shared's: keys of maps; `*` stands for every item of a list that was shared before.
func share(spec string, real, embedded any) error {
	path, key, found := strings.Cut(spec, ":")
	if !found {
		return fmt.Errorf("%q does not say what identifies an item", spec)
	}
	return shareAt(strings.Split(path, "."), key, real, embedded)
}

func shareAt(path []string, key string, real, embedded any) error {
	if path[0] == "*" {
		reals, _ := real.([]any)
		embeddeds, _ := embedded.([]any)
		for i := range min(len(reals), len(embeddeds)) {
			if err := shareAt(path[1:], key, reals[i], embeddeds[i]); err != nil {
				return err
			}
		}
		return nil
	}
	holder, _ := real.(map[string]any)
	otherHolder, _ := embedded.(map[string]any)
	if holder == nil || otherHolder == nil {
		return nil // they differ anyhow, and that is reported
	}
	if len(path) > 1 {
		return shareAt(path[1:], key, holder[path[0]], otherHolder[path[0]])
	}
	list, _ := holder[path[0]].([]any)
	other, _ := otherHolder[path[0]].([]any)
	identity := func(item any) string {
		value, _ := field(item, key)
		return fmt.Sprint(value)
	}
	byIdentity := func(a, b any) int { return strings.Compare(identity(a), identity(b)) }
	known := map[string]bool{}
	for _, item := range other {
		known[identity(item)] = true
	}
	list = slices.DeleteFunc(list, func(item any) bool { return !known[identity(item)] })
	slices.SortFunc(list, byIdentity)
	slices.SortFunc(other, byIdentity)
	holder[path[0]], otherHolder[path[0]] = list, other
	return nil
}
