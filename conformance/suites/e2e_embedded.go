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

var e2eEmbedded = Suite{
	Name:   "e2e-embedded",
	Proves: "upstream's e2e specs of ResourceQuota pass on the embedded API server, its quota plugin and kubequota's controller",
	Examples: []string{
		"e2e-embedded",
		"e2e-embedded --controller none   # must fail: shows that the specs judge the controller",
	},
	Binaries: []string{binaries.Ginkgo, binaries.E2E, binaries.ControlPlane},
	Deadline: 15 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		s := e2eEmbeddedSuite{
			controller: flags.String("controller", "kubequota", "who keeps status.used: kubequota or none"),
			specs:      specFlags(flags),
		}
		steps, build := embeddedSteps(flags, s.judge), kubequotaFlag(flags)
		buildServer := steps.Build
		steps.Build = func(ctx context.Context, run *Run) error {
			if err := buildServer(ctx, run); err != nil || *s.controller != "kubequota" {
				return err
			}
			return build(ctx, run)
		}
		return steps
	},
}

type e2eEmbeddedSuite struct {
	controller *string
	specs      specs
}

// embeddedControllers are those that the specs wait for, but two: on this server namespaces empty themselves, and claims have no finalizer
// that would have to be taken off.
func embeddedControllers() []string {
	return slices.DeleteFunc(slices.Clone(cluster.Controllers), func(name string) bool {
		return name == "namespace-controller" || name == "persistentvolumeclaim-protection-controller"
	})
}

func (s e2eEmbeddedSuite) judge(ctx context.Context, run *Run, serve string) (err error) {
	if *s.controller != "kubequota" && *s.controller != "none" {
		return fmt.Errorf("--controller %s: must be kubequota or none", *s.controller)
	}
	embedded, err := cluster.StartEmbedded(ctx, serve, run.Folder, "--quota-plugin")
	if err != nil {
		return err
	}
	defer embedded.Stop()
	ctx, c, err := embedded.Cluster(ctx, cluster.Options{Binaries: run.Binaries, Logs: run.Folder})
	defer func() { err = c.Stop(err) }()
	if err != nil {
		return err
	}
	run.Log("starting the controllers; ResourceQuota: %s", *s.controller)
	// The server holds nothing to authenticate the callers of other servers by.
	if err := c.StartControllers(ctx, embeddedControllers(), "--authentication-skip-lookup"); err != nil {
		return err
	}
	if *s.controller == "kubequota" {
		if err := c.StartKubequotaAs("kubequota", run.Kubequota, c.AdminKubeconfig, nil); err != nil {
			return err
		}
	}
	return s.specs.run(ctx, run, c.AdminKubeconfig, *s.controller == "none")
}
