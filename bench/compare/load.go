package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"kubequota.dev/conformance/cluster"
)

// clients is how many requests populate a cluster at the same time.
const clients = 24

// attempts is how often a create that was refused for a conflict is tried again.
const attempts = 20

// population is what there is, and how it is changed.
type population struct {
	shape  shape
	client *cluster.Client
	status []byte

	made       atomic.Int64 // pods ever, for their names
	conflicts  atomic.Int64 // creates that were refused for a quota that others wrote
	namespaces []*inhabitants
}

// inhabitants are the pods of a namespace, by colour.
type inhabitants struct {
	name  string
	mutex sync.Mutex
	pods  [2][]string
	// answered is when each delete of the load under way was.
	answered []time.Time
}

func newPopulation(s shape, client *cluster.Client) *population {
	p := &population{shape: s, client: client, status: podStatus()}
	for n := range s.namespaces {
		p.namespaces = append(p.namespaces, &inhabitants{name: namespace(n)})
	}
	return p
}

// settle makes the namespaces and what is never deleted.
func (p *population) settle(ctx context.Context) error {
	if err := each(ctx, len(p.namespaces), func(n int) error {
		return p.send(ctx, http.MethodPost, "/api/v1/namespaces", jsonType, marshal(object{
			"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": namespace(n)},
		}))
	}); err != nil {
		return err
	}
	return each(ctx, len(p.namespaces)*p.shape.configMaps, func(n int) error {
		path := fmt.Sprintf("/api/v1/namespaces/%s/configmaps", namespace(n/p.shape.configMaps))
		return p.send(ctx, http.MethodPost, path, jsonType, configMap(fmt.Sprintf("settings-%04d", n%p.shape.configMaps)))
	})
}

// fill makes pods, red ones, until every namespace is full.
func (p *population) fill(ctx context.Context) error {
	var missing []*inhabitants
	for _, in := range p.namespaces {
		for range p.shape.pods - len(in.pods[red]) - len(in.pods[blue]) {
			missing = append(missing, in)
		}
	}
	return each(ctx, len(missing), func(n int) error { return p.create(ctx, missing[n], red) })
}

// clearQuotas makes all quotas anew, without a status.
func (p *population) clearQuotas(ctx context.Context) error {
	return each(ctx, len(p.namespaces), func(n int) error {
		path := fmt.Sprintf("/api/v1/namespaces/%s/resourcequotas", namespace(n))
		for name := range quotas() {
			if err := p.send(ctx, http.MethodDelete, path+"/"+name, "", nil); err != nil && !cluster.IsCode(err, http.StatusNotFound) {
				return err
			}
		}
		return nil
	})
}

func (p *population) makeQuotas(ctx context.Context) error {
	return each(ctx, len(p.namespaces), func(n int) error {
		path := fmt.Sprintf("/api/v1/namespaces/%s/resourcequotas", namespace(n))
		for _, quota := range quotas() {
			if err := p.send(ctx, http.MethodPost, path, jsonType, marshal(quota)); err != nil {
				return err
			}
		}
		return nil
	})
}

// expected is what all quotas must say of the pods that there are.
func (p *population) expected() map[key]map[string]int64 {
	all := map[key]map[string]int64{}
	for _, in := range p.namespaces {
		in.mutex.Lock()
		for name, used := range expected(len(in.pods[red]), len(in.pods[blue]), p.shape.configMaps) {
			all[key{in.name, name}] = used
		}
		in.mutex.Unlock()
	}
	return all
}

// victims is the colour of which every namespace has more.
func (p *population) victims() colour {
	least := [2]int{p.shape.pods, p.shape.pods}
	for _, in := range p.namespaces {
		for c := range in.pods {
			least[c] = min(least[c], len(in.pods[c]))
		}
	}
	if least[red] >= least[blue] {
		return red
	}
	return blue
}

