package oracle

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
)

// apart lists where two JSON trees differ, a line for each place.
func apart(at string, theirs, ours any) (lines []string) {
	if reflect.DeepEqual(theirs, ours) {
		return nil
	}
	switch theirs := theirs.(type) {
	case map[string]any:
		if ours, same := ours.(map[string]any); same {
			keys := maps.Clone(theirs)
			maps.Copy(keys, ours)
			for _, key := range sortedKeys(keys) {
				lines = append(lines, apart(at+"."+key, theirs[key], ours[key])...)
			}
			return lines
		}
	case []any:
		if ours, same := ours.([]any); same && len(ours) == len(theirs) {
			for i := range theirs {
				lines = append(lines, apart(fmt.Sprintf("%s[%d]", at, i), theirs[i], ours[i])...)
			}
			return lines
		}
	}
	text := func(tree any) string { text, _ := json.Marshal(tree); return string(text) }
	return slices.Concat(lines, []string{fmt.Sprintf("%s: Kubernetes %s, kubequota %s", at, text(theirs), text(ours))})
}
