package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// peakMemory is the most memory that a process has had resident, in KiB.
func peakMemory(pid int) (int, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			return strconv.Atoi(fields[1])
		}
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", pid)
}

// meter passes connections on to a server and counts what comes back: TLS as it is, so the bytes on the wire.
type meter struct {
	address  string
	received atomic.Int64
	listener net.Listener
}

func newMeter(server string) (*meter, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &meter{address: listener.Addr().String(), listener: listener}
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go m.carry(from, server)
		}
	}()
	return m, nil
}

func (m *meter) carry(from net.Conn, server string) {
	defer from.Close()
	to, err := net.Dial("tcp", server)
	if err != nil {
		return
	}
	defer to.Close()
	go func() {
		_, _ = io.Copy(to, from)
		_ = to.Close()
	}()
	buffer := make([]byte, 64<<10)
	for {
		n, err := to.Read(buffer)
		m.received.Add(int64(n))
		if _, wrong := from.Write(buffer[:n]); wrong != nil || err != nil {
			return
		}
	}
}

func (m *meter) close() { _ = m.listener.Close() }

// auditPolicy has the server tell of writes of quotas' status, and of nothing else.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, resources: [{group: "", resources: [resourcequotas/status]}]}
- {level: None}
`

// writes are those of quotas' status.
type writes struct{ landed, refused int }

// readAudit counts the writes that a controller made since an offset of the audit log. The admission plugin's, which the server makes itself,
// are not among them. It returns where the log ends now.
func readAudit(path string, offset int64) (writes, int64, error) {
	var made writes
	file, err := os.Open(path)
	if os.IsNotExist(err) {
		return made, 0, nil // nothing was told yet
	} else if err != nil {
		return made, offset, err
	}
	defer file.Close()
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return made, offset, err
	}
	lines := bufio.NewReader(file)
	for {
		line, err := lines.ReadBytes('\n')
		if err == io.EOF {
			return made, offset, nil // half a line is read the next time
		} else if err != nil {
			return made, offset, err
		}
		offset += int64(len(line))
		var event struct {
			Verb           string
			User           struct{ Username string }
			ResponseStatus struct{ Code int }
		}
		if err := json.Unmarshal(line, &event); err != nil {
			return made, offset, fmt.Errorf("%s: %w", path, err)
		}
		switch {
		case event.Verb != "update" && event.Verb != "patch", event.User.Username == "system:apiserver":
		case event.ResponseStatus.Code < 300:
			made.landed++
		default:
			made.refused++
		}
	}
}
