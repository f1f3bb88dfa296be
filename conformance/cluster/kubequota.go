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

// StartKubequota starts kubequota's controller with the rights that deploy/rbac.yaml gives it and no others: a right that is missing
// there must show here.
func (c *Cluster) StartKubequota(ctx context.Context, path, root string, flags ...string) error {
	kubeconfig, err := c.kubequotaKubeconfig(ctx, filepath.Join(root, "deploy", "rbac.yaml"))
	if err != nil {
		return err
	}
	return c.startPath("kubequota", path, append([]string{"controller", "--kubeconfig", kubeconfig}, flags...)...)
}

func (c *Cluster) kubequotaKubeconfig(ctx context.Context, rbac string) (string, error) {
	if _, err := os.Stat(rbac); err != nil {
		return "", fmt.Errorf("kubequota's rights: %w", err)
	}
	if _, err := c.Kubectl(ctx, "apply", "-f", rbac); err != nil {
		return "", err
	}
	token, err := c.Kubectl(ctx, "create", "token", kubequotaServiceAccount, "--namespace", kubequotaNamespace, "--duration", "24h")
	if err != nil {
		return "", fmt.Errorf("deploy/rbac.yaml must make the ServiceAccount %s/%s: %w", kubequotaNamespace, kubequotaServiceAccount, err)
	}
	return c.Kubeconfig("kubequota", strings.TrimSpace(string(token)))
}
