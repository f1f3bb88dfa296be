package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"kubequota.dev/bench/measure"
	"kubequota.dev/conformance/cluster"
)

// meters are what the processes of a side have counted since they were started.
type meters struct {
	// admission and reviews count how often quotas were asked about creates: by kube-apiserver's clock, and by the webhook's own.
	admission, reviews timed
	// writes are those of quotas' statuses, conflicts those of them that met another; batches are the webhook's.
	writes, conflicts, batches float64
	// busy is the processor time of each process.
	busy map[string]time.Duration
}

type timed struct{ count, seconds float64 }

// spent is what a load took.
type spent struct{ meters }

// The processes, as reports name them.
const (
	serverTime    = "kube-apiserver"
	etcdTime      = "etcd"
	kubequotaTime = "kubequota"
	clientsTime   = "clients"
)

func (m meters) since(before meters) spent {
	m.admission, m.reviews = m.admission.since(before.admission), m.reviews.since(before.reviews)
	m.writes -= before.writes
	m.conflicts -= before.conflicts
	m.batches -= before.batches
	busy := map[string]time.Duration{}
	for name, time := range m.busy {
		busy[name] = time - before.busy[name]
	}
	m.busy = busy
	return spent{m}
}

func (t timed) since(before timed) timed {
	return timed{count: t.count - before.count, seconds: t.seconds - before.seconds}
}

// counted reads all but the processor time, which reading costs some of.
func (s *side) counted(ctx context.Context) (meters, error) {
	var m meters
	response, err := s.cluster.Admin.Request(ctx, http.MethodGet, "/metrics", http.Header{}, nil)
	if err := m.read(response, err); err != nil {
		return m, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.metrics+"/metrics", nil)
	if err != nil {
		return m, err
	}
	response, err = http.DefaultClient.Do(request)
	if err := m.read(response, err); err != nil {
		return m, err
	}
	return m, nil
}

// read adds what a server's metrics say.
func (m *meters) read(response *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(response.Body)
		return fmt.Errorf("metrics: %s: %s", response.Status, text)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		into := m.of(line)
		if into == nil {
			continue
		}
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if err != nil {
			return fmt.Errorf("metrics: %s: %w", line, err)
		}
		*into += value
		if strings.HasPrefix(line, "apiserver_request_total") && strings.Contains(line, `code="409"`) {
			m.conflicts += value
		}
	}
	return lines.Err()
}

// of is what a line of metrics belongs to, if anything.
func (m *meters) of(line string) *float64 {
	has := func(labels ...string) bool {
		for _, label := range labels {
			if !strings.Contains(line, label) {
				return false
			}
		}
		return true
	}
	name, _, _ := strings.Cut(line, "{")
	name, _, _ = strings.Cut(name, " ")
	switch name {
	case "apiserver_admission_controller_admission_duration_seconds_sum":
		if has(`name="ResourceQuota"`, `operation="CREATE"`, `type="validate"`) {
			return &m.admission.seconds
		}
	case "apiserver_admission_controller_admission_duration_seconds_count":
		if has(`name="ResourceQuota"`, `operation="CREATE"`, `type="validate"`) {
			return &m.admission.count
		}
	case "apiserver_admission_webhook_admission_duration_seconds_sum":
		if has(`operation="CREATE"`) {
			return &m.admission.seconds
		}
	case "apiserver_admission_webhook_admission_duration_seconds_count":
		if has(`operation="CREATE"`) {
			return &m.admission.count
		}
	case "apiserver_request_total":
		if has(`resource="resourcequotas"`, `subresource="status"`) {
			return &m.writes
		}
	case "kubequota_admission_duration_seconds_sum":
		return &m.reviews.seconds
	case "kubequota_admission_duration_seconds_count":
		return &m.reviews.count
	case "kubequota_admission_batch_size_count":
		return &m.batches
	}
	return nil
}

// busy is the processor time of each process so far.
func (s *side) busy() (map[string]time.Duration, error) {
	busy := map[string]time.Duration{}
	for as, name := range map[string]string{serverTime: cluster.ServerProcess, etcdTime: cluster.EtcdProcess, kubequotaTime: s.process} {
		id, err := s.cluster.PID(name)
		if err != nil {
			return nil, err
		}
		if busy[as], err = measure.ProcessorTime(id); err != nil {
			return nil, err
		}
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return nil, err
	}
	busy[clientsTime] = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return busy, nil
}
