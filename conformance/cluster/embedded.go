package cluster

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// Embedded is the API server of crates/testserver, in a process of its own.
type Embedded struct {
	URL    string
	Client *Client

	cmd      *exec.Cmd
	commands io.WriteCloser
	answers  *bufio.Scanner
}

// StartEmbedded starts the program at path, which serves it. It ends with ctx, or when it is stopped; logs is a folder.
func StartEmbedded(ctx context.Context, path, logs string, flags ...string) (*Embedded, error) {
	log, err := os.Create(filepath.Join(logs, "embedded.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, path, flags...)
	cmd.Stderr = log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	e := &Embedded{cmd: cmd}
	if e.commands, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the embedded server: %w", err)
	}
	e.answers = bufio.NewScanner(output)
	if e.URL, err = e.answer(); err != nil {
		return nil, err
	}
	if !strings.HasPrefix(e.URL, "http://") {
		return nil, fmt.Errorf("the embedded server said %q where its URL was expected", e.URL)
	}
	e.Client = Plain(e.URL)
	return e, nil
}

// Cluster is a cluster around it: whatever is started there talks to it. Context and Stop are as with Start, and Stop leaves the server to
// its own.
func (e *Embedded) Cluster(ctx context.Context, options Options) (context.Context, *Cluster, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &Cluster{Server: e.URL, Admin: e.Client, options: options, cancel: cancel}
	var err error
	if c.data, err = os.MkdirTemp("", "kubequota-conformance-"); err != nil {
		return ctx, c, err
	}
	// The server asks for no token. Certificates are what controllers publish and serve with.
	if c.pki, err = newPKI(filepath.Join(c.data, "pki")); err != nil {
		return ctx, c, err
	}
	c.AdminKubeconfig, err = c.Kubeconfig("admin", c.pki.adminToken)
	return ctx, c, err
}

// Stop ends it. It keeps nothing that would have to be saved.
func (e *Embedded) Stop() {
	_ = e.cmd.Process.Kill()
	_ = e.cmd.Wait()
}

// Compact lets it forget its history.
func (e *Embedded) Compact(context.Context) error {
	if _, err := fmt.Fprintln(e.commands, "compact"); err != nil {
		return err
	}
	answer, err := e.answer()
	if err == nil && answer != "compacted" {
		err = fmt.Errorf("the embedded server said %q", answer)
	}
	return err
}

func (e *Embedded) answer() (string, error) {
	if !e.answers.Scan() {
		return "", fmt.Errorf("the embedded server ended; see embedded.log (%v)", e.answers.Err())
	}
	return e.answers.Text(), nil
}
