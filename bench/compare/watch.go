package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"kubequota.dev/conformance/cluster"
)

// key names a quota.
type key struct{ namespace, name string }

// observer follows what all quotas say they have used.
type observer struct {
	mutex    sync.Mutex
	used     map[key]map[string]string
	expected map[key]map[string]int64
	wrong    map[key]string // and why
	// righted is when an event last came that made a wrong quota right.
	righted time.Time
	falls   map[key]*fall
	// counted is what deletes take away, while they are followed.
	counted string
	// news is told after each event.
	news chan struct{}
}

// fall is how a quota comes to show deletes.
type fall struct {
	from  int64 // thousandths, before any
	shown []time.Time
}

func newObserver() *observer {
	return &observer{
		used: map[key]map[string]string{}, expected: map[key]map[string]int64{}, wrong: map[key]string{}, falls: map[key]*fall{},
		news: make(chan struct{}, 1),
	}
}

// follow watches until ctx ends.
func (o *observer) follow(ctx context.Context, client *cluster.Client) error {
	list, err := client.Get(ctx, "/api/v1/resourcequotas?limit=1")
	if err != nil {
		return err
	}
	revision, _ := list["metadata"].(object)["resourceVersion"].(string)
	for ctx.Err() == nil {
		if revision, err = o.watch(ctx, client, revision); err != nil && ctx.Err() == nil {
			return fmt.Errorf("watching quotas: %w", err)
		}
	}
	return nil
}

// watch is one watch, from a revision to the one at which it was closed. The server is asked to close it, before the client's deadline does.
func (o *observer) watch(ctx context.Context, client *cluster.Client, revision string) (string, error) {
	path := "/api/v1/resourcequotas?watch=1&allowWatchBookmarks=true&timeoutSeconds=45&resourceVersion=" + revision
	answer, err := client.Request(ctx, http.MethodGet, path, http.Header{}, nil)
	if err != nil {
		return revision, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return revision, errors.New(answer.Status)
	}
	for decoder := json.NewDecoder(answer.Body); ; {
		var event struct {
			Type   string
			Object struct {
				Metadata struct{ Namespace, Name, ResourceVersion string }
				Status   struct{ Used map[string]string }
				Message  string
			}
		}
		if err := decoder.Decode(&event); errors.Is(err, io.EOF) {
			return revision, nil
		} else if err != nil {
			return revision, err
		}
		now := time.Now()
		if event.Type == "ERROR" {
			return revision, errors.New(event.Object.Message)
		}
		revision = event.Object.Metadata.ResourceVersion
		if event.Type != "BOOKMARK" {
			o.observe(key{event.Object.Metadata.Namespace, event.Object.Metadata.Name}, event.Object.Status.Used, event.Type == "DELETED", now)
		}
	}
}

func (o *observer) observe(k key, used map[string]string, deleted bool, now time.Time) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	if deleted {
		used = nil
	}
	o.used[k] = used
	if o.judge(k) {
		o.righted = now
	}
	if fall := o.falls[k]; fall != nil {
		if left, err := milli(used[o.counted]); err == nil {
			for int64(len(fall.shown)) < (fall.from-left)/1000 {
				fall.shown = append(fall.shown, now)
			}
		}
	}
	select {
	case o.news <- struct{}{}:
	default:
	}
}

// expect says what quotas must come to say.
func (o *observer) expect(expected map[key]map[string]int64) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.expected, o.wrong = expected, map[key]string{}
	for k := range expected {
		o.judge(k)
	}
}

// judge notes whether a quota says what it must, and whether that is news.
func (o *observer) judge(k key) (righted bool) {
	wanted, known := o.expected[k]
	if !known {
		return false
	}
	var why string
	for name, amount := range wanted {
		text, found := o.used[k][name]
		if got, err := milli(text); !found || err != nil || got != amount {
			why = fmt.Sprintf("%s of %s/%s is %q, not %d thousandths", name, k.namespace, k.name, text, amount)
		}
	}
	_, before := o.wrong[k]
	if delete(o.wrong, k); why != "" {
		o.wrong[k] = why
	}
	return before && why == ""
}

// await waits until every quota says what it must, and returns when the last one came to.
func (o *observer) await(ctx context.Context, deadline time.Duration) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for {
		o.mutex.Lock()
		wrong, righted := len(o.wrong), o.righted
		var example string
		for _, why := range o.wrong {
			example = why
		}
		o.mutex.Unlock()
		if wrong == 0 {
			return righted, nil
		}
		select {
		case <-o.news:
		case <-ctx.Done():
			return righted, fmt.Errorf("%d quotas are wrong after %s, as: %s", wrong, deadline, example)
		}
	}
}

// wrongNow is how many quotas do not say what they must.
func (o *observer) wrongNow() int {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return len(o.wrong)
}

// count begins to follow how quotas come to show deletes of one colour.
func (o *observer) count(c colour) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	o.counted, o.falls = c.used(), map[key]*fall{}
	for k := range o.expected {
		if from, err := milli(o.used[k][o.counted]); err == nil {
			o.falls[k] = &fall{from: from}
		}
	}
}

// latencies are the times from each delete's answer until each quota of its namespace showed it. One that was never shown takes until now,
// and is counted.
func (o *observer) latencies(answered map[string][]time.Time) (latencies []time.Duration, unseen int) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	now := time.Now()
	for k, fall := range o.falls {
		deletes := slices.SortedFunc(slices.Values(answered[k.namespace]), time.Time.Compare)
		for i, at := range deletes {
			shown := now
			if i < len(fall.shown) {
				shown = fall.shown[i]
			} else {
				unseen++
			}
			// The watch may be quicker than the answer.
			latencies = append(latencies, max(0, shown.Sub(at)))
		}
	}
	slices.Sort(latencies)
	return latencies, unseen
}
