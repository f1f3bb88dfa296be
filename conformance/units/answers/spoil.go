package answers

import (
	"encoding/json"
	"fmt"
	"strings"
)

// spoil makes an answer wrong wherever it says something, and keeps its shape: what was true is false, and every number, quantity, name and
// message is another.
func spoil(answer json.RawMessage) (json.RawMessage, error) {
	var value any
	if err := json.Unmarshal(answer, &value); err != nil {
		return nil, err
	}
	return json.Marshal(spoiled(value))
}

func spoiled(value any) any {
	switch value := value.(type) {
	case bool:
		return !value
	case float64:
		return value + 1
	case string:
		// A quantity must stay one: its sign comes first.
		return "7" + strings.TrimPrefix(value, "-")
	case []any:
		for i := range value {
			value[i] = spoiled(value[i])
		}
		return value
	case map[string]any:
		for key := range value {
			// Tests compare lists by this very answer: two wrongs would make a right.
			if key != "equals" {
				value[key] = spoiled(value[key])
			}
		}
		return value
	case nil:
		return nil
	default:
		panic(fmt.Sprintf("JSON has no %T", value))
	}
}
