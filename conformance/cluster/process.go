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
	program
	log      string
	cmd      *exec.Cmd
	ended    chan struct{}
	stopping atomic.Bool
}

// program is what a process runs.
type program struct {
	name, path string
	args       []string
	// env is added to the environment.
	env []string
}

// startProcess starts a program. onUnexpectedEnd is called when it ends without having been asked to. The log goes on where the last
// process of that name left it.
func startProcess(folder string, program program, onUnexpectedEnd func(error)) (*process, error) {
	name := program.name
	p := &process{program: program, log: filepath.Join(folder, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.Command(program.path, program.args...)
	p.cmd.Env = append(os.Environ(), program.env...)
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
	// One that is stopped hears nothing.
	_ = p.cmd.Process.Signal(syscall.SIGCONT)
	select {
	case <-p.ended:
		return nil
	case <-time.After(grace):
	}
	_ = p.cmd.Process.Kill()
	<-p.ended
	return fmt.Errorf("%s did not end within %s of SIGTERM and was killed", p.name, grace)
}

// kill ends the process as a crash would.
func (p *process) kill() {
	p.stopping.Store(true)
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// Sleep waits, unless ctx ends before.
func Sleep(ctx context.Context, duration time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(duration):
		return nil
	}
}

// Poll calls check until it succeeds, the deadline passes or ctx ends.
func Poll(ctx context.Context, what string, deadline, interval time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		if cause := Sleep(ctx, interval); cause == context.DeadlineExceeded {
			return fmt.Errorf("%s: not within %s: %w", what, deadline, err)
		} else if cause != nil {
			return fmt.Errorf("waiting for %s: %w", what, cause)
		}
	}
}
