package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"syscall"
	"time"
)

// process is a program that runs until it is stopped. Its output goes to NAME.log in the run's folder.
type process struct {
	name     string
	log      string
	cmd      *exec.Cmd
	ended    chan struct{}
	stopping atomic.Bool
}

// startProcess starts a program. onUnexpectedEnd is called when it ends without having been asked to.
func startProcess(folder, name, path string, args []string, onUnexpectedEnd func(error)) (*process, error) {
	p := &process{name: name, log: filepath.Join(folder, name+".log"), ended: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(path, args...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	// A process group of its own: an interrupt typed at the terminal must reach the harness only, which stops things in their order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	go func() {
		// How it ended is in ProcessState.
		_ = p.cmd.Wait()
		close(p.ended)
		if !p.stopping.Load() {
			onUnexpectedEnd(fmt.Errorf("%s ended by itself (%v); see %s.log", name, p.cmd.ProcessState, name))
		}
	}()
	return p, nil
}

// stop asks the process to end, and ends it by force where it does not within the grace.
func (p *process) stop(grace time.Duration) error {
	p.stopping.Store(true)
	// An error here means that it has ended already, which the wait below sees.
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
		return nil
	case <-time.After(grace):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s did not end within %s of SIGTERM and was killed", p.name, grace)
}

// poll calls check until it succeeds, the deadline passes or ctx ends.
func poll(ctx context.Context, what string, deadline, interval time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			if cause := context.Cause(ctx); cause != context.DeadlineExceeded {
				return fmt.Errorf("waiting for %s: %w", what, cause)
			}
			return fmt.Errorf("%s: not within %s: %w", what, deadline, err)
		case <-time.After(interval):
		}
	}
}
