package suites

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/objects"
)

// clients is how many clients press on a namespace at once.
const clients = 32

// server is what the clients of a crowd turn to.
type server interface {
	Request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error)
}

// crowd is many clients in one namespace, which is full: each creates, goes on trying where it is refused, and deletes what it got.
type crowd struct {
	server    server
	namespace string
	style     style
	cancel    context.CancelFunc
	done      sync.WaitGroup

	mutex sync.Mutex
	sums  map[string]int
	// failed are the requests that neither did what they should nor were refused by a quota.
	failed []failure
	waits  []time.Duration
}

// style is what the clients of a crowd do.
type style struct {
	// generated leaves names to the server; resizes changes pods in place.
	generated, resizes bool
	// query is added to every creation.
	query string
	// forgives says whether an answer that is neither success nor a quota's refusal is as it should be.
	forgives func(failure) bool
}

// failure is a request that failed, by its kind.
type failure struct {
	kind, text   string
	began, ended time.Time
}

func (f failure) String() string {
	return fmt.Sprintf("%s (%s to %s): %s", f.kind, f.began.Format("15:04:05.000"), f.ended.Format("15:04:05.000"), f.text)
}

func startCrowd(ctx context.Context, server server, namespace string, seed uint64, style style) *crowd {
	ctx, cancel := context.WithCancel(ctx)
	c := &crowd{server: server, namespace: namespace, style: style, cancel: cancel, sums: map[string]int{}}
	for i := range clients {
		member := &member{crowd: c, name: fmt.Sprintf("c%d", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		c.done.Go(func() {
			for ctx.Err() == nil {
				member.step(ctx)
				_ = cluster.Sleep(ctx, time.Duration(5+member.random.IntN(30))*time.Millisecond)
			}
		})
	}
	return c
}

// stop ends it: no request is under way when it returns.
func (c *crowd) stop() {
	c.cancel()
	c.done.Wait()
}

func (c *crowd) count(what string) { c.mutex.Lock(); c.sums[what]++; c.mutex.Unlock() }

func (c *crowd) sum(what string) int {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.sums[what]
}

// What becomes of requests.
const (
	created  = "created"
	resized  = "resized"
	deleted  = "deleted"
	refused  = "refused by a quota"
	comeBack = "told to come again"
)

// member is one client.
type member struct {
	*crowd
	name   string
	number int
	random *rand.Rand
	// held are the paths of what it has made.
	held []string
}

func (m *member) step(ctx context.Context) {
	switch n := m.random.IntN(100); {
	case len(m.held) > 0 && n < 40 || len(m.held) > 2:
		m.remove(ctx)
	case m.style.resizes && len(m.held) > 0 && n < 80:
		m.resize(ctx)
	default:
		m.create(ctx)
	}
}

func (m *member) create(ctx context.Context) {
	resource, object := "pods", cpuPod(pickOf(m.random, "100m", "250m", "400m"))
	if !m.style.resizes && m.random.IntN(3) == 0 {
		resource, object = "configmaps", objects.M{"kind": "ConfigMap", "apiVersion": "v1"}
	}
	m.number++
	name := fmt.Sprintf("%s-%d", m.name, m.number)
	object["metadata"] = objects.M{"name": name}
	if m.style.generated {
		object["metadata"] = objects.M{"generateName": m.name + "-"}
	}
	path := collection(m.namespace, resource)
	answer, end := m.send(ctx, http.MethodPost, path+m.style.query, object, created)
	switch {
	case m.style.query != "":
	case end == done:
		meta, _ := answer["metadata"].(objects.M)
		m.held = append(m.held, fmt.Sprint(path, "/", meta["name"]))
	case end == unsure && !m.style.generated:
		m.held = append(m.held, path+"/"+name)
	}
}

func (m *member) remove(ctx context.Context) {
	at := m.random.IntN(len(m.held))
	if _, end := m.send(ctx, http.MethodDelete, m.held[at]+"?gracePeriodSeconds=0", nil, deleted); end == done {
		m.held = slices.Delete(m.held, at, at+1)
	}
}

func (m *member) resize(ctx context.Context) {
	cpu := pickOf(m.random, "50m", "200m", "350m", "500m")
	_, _ = m.send(ctx, http.MethodPatch, m.held[m.random.IntN(len(m.held))]+"/resize", objects.M{"spec": objects.M{"containers": objects.L{
		objects.M{"name": "c", "resources": objects.M{"requests": objects.M{"cpu": cpu}}}}}}, resized)
}

func cpuPod(cpu string) objects.M {
	pod := faultPod(objects.M{"requests": objects.M{"cpu": cpu}})
	delete(pod["spec"].(objects.M), "nodeName")
	return pod
}

// comesBack is how often a client does as it is told and comes again, as client-go has it.
const comesBack = 10

// end is how a request ended for who sent it.
type end int

const (
	done end = iota
	notDone
	// unsure is that it may have been done all the same.
	unsure
)

// send sends a request, and again where the server says when. What is done is counted as what.
func (m *member) send(ctx context.Context, method, path string, body objects.M, what string) (answer objects.M, end end) {
	for again := 0; ; again++ {
		began := time.Now()
		code, retry, text, err := m.ask(method, path, body)
		outcome := failure{began: began, ended: time.Now(), text: text, kind: kindOf(code, text, err)}
		switch {
		case err != nil:
			outcome.text = err.Error()
		case code < 300, code == http.StatusNotFound && method != http.MethodPost:
			m.count(what)
			if method == http.MethodPost {
				m.mutex.Lock()
				m.waits = append(m.waits, outcome.ended.Sub(began))
				m.mutex.Unlock()
			}
			if json.Unmarshal([]byte(text), &answer) != nil {
				return nil, unsure
			}
			return answer, done
		case code == http.StatusForbidden && strings.Contains(text, "exceeded quota: "):
			m.count(refused)
			return nil, notDone
		case retry > 0 && again < comesBack && (code == http.StatusTooManyRequests || code >= 500):
			m.count(comeBack)
			if cluster.Sleep(ctx, retry) == nil {
				continue
			}
			return nil, notDone
		}
		if m.style.forgives != nil && m.style.forgives(outcome) {
			m.count(onPurpose)
			return nil, notDone
		}
		m.mutex.Lock()
		m.failed = append(m.failed, outcome)
		m.mutex.Unlock()
		if err != nil || code >= 500 {
			return nil, unsure
		}
		return nil, notDone
	}
}

func (m *member) ask(method, path string, body objects.M) (code int, retry time.Duration, text string, err error) {
	// An answer that is awaited when the load stops is waited for.
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	header := http.Header{"Content-Type": {"application/json"}}
	if method == http.MethodPatch {
		header.Set("Content-Type", "application/strategic-merge-patch+json")
	}
	var content []byte
	if body != nil {
		if content, err = json.Marshal(body); err != nil {
			return 0, 0, "", err
		}
	}
	response, err := m.server.Request(ctx, method, path, header, content)
	if err != nil {
		return 0, 0, "", err
	}
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	if seconds, notGiven := strconv.Atoi(response.Header.Get("Retry-After")); notGiven == nil {
		retry = time.Duration(seconds) * time.Second
	}
	return response.StatusCode, retry, string(read), err
}

// noAnswer is the kind of a request whose connection failed.
const noAnswer = "no answer"

// kindOf says of what kind an answer is: those of one kind are the same to who gets them.
func kindOf(code int, text string, err error) string {
	var network net.Error
	switch {
	case errors.As(err, &network) && network.Timeout():
		return "no answer in time"
	case err != nil:
		return noAnswer
	}
	var status struct{ Message, Reason string }
	if json.Unmarshal([]byte(text), &status) != nil {
		status.Message = text
	}
	message := status.Message
	for _, known := range kinds {
		if known.pattern.MatchString(message) {
			message = known.name
			break
		}
	}
	if message = varying.ReplaceAllString(message, "…"); len(message) > 90 {
		message = message[:90] + "…"
	}
	return strings.TrimSpace(fmt.Sprintf("%d %s: %s", code, status.Reason, message))
}

var varying = regexp.MustCompile(`"[^"]*"|[0-9]+[0-9a-z.:]*`)

// kinds are messages that come in many words.
var kinds = []struct {
	name    string
	pattern *regexp.Regexp
}{
	{"the webhook could not be called", regexp.MustCompile(`failed calling webhook`)},
	{"undecided", regexp.MustCompile(`quota could not be charged`)},
	{"etcd", regexp.MustCompile(`etcdserver|rpc error|storage`)},
}
