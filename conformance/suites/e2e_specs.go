package suites

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"kubequota.dev/conformance/binaries"
)

// specs are upstream's e2e specs, as many as a suite is told to run.
type specs struct {
	focus *string
	procs *int
}

func specFlags(flags *flag.FlagSet) specs {
	return specs{
		focus: flags.String("focus", "ResourceQuota", "`REGEX` of the specs to run"),
		procs: flags.Int("procs", 6, "specs that run at the same time"),
	}
}

// run runs the specs on the cluster of a kubeconfig and tells the tally of each. Without anybody who keeps status.used (idle) it gives up
// after the time in which all of them pass otherwise.
func (s specs) run(ctx context.Context, run *Run, kubeconfig string, idle bool) error {
	focus, err := regexp.Compile(*s.focus)
	if err != nil {
		return fmt.Errorf("--focus: %w", err)
	}
	run.Log("running the specs (their output: e2e.log)")
	report := filepath.Join(run.Folder, "junit.xml")
	specErr := s.ginkgo(ctx, run, kubeconfig, idle, report)
	if err := tallySpecs(report, focus, &run.Tally); err != nil {
		return errors.Join(specErr, err)
	}
	// Failed specs are in the tally. Anything else that makes the run fail must not be lost.
	if specErr != nil && run.Tally.Failed == 0 {
		return specErr
	}
	return nil
}

func (s specs) ginkgo(ctx context.Context, run *Run, kubeconfig string, idle bool, report string) error {
	args := []string{
		"--procs", strconv.Itoa(*s.procs),
		"--focus", *s.focus,
		"--no-color", "--grace-period", "10s",
		"--junit-report", filepath.Base(report), "--output-dir", filepath.Dir(report),
	}
	if idle {
		// Each spec would wait five minutes for figures that nobody writes. They come within half a minute where somebody does.
		args = append(args, "--timeout", "75s", "--fail-fast")
	} else {
		args = append(args, "--timeout", "14m")
	}
	args = append(args, run.Binaries.Path(binaries.E2E), "--",
		"--kubeconfig", kubeconfig, "--provider", "skeleton", "--allowed-not-ready-nodes=-1")

	log, err := os.Create(filepath.Join(run.Folder, "e2e.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, run.Binaries.Path(binaries.Ginkgo), args...)
	cmd.Dir = run.Folder
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	// An interrupted ginkgo ends its own processes and still writes its report; its group is ended where it does not.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) }
	cmd.WaitDelay = 20 * time.Second
	err = cmd.Run()
	if ctx.Err() != nil {
		// ESRCH, nothing left to end, is what is hoped for.
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("ginkgo: %w (see e2e.log)", err)
	}
	return nil
}
