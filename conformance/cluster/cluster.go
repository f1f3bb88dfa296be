// Package cluster runs a real control plane on loopback: etcd, kube-apiserver and, as a suite asks, kube-controller-manager and
// kubequota. Every run has fresh ports and folders, and ends all that it started.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"kubequota.dev/conformance/binaries"
)

// Options of a cluster.
type Options struct {
	Binaries binaries.Set
	// Logs is the folder for the logs of all processes; it is kept.
	Logs string
	// ServerFlags are added to kube-apiserver's.
	ServerFlags []string
}

// Cluster is a running control plane.
type Cluster struct {
	// Server is kube-apiserver's address.
	Server string
	// Etcd is etcd's address, which also answers JSON over HTTP.
	Etcd string
	// AdminKubeconfig is for the harness and the suites; what is under test gets less.
	AdminKubeconfig string
	// Admin talks to the server as administrator.
	Admin *Client

	options   Options
	data      string // temporary: etcd's data, keys, kubeconfigs
	pki       *pki
	servers   []*APIServer
	processes []*process // in the order in which they were started
	cancel    context.CancelCauseFunc

	mutex sync.Mutex
	lost  []error // processes that ended by themselves
}

// Start brings up etcd and kube-apiserver. The context it returns ends when one of the cluster's processes ends by itself; use it for
// everything that needs the cluster. Stop must be called even where Start returns an error.
func Start(ctx context.Context, options Options) (context.Context, *Cluster, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c := &Cluster{options: options, cancel: cancel}
	data, err := os.MkdirTemp("", "kubequota-conformance-")
	if err != nil {
		return ctx, c, err
	}
	c.data = data
	if c.pki, err = newPKI(filepath.Join(data, "pki")); err != nil {
		return ctx, c, err
	}
	ports, err := freePorts(3)
	if err != nil {
		return ctx, c, err
	}
	etcd, etcdPeer, serverPort := ports[0], ports[1], ports[2]
	etcdURL, peerURL := "http://127.0.0.1:"+etcd, "http://127.0.0.1:"+etcdPeer
	c.Etcd = etcdURL
	if err := c.start("etcd", binaries.Etcd,
		"--data-dir", filepath.Join(data, "etcd"),
		"--listen-client-urls", etcdURL, "--advertise-client-urls", etcdURL,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "default="+peerURL,
		// The data is thrown away: durability would only cost time.
		"--unsafe-no-fsync",
		"--log-level", "warn",
	); err != nil {
		return ctx, c, err
	}

	server, err := c.startServer(serverPort, options.ServerFlags)
	if err != nil {
		return ctx, c, err
	}
	c.Server, c.Admin = server.URL, server.Client
	if c.AdminKubeconfig, err = c.Kubeconfig("admin", c.pki.adminToken); err != nil {
		return ctx, c, err
	}
	return ctx, c, c.WaitReady(ctx)
}

// WaitReady waits until the first server is ready.
func (c *Cluster) WaitReady(ctx context.Context) error { return c.First().waitReady(ctx) }

// Controllers are the parts of kube-controller-manager that upstream's e2e framework and its quota specs rely on, beside the quota
// controller: it waits for things that they make or unmake.
var Controllers = []string{
	"namespace-controller",
	"serviceaccount-controller",
	"root-ca-certificate-publisher-controller",
	"garbage-collector-controller",
	"replicaset-controller",
	"replicationcontroller-controller",
	"persistentvolumeclaim-protection-controller", // else claims never go away
	"persistentvolume-binder-controller",          // the VolumeAttributesClass specs bind a claim to a made-up CSI volume
	"resourceclaim-controller",
}

// QuotaController is upstream's controller, which kubequota replaces.
const QuotaController = "resourcequota-controller"

// StartControllers starts one kube-controller-manager with the named controllers and nothing else.
func (c *Cluster) StartControllers(ctx context.Context, controllers []string, flags ...string) error {
	flags = append([]string{"--kube-api-qps", "1000", "--kube-api-burst", "2000"}, flags...)
	return c.StartControllerManager("kube-controller-manager", c.AdminKubeconfig, controllers, flags...)
}

