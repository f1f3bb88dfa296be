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
	"slices"
	"strconv"
	"syscall"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
)

var e2eController = Suite{
	Name:   "e2e-controller",
	Proves: "upstream's e2e specs of ResourceQuota pass with kubequota in place of upstream's controller",
	Examples: []string{
		"e2e-controller",
		"e2e-controller --focus 'life of a pod'",
		"e2e-controller --controller upstream   # what upstream itself gets",
		"e2e-controller --controller none       # must fail: shows that the specs judge the controller",
	},
	Binaries: append([]string{binaries.Ginkgo, binaries.E2E}, binaries.ControlPlaneSet...),
	Deadline: 15 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		s := e2eControllerSuite{
			controller: flags.String("controller", "kubequota", "who keeps status.used: kubequota, upstream or none"),
			focus:      flags.String("focus", "ResourceQuota", "`REGEX` of the specs to run"),
			procs:      flags.Int("procs", 6, "specs that run at the same time"),
		}
		build := kubequotaFlag(flags)
		return Steps{
			Build: func(ctx context.Context, run *Run) error {
				if *s.controller != "kubequota" {
					return nil
				}
				return build(ctx, run)
			},
			Judge: s.judge,
		}
	},
}

type e2eControllerSuite struct {
	controller, focus *string
	procs             *int
}

func (s e2eControllerSuite) judge(ctx context.Context, run *Run) (err error) {
	focus, err := regexp.Compile(*s.focus)
	if err != nil {
		return fmt.Errorf("--focus: %w", err)
	}
	controllers := slices.Clone(cluster.Controllers)
	switch *s.controller {
	case "kubequota", "none":
	case "upstream":
		controllers = append(controllers, cluster.QuotaController)
	default:
		return fmt.Errorf("--controller %s: must be kubequota, upstream or none", *s.controller)
	}

	run.Log("starting etcd and kube-apiserver")
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return err
	}
	run.Log("starting the controllers; ResourceQuota: %s", *s.controller)
	if err := c.StartControllers(ctx, controllers); err != nil {
		return err
	}
	if *s.controller == "kubequota" {
		if err := c.StartKubequota(ctx, run.Kubequota, run.Root); err != nil {
			return err
		}
	}

	run.Log("running the specs (their output: e2e.log)")
	report := filepath.Join(run.Folder, "junit.xml")
	specErr := s.specs(ctx, run, c, report)
	if err := tallySpecs(report, focus, &run.Tally); err != nil {
		return errors.Join(specErr, err)
	}
	run.Log("stopping everything")
	// Failed specs are in the tally. Anything else that makes the run fail must not be lost.
	if specErr != nil && run.Tally.Failed == 0 {
		return specErr
	}
	return nil
}

func (s e2eControllerSuite) specs(ctx context.Context, run *Run, c *cluster.Cluster, report string) error {
	args := []string{
		"--procs", strconv.Itoa(*s.procs),
		"--focus", *s.focus,
		"--no-color", "--grace-period", "10s",
		"--junit-report", filepath.Base(report), "--output-dir", filepath.Dir(report),
	}
	if *s.controller == "none" {
		// Each spec would wait five minutes for figures that nobody writes. They come within half a minute where somebody does.
		args = append(args, "--timeout", "75s", "--fail-fast")
	} else {
		args = append(args, "--timeout", "14m")
	}
	args = append(args, run.Binaries.Path(binaries.E2E), "--",
		"--kubeconfig", c.AdminKubeconfig, "--provider", "skeleton", "--allowed-not-ready-nodes=-1")

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
