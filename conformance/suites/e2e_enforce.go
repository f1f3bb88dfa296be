package suites

import (
	"context"
	"errors"
	"flag"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
)

var e2eEnforce = Suite{
	Name:     "e2e-enforce",
	Proves:   "upstream's e2e specs of ResourceQuota pass with kubequota in place of upstream's controller and of its admission plugin",
	Examples: []string{"e2e-enforce", "e2e-enforce --focus 'life of a pod'"},
	Binaries: append([]string{binaries.Ginkgo, binaries.E2E}, binaries.ControlPlaneSet...),
	Deadline: 15 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		s := e2eEnforceSuite{specs: specFlags(flags)}
		return Steps{Build: kubequotaFlag(flags), Judge: s.judge}
	},
}

type e2eEnforceSuite struct{ specs specs }

func (s e2eEnforceSuite) judge(ctx context.Context, run *Run) (err error) {
	run.Log("starting etcd and kube-apiserver, without the ResourceQuota plugin")
	ctx, c, err := cluster.Start(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder, ServerFlags: cluster.WithoutQuotaPlugin})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return err
	}
	run.Log("starting the controllers, and kubequota run")
	if err := c.StartControllers(ctx, cluster.Controllers); err != nil {
		return err
	}
	if err := c.StartEnforcement(ctx, run.Kubequota, run.Root); err != nil {
		return err
	}
	err = s.specs.run(ctx, run, c.AdminKubeconfig, false)
	run.Log("stopping everything")
	return errors.Join(err, run.logsNothingOf([]string{cluster.RunProcess}, withoutAWord))
}

// withoutAWord is what the controller says where limits come into force though the webhook has not said that it is asked for them.
const withoutAWord = "without the webhook's word"