// StartControllerManager starts a kube-controller-manager under a name and with rights of its own. There may be several.
func (c *Cluster) StartControllerManager(name, kubeconfig string, controllers []string, flags ...string) error {
	ports, err := freePorts(1)
	if err != nil {
		return err
	}
	args := []string{"controller-manager",
		"--controllers", strings.Join(controllers, ","),
		"--kubeconfig", kubeconfig,
		"--authentication-kubeconfig", c.AdminKubeconfig, "--authorization-kubeconfig", c.AdminKubeconfig,
		"--root-ca-file", c.pki.ca,
		"--leader-elect=false",
		"--bind-address", "127.0.0.1", "--secure-port", ports[0], "--cert-dir", filepath.Join(c.data, name),
	}
	return c.start(name, binaries.ControlPlane, append(args, flags...)...)
}

// start starts one of our own binaries as part of the cluster.
func (c *Cluster) start(name, binary string, args ...string) error {
	return c.startProgram(program{name: name, path: c.options.Binaries.Path(binary), args: args})
}

func (c *Cluster) startProgram(program program) error {
	p, err := startProcess(c.options.Logs, program, c.lose)
	if err != nil {
		return err
	}
	c.processes = append(c.processes, p)
	return nil
}

// lose notes a process that ended by itself, and ends whatever relies on it.
func (c *Cluster) lose(err error) {
	c.mutex.Lock()
	c.lost = append(c.lost, err)
	c.mutex.Unlock()
	c.cancel(err)
}

// Kubectl runs kubectl as administrator and returns its standard output.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) ([]byte, error) {
	all := append([]string{"--kubeconfig", c.AdminKubeconfig, "--cache-dir", filepath.Join(c.data, "kubectl-cache")}, args...)
	cmd := exec.CommandContext(ctx, c.options.Binaries.Path(binaries.Kubectl), all...)
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
		}
		return nil, fmt.Errorf("kubectl %s: %w", strings.Join(args, " "), err)
	}
	return out, nil
}

// WaitServed waits until the server answers for a path, as it does some time after a CustomResourceDefinition was created.
func (c *Cluster) WaitServed(ctx context.Context, path string, deadline time.Duration) error {
	return Poll(ctx, path+" to be served", deadline, 100*time.Millisecond, func(ctx context.Context) error {
		_, err := c.Admin.Get(ctx, path)
		return err
	})
}

// Kubeconfig writes a kubeconfig for a token and returns its path. It lives as long as the cluster.
func (c *Cluster) Kubeconfig(name, token string) (string, error) {
	path := filepath.Join(c.data, name+".kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: conformance, cluster: {server: %q, certificate-authority: %q}}]
users: [{name: %q, user: {token: %q}}]
contexts: [{name: conformance, context: {cluster: conformance, user: %q}}]
current-context: conformance
`, c.Server, c.pki.ca, name, token, name)
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// Stop ends every process, the last one started first: kube-apiserver takes over a minute to end once etcd is gone. It takes no context,
// because it must also work once the run's has ended. It returns err, which is why the run ends, joined with all else that went wrong:
// processes that ended by themselves, or would not end.
func (c *Cluster) Stop(err error) error {
	errs := []error{err}
	for i := len(c.processes) - 1; i >= 0; i-- {
		errs = append(errs, c.processes[i].stop(20*time.Second))
	}
	c.processes = nil
	if c.data != "" {
		errs = append(errs, os.RemoveAll(c.data))
	}
	c.cancel(errors.New("the cluster was stopped"))
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, lost := range c.lost {
		if !errors.Is(err, lost) {
			errs = append(errs, lost)
		}
	}
	return errors.Join(errs...)
}

// freePorts finds ports of loopback that nothing uses. All are held until all are found, so that they differ.
func freePorts(n int) ([]string, error) {
	ports := make([]string, n)
	for i := range ports {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("no free port on loopback: %w", err)
		}
		defer listener.Close()
		ports[i] = strconv.Itoa(listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