// churn deletes pods of a colour and creates as many of the other, in namespace after namespace, at a steady rate. It returns how many events
// that made: a create is two, because a pod's status follows.
func (p *population) churn(ctx context.Context, c colour, perSecond int, length time.Duration) (events int, err error) {
	for _, in := range p.namespaces {
		in.answered = nil
	}
	var under sync.WaitGroup
	var failures collected
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	n := 0
	for ; n < int(length.Seconds()*float64(perSecond)); n++ {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-ticker.C:
		}
		in := p.namespaces[n%len(p.namespaces)]
		under.Go(func() { failures.add(p.create(ctx, in, c.other())) })
		under.Go(func() { failures.add(p.delete(ctx, in, c)) })
	}
	under.Wait()
	return 3 * n, failures.err()
}

// storm deletes all pods as fast as the server takes it.
func (p *population) storm(ctx context.Context, c colour) (events int, err error) {
	var all []*inhabitants
	for i := range p.shape.pods {
		for _, in := range p.namespaces {
			if i == 0 {
				in.answered = nil
			}
			all = append(all, in)
		}
	}
	return len(all), each(ctx, len(all), func(n int) error { return p.delete(ctx, all[n], c) })
}

// answered is when the deletes of the last load were answered, by namespace.
func (p *population) answered() map[string][]time.Time {
	all := map[string][]time.Time{}
	for _, in := range p.namespaces {
		all[in.name] = in.answered
	}
	return all
}

func (p *population) create(ctx context.Context, in *inhabitants, c colour) error {
	name := fmt.Sprintf("checkout-6c9b7f5d84-%06d", p.made.Add(1))
	path := "/api/v1/namespaces/" + in.name + "/pods"
	// The admission plugin gives up on a quota that is written too often meanwhile, and a client comes again.
	err := p.send(ctx, http.MethodPost, path, jsonType, pod(name, in.name, c))
	for range attempts {
		if !cluster.IsCode(err, http.StatusConflict) {
			break
		}
		p.conflicts.Add(1)
		err = p.send(ctx, http.MethodPost, path, jsonType, pod(name, in.name, c))
	}
	if err != nil {
		return err
	}
	if err := p.send(ctx, http.MethodPatch, path+"/"+name+"/status", mergePatch, p.status); err != nil {
		return err
	}
	in.mutex.Lock()
	defer in.mutex.Unlock()
	in.pods[c] = append(in.pods[c], name)
	return nil
}

func (p *population) delete(ctx context.Context, in *inhabitants, c colour) error {
	in.mutex.Lock()
	if len(in.pods[c]) == 0 {
		in.mutex.Unlock()
		return fmt.Errorf("no pod of %s is left that could be deleted: the load is too long for the shape", in.name)
	}
	name := in.pods[c][0]
	in.pods[c] = in.pods[c][1:]
	in.mutex.Unlock()
	err := p.send(ctx, http.MethodDelete, "/api/v1/namespaces/"+in.name+"/pods/"+name+"?gracePeriodSeconds=0", "", nil)
	in.mutex.Lock()
	defer in.mutex.Unlock()
	in.answered = append(in.answered, time.Now())
	return err
}

// podBytes is the size of a pod in JSON.
func (p *population) podBytes(ctx context.Context) (int, error) {
	text, err := p.client.Send(ctx, http.MethodGet, "/api/v1/pods?limit=1", "", nil)
	return len(text), err
}

const jsonType, mergePatch = "application/json", "application/merge-patch+json"

// send sends a request and asks no more of its answer than whether it worked.
func (p *population) send(ctx context.Context, method, path, contentType string, body []byte) error {
	_, err := p.client.Send(ctx, method, path, contentType, body)
	return err
}

// each does n things, some at the same time, until one fails.
func each(ctx context.Context, n int, do func(n int) error) error {
	var next atomic.Int64
	var all sync.WaitGroup
	var failures collected
	for range min(n, clients) {
		all.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil && failures.err() == nil; i = int(next.Add(1)) - 1 {
				failures.add(do(i))
			}
		})
	}
	all.Wait()
	return errors.Join(failures.err(), context.Cause(ctx))
}

// collected keeps the first of many errors.
type collected struct {
	mutex sync.Mutex
	first error
}

func (c *collected) add(err error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.first == nil {
		c.first = err
	}
}

func (c *collected) err() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.first
}
