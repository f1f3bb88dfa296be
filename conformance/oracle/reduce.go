package oracle

import (
	"encoding/json"
	"slices"
)

// reduceSteps bounds the work on one failure.
const reduceSteps = 3_000

// reduce makes a question smaller for as long as its answers differ.
func (p part[Q, A]) reduce(answers *process, question Q) (Failure, error) {
	differ := func(line []byte) (failure Failure, yes bool, err error) {
		question, err := p.read(line)
		if err != nil {
			return failure, false, nil // no question any more
		}
		if _, err := p.answer(question); err != nil {
			return failure, false, nil // nor one that upstream can answer
		}
		verdicts, err := p.compare(answers, []Q{question})
		if err != nil {
			return failure, false, err
		}
		v := verdicts[0]
		return Failure{Question: line, Theirs: v.theirs, Ours: v.ours}, !v.same && v.meant == "", nil
	}
	line, err := p.line(question)
	if err != nil {
		return Failure{}, err
	}
	best, _, err := differ(slices.Clone(line))
	if err != nil {
		return best, err
	}
	steps := 0
	for shrunk := true; shrunk; {
		shrunk = false
		var tree any
		if err := json.Unmarshal(best.Question, &tree); err != nil {
			return best, err
		}
		smaller(tree, func() bool {
			steps++
			text, err := json.Marshal(tree)
			if err != nil || steps > reduceSteps || len(text) >= len(best.Question) {
				return false
			}
			// A reduced question may be one that kubequota calls a mistake, after which the rest is still asked: it is answered, not fatal.
			failure, yes, err := differ(text)
			if err == nil && yes {
				best, shrunk = failure, true
			}
			return err == nil && yes
		})
	}
	return best, nil
}

// smaller tries, in place, to leave out each part of a JSON tree; try says whether the tree as it is now is worth keeping.
func smaller(tree any, try func() bool) {
	switch node := tree.(type) {
	case map[string]any:
		for _, key := range sortedKeys(node) {
			value := node[key]
			delete(node, key)
			if try() {
				continue
			}
			node[key] = value
			if list, isList := value.([]any); isList {
				shorter(list, func(list []any) { node[key] = list }, try)
			}
			smaller(node[key], try)
		}
	case []any:
		for i := range node {
			if list, isList := node[i].([]any); isList {
				shorter(list, func(list []any) { node[i] = list }, try)
			}
			smaller(node[i], try)
		}
	}
}

// shorter tries to leave out each item of a list.
func shorter(list []any, set func([]any), try func() bool) {
	for i := 0; i < len(list); {
		without := slices.Delete(slices.Clone(list), i, i+1)
		set(without)
		if try() {
			list = without
			continue
		}
		set(list)
		i++
	}
}
