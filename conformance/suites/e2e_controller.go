package suites

import (
	"context"
	"flag"
	"fmt"
	"slices"
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
			specs:      specFlags(flags),
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
	controller *string
	specs      specs
}

func (s e2eControllerSuite) judge(ctx context.Context, run *Run) (err error) {
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

	err = s.specs.run(ctx, run, c.AdminKubeconfig, *s.controller == "none")
	run.Log("stopping everything")
	return err
}
