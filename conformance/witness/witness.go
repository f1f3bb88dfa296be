// Package witness says what quotas should say, by upstream's own evaluators, and whether any was ever exceeded.
//
// It watches etcd itself: every change of every kind comes there in one order, whatever becomes of kube-apiserver. Who asks gets
// two things. The one is judged on a list of all kinds at one revision: where status.used is not what upstream's CalculateUsage gives. The
// other on the whole history, change by change: which objects were stored though a limit did not allow for them, and when status.used was
// less than what was stored.
package witness

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"time"

	"kubequota.dev/conformance/cluster"
)

// Question is about the quotas of some namespaces.
type Question struct{ Namespaces []string }

// Answer to a question.
type Answer struct {
	// Revision at which the quotas were judged.
	Revision int64
	// Names is how many names of quotas were judged.
	Names int
	// Off are the names whose figure is not what upstream computes.
	Off []Figure `json:",omitempty"`
	// Exceeded are the worst cases of objects stored beyond a limit, by quota and name.
	Exceeded []Breach `json:",omitempty"`
	// Under are the worst cases of a figure below what was stored, by quota and name.
	Under []Breach `json:",omitempty"`
	// Error is why there is no answer, as while etcd is down.
	Error string `json:",omitempty"`
}

// Figure is what a quota says for a name, and what it should.
type Figure struct {
	Quota, Name, Says, Should string
	// Less is that it says less than it should: more could be created than is allowed.
	Less bool `json:",omitempty"`
}

func (f Figure) String() string {
	says := f.Says
	if says == "" {
		says = "nothing"
	}
	return fmt.Sprintf("%s %s: says %s, should %s", f.Quota, f.Name, says, f.Should)
}

// Breach is something that must never be.
type Breach struct {
	Quota, Name string
	// By how much, the worst time.
	By string
	// Stored and Allowed at that time.
	Stored, Allowed string
	// Object, Revision and At are of the change with which it was so.
	Object   string
	Revision int64
	At       time.Time
	// Times is at how many changes it was so.
	Times int
}

func (b Breach) String() string {
	return fmt.Sprintf("%s %s: %s stored, %s allowed, by %s at revision %d (%s), %d times", b.Quota, b.Name, b.Stored, b.Allowed, b.Object, b.Revision,
		b.At.Format("15:04:05.000"), b.Times)
}

// Run answers questions, a JSON line for each, until the input ends.
func Run(ctx context.Context, etcd string, input io.Reader, output io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	w := &witness{store: cluster.NewStore(etcd), history: newHistory(), moved: make(chan struct{})}
	revision, entries, err := w.store.List(ctx, prefix)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		w.history.apply(cluster.Change{Entry: entry}, time.Now())
	}
	w.seen = revision
	go func() { cancel(w.watch(ctx)) }()

	questions := bufio.NewScanner(input)
	answers := json.NewEncoder(output)
	for questions.Scan() {
		var question Question
		if err := json.Unmarshal(questions.Bytes(), &question); err != nil {
			return err
		}
		answer, err := w.answer(ctx, question)
		if err != nil {
			answer = Answer{Error: errors.Join(err, context.Cause(ctx)).Error()}
		}
		if err := answers.Encode(answer); err != nil {
			return err
		}
	}
	return questions.Err()
}

// prefix is where kube-apiserver keeps everything.
const prefix = "/registry/"

// fence is a key of our own: once the watch has shown it, it has shown everything before.
const fence = prefix + "kubequota-witness"

type witness struct {
	store *cluster.Store

	mutex   sync.Mutex
	history *history
	// seen is the revision up to which the watch has told.
	seen int64
	// moved is closed, and made anew, when seen has moved.
	moved chan struct{}
}

// watch follows all changes. A watch that breaks, as when etcd restarts, goes on where it ended; one whose history is gone can't.
func (w *witness) watch(ctx context.Context) error {
	for ctx.Err() == nil {
		w.mutex.Lock()
		from := w.seen + 1
		w.mutex.Unlock()
		err := w.store.Watch(ctx, prefix, from, func(change cluster.Change) {
			w.mutex.Lock()
			defer w.mutex.Unlock()
			w.history.apply(change, time.Now())
			w.seen = change.Revision
			close(w.moved)
			w.moved = make(chan struct{})
		})
		if errors.Is(err, cluster.ErrCompacted) {
			return fmt.Errorf("the history from revision %d on is gone before it was seen: %w", from, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
	return context.Cause(ctx)
}

// catchUp waits until the watch has told everything up to a revision.
func (w *witness) catchUp(ctx context.Context, revision int64) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 10*time.Second, errors.New("etcd's watch lags"))
	defer cancel()
	for {
		w.mutex.Lock()
		seen, moved := w.seen, w.moved
		w.mutex.Unlock()
		if seen >= revision {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (w *witness) answer(ctx context.Context, question Question) (Answer, error) {
	fenced, err := w.store.Put(ctx, fence, []byte(time.Now().String()))
	if err != nil {
		return Answer{}, err
	}
	revision, entries, err := w.store.List(ctx, prefix)
	if err != nil {
		return Answer{}, err
	}
	if err := w.catchUp(ctx, fenced); err != nil {
		return Answer{}, err
	}
	answer := Answer{Revision: revision}
	answer.Names, answer.Off, err = judge(entries, question.Namespaces)
	if err != nil {
		return Answer{}, err
	}
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for _, name := range question.Namespaces {
		space := w.history.namespaces[name]
		if space == nil {
			continue
		}
		for _, key := range slices.Sorted(maps.Keys(space.quotas)) {
			account := space.quotas[key]
			for _, name := range slices.Sorted(maps.Keys(account.exceeded)) {
				answer.Exceeded = append(answer.Exceeded, *account.exceeded[name])
			}
			for _, name := range slices.Sorted(maps.Keys(account.under)) {
				answer.Under = append(answer.Under, *account.under[name])
			}
		}
	}
	return answer, nil
}
