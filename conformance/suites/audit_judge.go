package suites

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	"kubequota.dev/conformance/objects"
)

// auditReport is what `kubequota audit -o json` prints. Quantities are text; what is not known is left out.
type auditReport struct {
	Quotas []struct {
		Namespace, Name string
		Resources       []auditResource
	}
	Errors []json.RawMessage
}

type auditResource struct {
	Name                            string
	Hard, Recorded, Computed, Drift *string
}

// byQuota indexes the report by namespace/name and resource.
func (r auditReport) byQuota() map[string]map[string]auditResource {
	index := map[string]map[string]auditResource{}
	for _, quota := range r.Quotas {
		names := map[string]auditResource{}
		for _, resource := range quota.Resources {
			names[resource.Name] = resource
		}
		index[quota.Namespace+"/"+quota.Name] = names
	}
	return index
}

// auditor runs kubequota audit.
type auditor struct {
	run *Run
	now time.Time
}

// audit runs it over some paths, keeps what it printed as AS.json and AS.stderr, and checks its exit code.
func (a auditor) audit(ctx context.Context, as string, exitCode int, paths ...string) (auditReport, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	args := []string{"audit", "-o", "json", "--now", a.now.Format(time.RFC3339),
		// Without a single CronJob in the files, only this says that the kind is served.
		"--served", "CronJob.batch"}
	for _, path := range paths {
		args = append(args, "-f", path)
	}
	cmd := exec.CommandContext(ctx, a.run.Kubequota, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	runErr := cmd.Run()
	var report auditReport
	for file, text := range map[string][]byte{as + ".json": stdout.Bytes(), as + ".stderr": stderr.Bytes()} {
		if err := os.WriteFile(filepath.Join(a.run.Folder, file), text, 0o644); err != nil {
			return report, err
		}
	}
	var exit *exec.ExitError
	if runErr != nil && !errors.As(runErr, &exit) {
		return report, fmt.Errorf("kubequota %s: %w", strings.Join(args, " "), runErr)
	}
	var errs []error
	if got := cmd.ProcessState.ExitCode(); got != exitCode {
		errs = append(errs, fmt.Errorf("exit code is %d, must be %d; it said: %s", got, exitCode, strings.TrimSpace(stderr.String())))
	}
	if err := json.Unmarshal(stdout.Bytes(), &report); err != nil {
		errs = append(errs, fmt.Errorf("its output (%s.json) is not the JSON agreed on: %w", as, err))
	}
	return report, errors.Join(errs...)
}

// judgeAudit is the whole judgement of a dump.
func judgeAudit(ctx context.Context, run *Run, a auditor, dump string) error {
	quotas, err := readQuotas(filepath.Join(dump, quotasFile))
	if err != nil {
		return err
	}
	run.Log("auditing")
	report, err := a.audit(ctx, "audit", 0, dump)
	run.Tally.Check("audit of the dump", err)
	if len(report.Errors) > 0 {
		run.Tally.Fail("audit of the dump: it has errors: %s", report.Errors)
	}
	compareWithUpstream(quotas, report, &run.Tally)

	run.Tally.Check("audit of a drifted copy", auditDrift(ctx, a, dump, quotas))
	for _, bad := range badInputs {
		run.Tally.Check("audit of a dump and "+bad.file, auditBadInput(ctx, a, dump, report, bad))
	}
	return nil
}

func readQuotas(path string) ([]quotaObject, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var list map[string]any
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return decodeQuotas(list)
}

// compareWithUpstream judges each name of each quota: one case each.
func compareWithUpstream(quotas []quotaObject, report auditReport, tally *Tally) {
	ours := report.byQuota()
	for _, quota := range quotas {
		for _, name := range sortedKeys(quota.Spec.Hard) {
			got, reported := ours[quota.key()][name]
			if !reported {
				tally.Fail("%s %s: not reported", quota.key(), name)
				continue
			}
			used, recorded := quota.Status.Used[name]
			if err := compareResource(got, quota.Spec.Hard[name], used, recorded); err != nil {
				tally.Fail("%s %s: %v", quota.key(), name, err)
				continue
			}
			tally.Pass()
		}
		for name := range ours[quota.key()] {
			if _, named := quota.Spec.Hard[name]; !named {
				tally.Fail("%s %s: reported, but the quota does not name it", quota.key(), name)
			}
		}
		delete(ours, quota.key())
	}
	for _, key := range sortedKeys(ours) {
		tally.Fail("%s: reported, but there is no such quota", key)
	}
}

// compareResource compares one name with what upstream recorded for it.
func compareResource(got auditResource, hard, used string, recorded bool) error {
	if !sameQuantity(got.Hard, hard) {
		return fmt.Errorf("hard is %s, kubequota says %s", hard, show(got.Hard))
	}
	if recorded && !sameQuantity(got.Recorded, used) {
		return fmt.Errorf("recorded is %s, kubequota says %s", used, show(got.Recorded))
	}
	if !recorded && got.Recorded != nil {
		return fmt.Errorf("nothing is recorded, kubequota says %s", *got.Recorded)
	}
	if slices.Contains(objects.Untracked, got.Name) {
		if got.Computed != nil {
			return fmt.Errorf("nothing tracks this name, kubequota counts %s", *got.Computed)
		}
		return nil
	}
	if !recorded {
		return errors.New("upstream records nothing, although it tracks this name: the suite is wrong")
	}
	if !sameQuantity(got.Computed, used) {
		return fmt.Errorf("upstream counts %s, kubequota %s", used, show(got.Computed))
	}
	if got.Drift != nil && !sameQuantity(got.Drift, "0") {
		return fmt.Errorf("recorded and computed are both %s, yet its drift is %s", used, *got.Drift)
	}
	return nil
}

// auditDrift raises one recorded figure of a copy, which must be found and nothing else.
func auditDrift(ctx context.Context, a auditor, dump string, quotas []quotaObject) error {
	const quotaKey, name, added = "team-c/pods", "requests.memory", 7
	copied := filepath.Join(a.run.Folder, "dump-drifted")
	if err := os.CopyFS(copied, os.DirFS(dump)); err != nil {
		return err
	}
	index := slices.IndexFunc(quotas, func(q quotaObject) bool { return q.key() == quotaKey })
	if index < 0 {
		return fmt.Errorf("the dump has no quota %s", quotaKey)
	}
	counted, err := resource.ParseQuantity(quotas[index].Status.Used[name])
	if err != nil {
		return err
	}
	drifted := counted.DeepCopy()
	drifted.Add(*resource.NewQuantity(added, resource.DecimalSI))
	if err := recordUsed(filepath.Join(copied, quotasFile), quotaKey, name, drifted.String()); err != nil {
		return err
	}

	report, err := a.audit(ctx, "audit-drifted", 1, copied)
	if err != nil {
		return err
	}
	for key, names := range report.byQuota() {
		for _, got := range names {
			where := key + " " + got.Name
			switch {
			case key != quotaKey || got.Name != name:
				if got.Drift != nil && !sameQuantity(got.Drift, "0") {
					return fmt.Errorf("%s: has a drift of %s, but was not touched", where, *got.Drift)
				}
			case !sameQuantity(got.Recorded, drifted.String()) || !sameQuantity(got.Computed, counted.String()):
				return fmt.Errorf("%s: recorded must be %s and computed %s, kubequota says %s and %s",
					where, &drifted, &counted, show(got.Recorded), show(got.Computed))
			case !sameQuantity(got.Drift, fmt.Sprint(added)):
				return fmt.Errorf("%s: drift (recorded less computed) must be %d, kubequota says %s", where, added, show(got.Drift))
			}
		}
	}
	if _, reported := report.byQuota()[quotaKey][name]; !reported {
		return fmt.Errorf("%s %s: not reported", quotaKey, name)
	}
	return nil
}

// recordUsed changes one recorded figure in a file of quotas.
func recordUsed(path, quotaKey, name, value string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var list struct {
		APIVersion string           `json:"apiVersion"`
		Kind       string           `json:"kind"`
		Items      []map[string]any `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		metadata := item["metadata"].(map[string]any)
		if fmt.Sprint(metadata["namespace"], "/", metadata["name"]) == quotaKey {
			item["status"].(map[string]any)["used"].(map[string]any)[name] = value
		}
	}
	if text, err = json.Marshal(list); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

// badInput is a file that cannot be read whole. The audit must say where, exit with 2, and compute the rest all the same.
type badInput struct {
	file string
	// text of the file; without any the file does not exist.
	text string
	// where is what an error must name beside the file.
	where []*regexp.Regexp
	// namespace is the one whose figures may suffer.
	namespace string
}

var badInputs = []badInput{
	{file: "absent.yaml"},
	{
		file: "broken.yaml",
		text: "apiVersion: v1\nkind: Namespace\nmetadata: {name: fine}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: [never, closed\n",
		// "document 2", or a field of that name.
		where: []*regexp.Regexp{regexp.MustCompile(`(?i)document\W{0,4}2`)},
	},
	{
		file: "bad-quantity.yaml",
		text: `apiVersion: v1
kind: Pod
metadata: {name: apples, namespace: team-f, uid: 6a1b6e3e-0000-4000-8000-000000000001}
spec: {containers: [{name: c, image: example.com/image, resources: {requests: {cpu: 12 apples}}}]}
`,
		where:     []*regexp.Regexp{regexp.MustCompile(`(?i)document\W{0,4}1`), regexp.MustCompile(`requests.{0,4}cpu`), regexp.MustCompile(`apples`)},
		namespace: "team-f",
	},
}

func auditBadInput(ctx context.Context, a auditor, dump string, good auditReport, bad badInput) error {
	path := filepath.Join(a.run.Folder, bad.file)
	if bad.text != "" {
		if err := os.WriteFile(path, []byte(bad.text), 0o644); err != nil {
			return err
		}
	}
	report, err := a.audit(ctx, "audit-"+strings.TrimSuffix(bad.file, ".yaml"), 2, dump, path)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(report.Errors, func(text json.RawMessage) bool { return bad.namedBy(string(text)) }) {
		return fmt.Errorf("no error names %s and matches %v; the errors are %s", bad.file, bad.where, report.Errors)
	}
	found := report.byQuota()
	for key, names := range good.byQuota() {
		if namespace, _, _ := strings.Cut(key, "/"); namespace == bad.namespace {
			continue
		}
		for name, want := range names {
			if got := found[key][name]; show(got.Computed) != show(want.Computed) {
				return fmt.Errorf("%s %s: computed is %s without the bad input and %s with it", key, name, show(want.Computed), show(got.Computed))
			}
		}
	}
	return nil
}

func (b badInput) namedBy(text string) bool {
	return strings.Contains(text, b.file) &&
		!slices.ContainsFunc(b.where, func(where *regexp.Regexp) bool { return !where.MatchString(text) })
}

// sameQuantity compares by value. What is missing or no quantity is never the same.
func sameQuantity(got *string, want string) bool {
	if got == nil {
		return false
	}
	a, errA := resource.ParseQuantity(*got)
	b, errB := resource.ParseQuantity(want)
	return errA == nil && errB == nil && a.Cmp(b) == 0
}

func show(value *string) string {
	if value == nil {
		return "nothing"
	}
	return *value
}
