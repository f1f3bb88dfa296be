// Package oracle asks Kubernetes' own packages and kubequota's the same questions, and compares the answers.
//
// A part makes random questions of one subject. Upstream answers in this process; kubequota's answers come from the Rust program
// `answers` over a pipe. Every answer must be the same, but for the differences of docs/differences.md, which stand in differences.go.
package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"
)

// Options of a run.
type Options struct {
	// Answers is the path of the Rust program.
	Answers string
	// Corpus is a folder with a file PART.jsonl for each part: questions that once were answered differently, asked before all others.
	Corpus string
	// Seed decides the random questions.
	Seed uint64
	// Cases overrides the number of random questions of every part, if it is not 0.
	Cases int
	// Only names the parts to run; all, if it is empty.
	Only []string
}

// Result of a part.
type Result struct {
	Part   string
	Cases  int
	Passed int
	// Skipped counts the cases that differ as docs/differences.md says, by id.
	Skipped map[string]int
	// Failures, smallest first.
	Failures []Failure
	Took     time.Duration
}

// Failure is a question with different answers.
type Failure struct {
	Question     json.RawMessage
	Theirs, Ours json.RawMessage
}

func (f Failure) String() string {
	text := string(f.Question)
	var theirs, ours any
	if json.Unmarshal(f.Theirs, &theirs) != nil || json.Unmarshal(f.Ours, &ours) != nil {
		return text
	}
	for _, line := range apart("", theirs, ours) {
		text += "\n  " + line
	}
	return text
}

// keptFailures bounds how many failures of a part are reduced and shown; all are counted.
const keptFailures = 20

// Part is one subject.
type Part interface {
	Name() string
	run(ctx context.Context, options Options) (Result, int, error)
}

// atOnce is how many parts run at the same time: each keeps one core busy here, and now and then another with kubequota's answers.
const atOnce = 2

// Run asks everything. failed counts all cases whose answers differ.
func Run(ctx context.Context, options Options) (results []Result, failed int, err error) {
	var parts []Part
	for _, part := range Parts {
		if len(options.Only) == 0 || slices.Contains(options.Only, part.Name()) {
			parts = append(parts, part)
		}
	}
	if len(parts) == 0 {
		return nil, 0, fmt.Errorf("no part is called %q", options.Only)
	}
	results = make([]Result, len(parts))
	failures, errs := make([]int, len(parts)), make([]error, len(parts))
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for i, part := range parts {
		all.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			if results[i], failures[i], errs[i] = part.run(ctx, options); errs[i] != nil {
				errs[i] = fmt.Errorf("%s: %w", part.Name(), errs[i])
			}
		})
	}
	all.Wait()
	for _, count := range failures {
		failed += count
	}
	return results, failed, errors.Join(errs...)
}

// Parts are all subjects, in the order in which they begin.
var Parts = []Part{
	quantities,
	lists,
	objects,
	namespaces,
	admissions,
}

// part implements Part for questions Q and answers A.
type part[Q, A any] struct {
	name string
	// key is the kind of question, as the Rust program calls it.
	key string
	// cases is how many random questions are asked if nobody says otherwise.
	cases int
	ask   func(*Random) Q
	// upstream answers; it may panic on a question that makes no sense.
	upstream func(Q) A
	// meant are the differences that can show in this part.
	meant []difference[Q, A]
}

func (p part[Q, A]) Name() string { return p.name }

// batch is how many questions are in flight at once.
const batch = 256

