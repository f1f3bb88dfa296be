package cluster

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// WithoutQuotaPlugin are the flags of a kube-apiserver that leaves enforcement to a webhook.
var WithoutQuotaPlugin = []string{"--disable-admission-plugins", "ResourceQuota"}

// EnforcementKubeconfig applies all of deploy/ and returns a kubeconfig with the rights that it gives to the webhook.
func (c *Cluster) EnforcementKubeconfig(ctx context.Context, root string) (string, error) {
	kubeconfig, err := c.KubequotaKubeconfig(ctx, root)
	if err != nil {
		return "", err
	}
	_, err = c.Kubectl(ctx, "apply", "-f", filepath.Join(root, "deploy", "enforce"))
	return kubeconfig, err
}

// StartEnforcement applies deploy/ and starts kubequota as controller and webhook in one process, with the rights that deploy/ gives and no
// others. It returns once the webhook is known to the server and ready.
func (c *Cluster) StartEnforcement(ctx context.Context, path, root string, flags ...string) error {
	kubeconfig, err := c.EnforcementKubeconfig(ctx, root)
	if err != nil {
		return err
	}
	replica, args, err := reviewing(kubeconfig)
	if err != nil {
		return err
	}
	return c.startRun(ctx, path, replica, append(append(args, "--webhook-url", "https://"+replica.Address), flags...))
}

// StartEnforcementBehindService is StartEnforcement with a Service that leads to the webhook, as in a real cluster. It returns the process's
// name, and where it serves.
func (c *Cluster) StartEnforcementBehindService(ctx context.Context, path, root string, flags ...string) (name string, replica Replica, err error) {
	kubeconfig, err := c.EnforcementKubeconfig(ctx, root)
	if err != nil {
		return "", Replica{}, err
	}
	replica, args, err := reviewing(kubeconfig)
	if err != nil {
		return "", replica, err
	}
	_, port, err := net.SplitHostPort(replica.Address)
	if err != nil {
		return "", replica, err
	}
	service, err := c.MakeService(ctx, "run", port)
	if err != nil {
		return "", replica, err
	}
	return RunProcess, replica, c.startRun(ctx, path, replica, append(append(args, "--webhook-service", service.address()), flags...))
}

// RunProcess is the name of the process that is controller and webhook.
const RunProcess = "kubequota"

// startRun starts controller and webhook in one process, and returns once the webhook is known to the server and ready.
func (c *Cluster) startRun(ctx context.Context, path string, replica Replica, args []string) error {
	if err := c.startProgram(program{name: RunProcess, path: path, args: append([]string{"run"}, args...)}); err != nil {
		return err
	}
	if err := c.waitWebhook(ctx, replica); err != nil {
		return err
	}
	return c.WaitWebhookConfigured(ctx)
}

// StartWebhook starts one replica of kubequota's webhook under a name of its own; kube-apiserver finds it behind the Service.
func (c *Cluster) StartWebhook(name, path, kubeconfig string, service *Service, env []string, flags ...string) (Replica, error) {
	replica, args, err := reviewing(kubeconfig)
	if err != nil {
		return Replica{}, err
	}
	args = append(append([]string{"webhook"}, args...), "--webhook-service", service.address())
	return replica, c.startProgram(program{name: name, path: path, args: append(args, flags...), env: env})
}

// reviewing are the flags of a process that takes reviews on loopback, and where it does.
func reviewing(kubeconfig string) (Replica, []string, error) {
	ports, err := freePorts(2)
	if err != nil {
		return Replica{}, nil, err
	}
	health, reviews := ports[0], ports[1]
	return Replica{Address: "127.0.0.1:" + reviews, Health: "http://127.0.0.1:" + health}, []string{
		"--kubeconfig", kubeconfig, "--namespace", kubequotaNamespace,
		"--bind-address", "127.0.0.1", "--port", health,
		"--webhook-bind-address", "127.0.0.1", "--webhook-port", reviews,
		// As deploy/ has it.
		"--kube-api-qps", "0",
	}, nil
}

// Service is one that leads to a port of loopback.
type Service struct{ name, port string }

// address is how kubequota's flag names it.
func (s *Service) address() string {
	return fmt.Sprintf("%s/%s:%s", kubequotaNamespace, s.name, s.port)
}

// MakeService makes a Service that leads to a port of loopback. kube-apiserver speaks HTTP/1.1 to what it finds through a Service, one
// connection for each request under way, so that a balancer can share them out; to a URL on loopback it speaks HTTP/2 over a single
// connection, as it never does in a real cluster. Loopback can't be a Service's endpoint. It can be an external name, and that is dialled at
// the port that the webhook's configuration names.
func (c *Cluster) MakeService(ctx context.Context, name, port string) (*Service, error) {
	_, err := c.Admin.Create(ctx, "/api/v1/namespaces/"+kubequotaNamespace+"/services", Object{"apiVersion": "v1", "kind": "Service",
		"metadata": Object{"name": name}, "spec": Object{"type": "ExternalName", "externalName": "127.0.0.1"}})
	return &Service{name: name, port: port}, err
}

func (c *Cluster) waitWebhook(ctx context.Context, replica Replica) error {
	return Poll(ctx, "kubequota's webhook to be ready (see its log)", time.Minute, 100*time.Millisecond, Plain(replica.Health).ready)
}

// WaitWebhookConfigured waits until kubequota has told kube-apiserver of its webhook.
func (c *Cluster) WaitWebhookConfigured(ctx context.Context) error {
	return c.WaitServed(ctx, "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/kubequota", time.Minute)
}

// Redirect has those who read a kubeconfig from now on turn to another server.
func (c *Cluster) Redirect(kubeconfig, server string) error {
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		return err
	}
	was := serverOf.Find(text)
	return os.WriteFile(kubeconfig, []byte(strings.Replace(string(text), string(was), fmt.Sprintf("server: %q", server), 1)), 0o600)
}

var serverOf = regexp.MustCompile(`server: "[^"]*"`)
