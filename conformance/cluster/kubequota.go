package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

const (
	kubequotaNamespace      = "kubequota-system"
	kubequotaServiceAccount = "kubequota"
)

// StartKubequota applies deploy/ as the README says, and starts kubequota's controller with the rights it gives and no others: a right
// that is missing there must show here. (No pod runs in this control plane, so the Deployment is only stored.)
func (c *Cluster) StartKubequota(ctx context.Context, path, root string, flags ...string) error {
	kubeconfig, err := c.KubequotaKubeconfig(ctx, root)
	if err != nil {
		return err
	}
	return c.StartKubequotaAs("kubequota", path, kubeconfig, nil, flags...)
}

// StartKubequotaAs starts a kubequota under a name, with a kubeconfig and an addition to its environment. There may be several.
func (c *Cluster) StartKubequotaAs(name, path, kubeconfig string, env []string, flags ...string) error {
	args := append([]string{"controller", "--kubeconfig", kubeconfig}, flags...)
	return c.startProgram(program{name: name, path: path, args: args, env: env})
}

// KubequotaKubeconfig applies deploy/ and returns a kubeconfig with the rights that it gives.
func (c *Cluster) KubequotaKubeconfig(ctx context.Context, root string) (string, error) {
	deploy := filepath.Join(root, "deploy")
	if _, err := os.Stat(deploy); err != nil {
		return "", fmt.Errorf("kubequota's manifests: %w", err)
	}
	if _, err := c.Kubectl(ctx, "apply", "-f", deploy); err != nil {
		return "", err
	}
	token, err := c.Kubectl(ctx, "create", "token", kubequotaServiceAccount, "--namespace", kubequotaNamespace, "--duration", "24h")
	if err != nil {
		return "", fmt.Errorf("deploy/1-rbac.yaml must make the ServiceAccount %s/%s: %w", kubequotaNamespace, kubequotaServiceAccount, err)
	}
	return c.Kubeconfig("kubequota", strings.TrimSpace(string(token)))
}