func (p part[Q, A]) run(ctx context.Context, options Options) (Result, int, error) {
	begun := time.Now()
	result := Result{Part: p.name, Skipped: map[string]int{}}
	answers, err := start(ctx, options.Answers)
	if err != nil {
		return result, 0, err
	}
	defer answers.stop()

	kept, err := p.corpus(options.Corpus)
	if err != nil {
		return result, 0, err
	}
	cases := p.cases
	if options.Cases != 0 {
		cases = options.Cases
	}
	random := random(options.Seed, p.name)
	var found []Q
	for asked := -len(kept); asked < cases; {
		var questions []Q
		for len(questions) < batch && asked < cases {
			if asked < 0 {
				questions = append(questions, kept[len(kept)+asked])
			} else {
				questions = append(questions, p.ask(random))
			}
			asked++
		}
		verdicts, err := p.compare(answers, questions)
		if err != nil {
			return result, 0, err
		}
		for i, v := range verdicts {
			result.Cases++
			switch {
			case v.same:
				result.Passed++
			case v.meant != "":
				result.Skipped[v.meant]++
			default:
				found = append(found, questions[i])
			}
		}
	}
	for _, question := range found[:min(len(found), keptFailures)] {
		small, err := p.reduce(answers, question)
		if err != nil {
			return result, len(found), err
		}
		result.Failures = append(result.Failures, small)
	}
	slices.SortStableFunc(result.Failures, func(a, b Failure) int { return len(a.Question) - len(b.Question) })
	result.Failures = slices.CompactFunc(result.Failures, func(a, b Failure) bool { return bytes.Equal(a.Question, b.Question) })
	result.Took = time.Since(begun)
	return result, len(found), nil
}

// random begins anew for each part, so that a part asks the same whichever others run.
func random(seed uint64, part string) *Random {
	hash := fnv.New64a()
	hash.Write([]byte(part))
	return &Random{rand.New(rand.NewPCG(seed, hash.Sum64()))}
}

// verdict on one question.
type verdict struct {
	same         bool
	meant        string
	theirs, ours json.RawMessage
}

func (p part[Q, A]) compare(answers *process, questions []Q) ([]verdict, error) {
	lines := make([][]byte, len(questions))
	for i, question := range questions {
		line, err := p.line(question)
		if err != nil {
			return nil, err
		}
		lines[i] = line
	}
	wait := answers.send(lines)
	theirs := make([]A, len(questions))
	for i := range questions {
		answer, err := p.answer(questions[i])
		if err != nil {
			return nil, fmt.Errorf("%w\nquestion %s", err, lines[i])
		}
		theirs[i] = answer
	}
	verdicts := make([]verdict, len(questions))
	for i := range questions {
		text, err := answers.receive()
		if err != nil {
			return nil, fmt.Errorf("%w\nquestion %s", err, lines[i])
		}
		var ours A
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.DisallowUnknownFields() // nothing may be answered that is not compared
		if err := decoder.Decode(&ours); err != nil {
			return nil, fmt.Errorf("the answer can't be read: %w\nquestion %s\nanswer %s", err, lines[i], text)
		}
		if verdicts[i].same = reflect.DeepEqual(theirs[i], ours); verdicts[i].same {
			continue
		}
		verdicts[i].theirs, verdicts[i].ours = raw(theirs[i]), raw(ours)
		for _, d := range p.meant {
			if d.explains(questions[i], theirs[i], ours) {
				verdicts[i].meant = d.id
				break
			}
		}
	}
	return verdicts, wait()
}

func (p part[Q, A]) line(question Q) ([]byte, error) {
	return json.Marshal(map[string]Q{p.key: question})
}

// answer is upstream's. A question that makes upstream panic is an error: it proves nothing.
func (p part[Q, A]) answer(question Q) (answer A, err error) {
	defer func() {
		if reason := recover(); reason != nil {
			err = fmt.Errorf("upstream can't answer: %v", reason)
		}
	}()
	return p.upstream(question), nil
}

func (p part[Q, A]) corpus(folder string) ([]Q, error) {
	if folder == "" {
		return nil, nil
	}
	content, err := os.ReadFile(filepath.Join(folder, p.name+".jsonl"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var questions []Q
	for number, line := range bytes.Split(bytes.TrimSpace(content), []byte("\n")) {
		question, err := p.read(line)
		if err != nil {
			return nil, fmt.Errorf("corpus %s, line %d: %w", p.name, number+1, err)
		}
		questions = append(questions, question)
	}
	return questions, nil
}

func (p part[Q, A]) read(line []byte) (question Q, err error) {
	var outer map[string]Q
	if err := json.Unmarshal(line, &outer); err != nil {
		return question, err
	}
	question, known := outer[p.key]
	if !known {
		return question, fmt.Errorf("no %q in %s", p.key, line)
	}
	return question, nil
}
