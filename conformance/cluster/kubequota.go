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
	kubeconfig, err := c.kubequotaKubeconfig(ctx, filepath.Join(root, "deploy"))
	if err != nil {
		return err
	}
	return c.startPath("kubequota", path, append([]string{"controller", "--kubeconfig", kubeconfig}, flags...)...)
}

func (c *Cluster) kubequotaKubeconfig(ctx context.Context, deploy string) (string, error) {
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
