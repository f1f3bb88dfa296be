package suites

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
)

var kubectlSuite = Suite{
	Name:   "kubectl",
	Proves: "kubectl works on the embedded API server: what it prints, and what it does to the objects",
	Examples: []string{
		"kubectl",
	},
	Binaries: []string{binaries.Kubectl},
	Deadline: 5 * time.Minute,
	Prepare: func(flags *flag.FlagSet) Steps {
		return embeddedSteps(flags, judgeKubectl)
	},
}

// kubectlStep is one call of kubectl and what has to come of it.
type kubectlStep struct {
	name string
	// args are separated by blanks; '...' keeps blanks.
	args  string
	stdin string
	// fails says that kubectl has to exit with an error.
	fails bool
	// out and err are regular expressions that standard output and error must match, line by line ((?m)).
	out, err []string
	// not must not occur in standard output.
	not string
	// path is what the API is asked for afterwards: has are its fields by dotted path, gone says that it must not exist.
	path string
	has  map[string]any
	gone bool
}

// kubectlRun is kubectl against one server.
type kubectlRun struct {
	run    *Run
	url    string
	client *cluster.Client
	log    *os.File
}

func judgeKubectl(ctx context.Context, run *Run, serve string) error {
	server, err := cluster.StartEmbedded(ctx, serve, run.Folder)
	if err != nil {
		return err
	}
	defer server.Stop()
	log, err := os.Create(filepath.Join(run.Folder, "kubectl.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	k := &kubectlRun{run: run, url: server.URL, client: server.Client, log: log}
	for _, step := range kubectlSteps(run.Root) {
		run.Tally.Check(step.name, k.check(ctx, step))
	}
	run.Tally.Check("get --watch shows what happens", k.watch(ctx))
	run.Tally.Check("describe shows events", k.describeEvents(ctx))
	run.Tally.Check("wait ends when the condition comes", k.wait(ctx))
	run.Tally.Check("delete --wait waits for finalizers", k.deleteWaits(ctx))
	return nil
}

// command is a call of kubectl that no configuration of the machine reaches.
func (k *kubectlRun) command(ctx context.Context, args string) *exec.Cmd {
	all := append([]string{"--server", k.url, "--cache-dir", filepath.Join(k.run.Folder, "cache")}, splitArgs(args)...)
	cmd := exec.CommandContext(ctx, k.run.Binaries.Path(binaries.Kubectl), all...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull, "HOME="+k.run.Folder)
	return cmd
}

// call runs kubectl to its end. An exit code is no error, what kept it from running is.
func (k *kubectlRun) call(ctx context.Context, args, stdin string) (stdout, stderr string, failed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := k.command(ctx, args)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &errs
	err = cmd.Run()
	fmt.Fprintf(k.log, "$ kubectl %s\n%s%s\n", args, out.String(), errs.String())
	if ctx.Err() != nil {
		return "", "", true, fmt.Errorf("kubectl %s did not end: %w", args, context.Cause(ctx))
	}
	if _, exited := err.(*exec.ExitError); exited {
		return out.String(), errs.String(), true, nil
	}
	return out.String(), errs.String(), false, err
}

func (k *kubectlRun) check(ctx context.Context, step kubectlStep) error {
	out, errs, failed, err := k.call(ctx, step.args, step.stdin)
	if err != nil {
		return err
	}
	shown := fmt.Sprintf("\n$ kubectl %s\n%s%s", step.args, out, errs)
	if failed != step.fails {
		return fmt.Errorf("failed: %t, wanted: %t%s", failed, step.fails, shown)
	}
	for _, expected := range []struct {
		what, text string
		patterns   []string
	}{{"standard output", out, step.out}, {"standard error", errs, step.err}} {
		for _, pattern := range expected.patterns {
			if !regexp.MustCompile("(?m)" + pattern).MatchString(expected.text) {
				return fmt.Errorf("%s does not match %q%s", expected.what, pattern, shown)
			}
		}
	}
	if step.not != "" && strings.Contains(out, step.not) {
		return fmt.Errorf("standard output has %q%s", step.not, shown)
	}
	if step.path == "" {
		return nil
	}
	object, err := k.client.Get(ctx, step.path)
	if step.gone {
		if err == nil || !strings.Contains(err.Error(), "404") {
			return fmt.Errorf("%s should be gone: %v%s", step.path, err, shown)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w%s", err, shown)
	}
	for field, wanted := range step.has {
		if actual := fieldAt(object, field); fmt.Sprint(actual) != fmt.Sprint(wanted) {
			return fmt.Errorf("%s: %s is %v, wanted %v%s", step.path, field, actual, wanted, shown)
		}
	}
	return nil
}

// fieldAt is the value at a dotted path; numbers are places in a list. What is absent is nil.
func fieldAt(value any, path string) any {
	for _, name := range strings.Split(path, ".") {
		switch typed := value.(type) {
		case map[string]any:
			value = typed[name]
		case []any:
			var at int
			if _, err := fmt.Sscan(name, &at); err != nil || at >= len(typed) {
				return nil
			}
			value = typed[at]
		default:
			return nil
		}
	}
	return value
}

// splitArgs splits at blanks, but for what stands in single quotes.
func splitArgs(text string) []string {
	var args []string
	for i, part := range strings.Split(text, "'") {
		if i%2 == 1 {
			args = append(args, part)
			continue
		}
		args = append(args, strings.Fields(part)...)
	}
	return args
}

// started is a kubectl that runs while other things happen.
type started struct {
	cmd   *exec.Cmd
	lines chan string
}

func (k *kubectlRun) start(ctx context.Context, args string) (*started, error) {
	cmd := k.command(ctx, args)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &started{cmd: cmd, lines: make(chan string, 100)}
	go func() {
		defer close(s.lines)
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			s.lines <- scanner.Text()
		}
	}()
	return s, nil
}

// expect waits for a line that matches.
func (s *started) expect(ctx context.Context, pattern string) error {
	var seen []string
	for {
		select {
		case line, more := <-s.lines:
			if !more {
				return fmt.Errorf("it ended without a line like %q; it printed %q", pattern, seen)
			}
			if regexp.MustCompile(pattern).MatchString(line) {
				return nil
			}
			seen = append(seen, line)
		case <-ctx.Done():
			return fmt.Errorf("no line like %q came; it printed %q", pattern, seen)
		}
	}
}

// watch follows the pods of a namespace while one is made, changes and goes.
func (k *kubectlRun) watch(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if _, err := k.client.Create(ctx, "/api/v1/namespaces/shop/pods", podNamed("first")); err != nil {
		return err
	}
	s, err := k.start(ctx, "--namespace shop get pods --watch --output-watch-events")
	if err != nil {
		return err
	}
	defer func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
	}()
	if err := s.expect(ctx, `^ADDED\s+first\s+0/1\s+Pending`); err != nil {
		return err
	}
	if _, err := k.client.Create(ctx, "/api/v1/namespaces/shop/pods", podNamed("second")); err != nil {
		return err
	}
	if err := s.expect(ctx, `^ADDED\s+second\s+0/1\s+Pending`); err != nil {
		return err
	}
	if _, err := k.client.Patch(ctx, "/api/v1/namespaces/shop/pods/second/status", cluster.Object{"status": cluster.Object{"phase": "Running"}}); err != nil {
		return err
	}
	if err := s.expect(ctx, `^MODIFIED\s+second\s+0/1\s+Running`); err != nil {
		return err
	}
	if _, err := k.client.Delete(ctx, "/api/v1/namespaces/shop/pods/second", 0); err != nil {
		return err
	}
	return s.expect(ctx, `^DELETED\s+second`)
}

// describeEvents lets something happen to a pod: describe asks for events by the pod's uid.
func (k *kubectlRun) describeEvents(ctx context.Context) error {
	pod, err := k.client.Get(ctx, "/api/v1/namespaces/shop/pods/first")
	if err != nil {
		return err
	}
	about := cluster.Object{"apiVersion": "v1", "kind": "Pod", "name": "first", "namespace": "shop", "uid": fieldAt(pod, "metadata.uid")}
	event := cluster.Object{"metadata": cluster.Object{"name": "first.1"}, "type": "Warning", "reason": "FailedMount", "message": "volume is missing",
		"involvedObject": about, "source": cluster.Object{"component": "kubelet"}, "count": 1}
	if _, err := k.client.Create(ctx, "/api/v1/namespaces/shop/events", event); err != nil {
		return err
	}
	return k.check(ctx, kubectlStep{args: "-n shop describe pod first", out: []string{`^  Warning +FailedMount .*kubelet +volume is missing$`}})
}

// wait starts kubectl before the condition is there.
func (k *kubectlRun) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s, err := k.start(ctx, "--namespace shop wait pod/first --for condition=Ready --timeout 20s")
	if err != nil {
		return err
	}
	status := cluster.Object{"status": cluster.Object{"conditions": []any{cluster.Object{"type": "Ready", "status": "True"}}}}
	if _, err := k.client.Patch(ctx, "/api/v1/namespaces/shop/pods/first/status", status); err != nil {
		return err
	}
	if err := s.expect(ctx, `^pod/first condition met`); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// deleteWaits holds an object with a finalizer while kubectl deletes it.
func (k *kubectlRun) deleteWaits(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	const path = "/api/v1/namespaces/shop/configmaps/held"
	held := cluster.Object{"metadata": cluster.Object{"name": "held", "finalizers": []any{"example.com/hold"}}}
	if _, err := k.client.Create(ctx, "/api/v1/namespaces/shop/configmaps", held); err != nil {
		return err
	}
	s, err := k.start(ctx, "--namespace shop delete configmap held --wait --timeout 20s")
	if err != nil {
		return err
	}
	if err := s.expect(ctx, `^configmap "held" deleted`); err != nil {
		return err
	}
	object, err := k.client.Get(ctx, path)
	if err != nil || fieldAt(object, "metadata.deletionTimestamp") == nil {
		return fmt.Errorf("the held object should be marked: %v %v", object, err)
	}
	if _, err := k.client.Patch(ctx, path, cluster.Object{"metadata": cluster.Object{"finalizers": nil}}); err != nil {
		return err
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("kubectl did not end with the finalizer: %w", err)
	}
	if _, err := k.client.Get(ctx, path); err == nil {
		return fmt.Errorf("%s should be gone", path)
	}
	return nil
}

func podNamed(name string) cluster.Object {
	containers := []any{cluster.Object{"name": "c", "image": "example.com/c:1"}}
	return cluster.Object{"apiVersion": "v1", "kind": "Pod", "metadata": cluster.Object{"name": name}, "spec": cluster.Object{"containers": containers}}
}

// manifest is an object as kubectl reads it from standard input.
func manifest(object cluster.Object) string {
	text, err := json.Marshal(object)
	if err != nil {
		// The objects are literals below.
		return err.Error()
	}
	return string(text)
}
