package cluster

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"syscall"
	"time"
)

// The names of the processes that Start starts.
const (
	EtcdProcess   = "etcd"
	ServerProcess = "kube-apiserver"
)

// Kill ends a process as a crash would (SIGKILL). What relies on the cluster goes on.
func (c *Cluster) Kill(name string) error {
	p, _, err := c.find(name)
	if err == nil {
		p.kill()
	}
	return err
}

// Terminate asks a process to end (SIGTERM) and waits for it. What relies on the cluster goes on.
func (c *Cluster) Terminate(name string) error {
	p, _, err := c.find(name)
	if err != nil {
		return err
	}
	return p.stop(20 * time.Second)
}

// Pause lets a process stand still (SIGSTOP) until Resume.
func (c *Cluster) Pause(name string) error { return c.signal(name, syscall.SIGSTOP) }

// Resume lets a process that stands still go on.
func (c *Cluster) Resume(name string) error { return c.signal(name, syscall.SIGCONT) }

func (c *Cluster) signal(name string, signal syscall.Signal) error {
	p, _, err := c.find(name)
	if err != nil {
		return err
	}
	if err := p.cmd.Process.Signal(signal); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Restart starts a process that has ended again, with the same arguments: same ports, same data. env is what is now added to its environment.
func (c *Cluster) Restart(name string, env ...string) error {
	old, at, err := c.find(name)
	if err != nil {
		return err
	}
	if old.running() {
		return fmt.Errorf("%s is still running", name)
	}
	again := old.program
	again.env = env
	p, err := startProcess(c.options.Logs, again, c.lose)
	if err != nil {
		return err
	}
	c.processes[at] = p
	return nil
}

// Running says whether a process of this name was started and has not ended.
func (c *Cluster) Running(name string) bool {
	p, _, err := c.find(name)
	return err == nil && p.running()
}

// PID is a process's id, by which its costs are read.
func (c *Cluster) PID(name string) (int, error) {
	p, _, err := c.find(name)
	if err != nil {
		return 0, err
	}
	return p.cmd.Process.Pid, nil
}

func (c *Cluster) find(name string) (*process, int, error) {
	at := slices.IndexFunc(c.processes, func(p *process) bool { return p.name == name })
	if at < 0 {
		return nil, at, fmt.Errorf("no process is called %s", name)
	}
	return c.processes[at], at, nil
}

// FreePort finds a port of loopback that nothing uses.
func FreePort() (string, error) {
	ports, err := freePorts(1)
	if err != nil {
		return "", err
	}
	return ports[0], nil
}

// Serve answers on loopback, over TLS that the authority ca vouches for, as a webhook has to. It ends with the harness, or when stop is called.
func (c *Cluster) Serve(handler http.Handler) (url string, ca []byte, stop func(), err error) {
	if ca, err = os.ReadFile(c.pki.ca); err != nil {
		return "", nil, nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, nil, err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = server.ServeTLS(listener, c.pki.serverCert, c.pki.serverKey) }()
	return "https://" + listener.Addr().String(), ca, func() { _ = server.Close() }, nil
}
