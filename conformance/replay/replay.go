package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Tally is told how each case went.
type Tally interface {
	Pass()
	Skip(format string, args ...any)
	Fail(format string, args ...any)
}

// Run plays the script on both servers, step by step, and judges each.
func Run(ctx context.Context, script []Step, differences []Difference, real, embedded *Player, tally Tally) error {
	listed := map[string]*Difference{}
	for i := range differences {
		listed[differences[i].Case] = &differences[i]
	}
	for _, step := range script {
		findings, err := runStep(ctx, step, real, embedded)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if errors.Is(err, errSilent) {
			return fmt.Errorf("%s: %s: %w", step.Case, step.Request, err)
		}
		judge(step, findings, err, listed[step.Case], tally)
		delete(listed, step.Case)
	}
	for _, name := range sorted(listed) {
		tally.Fail("differences.yaml: no case is called %q", name)
	}
	return nil
}

func runStep(ctx context.Context, step Step, real, embedded *Player) ([]finding, error) {
	realAnswer, err := real.Play(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("the real server: %w", err)
	}
	embeddedAnswer, err := embedded.Play(ctx, step)
	if err != nil {
		return nil, fmt.Errorf("the embedded server: %w", err)
	}
	realBody, embeddedBody := real.normal(realAnswer), embedded.normal(embeddedAnswer)
	for _, spec := range step.Shared {
		if err := share("body."+spec, realBody, embeddedBody); err != nil {
			return nil, err
		}
	}
	return compare("", realBody, embeddedBody), nil
}

// judge tells the tally of one step. A difference that is listed must be there: else the list would outlive its reasons.
func judge(step Step, findings []finding, err error, listed *Difference, tally Tally) {
	var unlisted []string
	used := map[string]bool{}
	for _, found := range findings {
		if field, meant := meantBy(listed, found); meant {
			used[field] = true
		} else {
			unlisted = append(unlisted, "\n    "+found.String())
		}
	}
	switch {
	case err != nil:
		tally.Fail("%s: %s: %v", step.Case, step.Request, err)
	case len(unlisted) > 0:
		tally.Fail("%s: %s%s", step.Case, step.Request, strings.Join(unlisted, ""))
	case listed == nil:
		tally.Pass()
	case len(used) < max(1, len(listed.Fields)):
		tally.Fail("%s: differences.yaml lists it, and %d of its fields no longer differ", step.Case, max(1, len(listed.Fields))-len(used))
	default:
		tally.Skip("%s: %s", step.Case, listed.Reason)
	}
}

// meantBy names the listed field that a finding belongs to.
func meantBy(listed *Difference, found finding) (field string, meant bool) {
	if listed == nil {
		return "", false
	}
	if len(listed.Fields) == 0 {
		return "", true
	}
	for _, field := range listed.Fields {
		if covers(field, found.path) {
			return field, true
		}
	}
	return "", false
}
