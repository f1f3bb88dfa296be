package suites

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"kubequota.dev/conformance/binaries"
	"kubequota.dev/conformance/cluster"
	"kubequota.dev/conformance/witness"
)

// exactWithin is how long after the load has ended every figure must be right: the admission grace, and five seconds.
const exactWithin = 15 * time.Second

// asked is the witness: a process that watches etcd, with upstream's evaluators.
type asked struct {
	cmd     *exec.Cmd
	input   io.WriteCloser
	answers *bufio.Reader
}

func startWitness(run *Run, etcd string) (*asked, error) {
	log, err := os.Create(filepath.Join(run.Folder, "witness.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a := &asked{cmd: exec.Command(run.Binaries.Path(binaries.Witness), "--etcd", etcd)}
	a.cmd.Stderr = log
	if a.input, err = a.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	a.answers = bufio.NewReader(output)
	return a, a.cmd.Start()
}

func (a *asked) stop() {
	_ = a.input.Close()
	_ = a.cmd.Process.Kill()
	_ = a.cmd.Wait()
}

func (a *asked) ask(namespaces []string) (answer witness.Answer, err error) {
	text, err := json.Marshal(witness.Question{Namespaces: namespaces})
	if err != nil {
		return answer, err
	}
	if _, err := a.input.Write(append(text, '\n')); err != nil {
		return answer, fmt.Errorf("the witness has ended, see witness.log: %w", err)
	}
	line, err := a.answers.ReadBytes('\n')
	if err != nil {
		return answer, fmt.Errorf("the witness has ended, see witness.log: %w", err)
	}
	if err := json.Unmarshal(line, &answer); err != nil {
		return answer, err
	}
	if answer.Error != "" {
		return answer, fmt.Errorf("the witness: %s", answer.Error)
	}
	return answer, nil
}

// settled waits until every figure is right, and stays right. Names that are frozen may stand still, but must not say too little. It
// returns how long after since it was so, and what is still wrong where it never was.
func (f *faults) settled(ctx context.Context, since time.Time, within time.Duration, frozen func(name string) bool) (time.Duration, error) {
	var right time.Time
	for {
		asked := time.Now()
		answer, err := f.witness.ask(f.namespaces)
		if err != nil {
			return 0, err
		}
		if answer.Names == 0 {
			return 0, errors.New("no figure was judged")
		}
		var wrong []string
		for _, figure := range answer.Off {
			if frozen == nil || !frozen(figure.Name) || figure.Less {
				wrong = append(wrong, figure.String())
			}
		}
		switch {
		case len(wrong) > 0 && asked.Sub(since) > within:
			return 0, fmt.Errorf("not right within %s: %s", within, some(wrong))
		case len(wrong) > 0:
			right = time.Time{}
		case right.IsZero():
			right = asked
		case asked.Sub(right) > time.Second:
			return right.Sub(since), nil
		}
		if err := cluster.Sleep(ctx, 200*time.Millisecond); err != nil {
			return 0, err
		}
	}
}

func some(of []string) string {
	const most = 4
	if len(of) > most {
		return fmt.Sprintf("%s; and %d more", strings.Join(of[:most], "; "), len(of)-most)
	}
	return strings.Join(of, "; ")
}

func breaches(of []witness.Breach) error {
	var told []string
	for _, breach := range of {
		told = append(told, breach.String())
	}
	if told == nil {
		return nil
	}
	return errors.New(some(told))
}

// worst is by how much a limit was exceeded, for the table.
func worst(of []witness.Breach) string {
	if len(of) == 0 {
		return "-"
	}
	told := fmt.Sprintf("%s %s", of[0].By, of[0].Name)
	if len(of) > 1 {
		told += fmt.Sprintf(" (and %d more)", len(of)-1)
	}
	return told
}

// metric is the sum of a metric of kubequota over its labels.
func (f *faults) metric(ctx context.Context, name string) (sum float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://127.0.0.1:"+f.port+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	found := false
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		rest, is := strings.CutPrefix(lines.Text(), name)
		if !is || rest != "" && rest[0] != ' ' && rest[0] != '{' {
			continue
		}
		value, err := strconv.ParseFloat(rest[strings.LastIndexByte(rest, ' ')+1:], 64)
		if err != nil {
			return 0, err
		}
		sum, found = sum+value, true
	}
	if !found {
		return 0, fmt.Errorf("kubequota has no metric %s", name)
	}
	return sum, lines.Err()
}

// notRecounted fails where the periodic recount has run or corrected anything.
func (f *faults) notRecounted(ctx context.Context) error {
	for _, name := range []string{"kubequota_recount_drift_total", "kubequota_resync_duration_seconds_count"} {
		switch value, err := f.metric(ctx, name); {
		case err != nil:
			return err
		case value != 0:
			return fmt.Errorf("%s is %g", name, value)
		}
	}
	return nil
}

var logLine = regexp.MustCompile(`^\S+\s+(TRACE|DEBUG|INFO|WARN|ERROR)\s`)

// logged reads what the controller has logged since the scenario began, and how often at each level.
func (f *faults) logged() (text string, levels map[string]int, err error) {
	file, err := os.Open(filepath.Join(f.Folder, controllerProcess+".log"))
	if err != nil {
		return "", nil, err
	}
	defer file.Close()
	if _, err := file.Seek(f.logBegan, io.SeekStart); err != nil {
		return "", nil, err
	}
	content, err := io.ReadAll(file)
	levels = map[string]int{}
	for line := range strings.Lines(string(content)) {
		if match := logLine.FindStringSubmatch(line); match != nil {
			levels[match[1]]++
		}
	}
	return string(content), levels, err
}

// noBug fails where the controller says of itself that something is wrong with it.
func (f *faults) noBug() error {
	text, _, err := f.logged()
	if err != nil {
		return err
	}
	var bugs []string
	for line := range strings.Lines(text) {
		match := logLine.FindStringSubmatch(line)
		if match != nil && match[1] == "ERROR" || strings.Contains(line, "this is a bug") || strings.Contains(line, "panicked") {
			bugs = append(bugs, strings.TrimSpace(line))
		}
	}
	if bugs == nil {
		return nil
	}
	return fmt.Errorf("the controller's log: %s", some(bugs))
}
