// Package answers asks kubequota's program "answers" what upstream's code would say. It is linked into upstream's unit tests, by the
// shims that stand in the place of upstream's rules, and so depends on nothing but the standard library.
package answers

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

const (
	// ProgramVariable names the environment variable with the path of the program.
	ProgramVariable = "KUBEQUOTA_ANSWERS"
	// SpoilVariable names the one that, when set, makes every answer wrong: tests that still pass then judge nothing.
	SpoilVariable = "KUBEQUOTA_ANSWERS_SPOILED"
	// Marker begins the line printed for each question, by which questions are counted for each test. It goes to standard error, since
	// Go's examples judge standard output.
	Marker = "kubequota is asked: "

	deadline = 10 * time.Second
)

// Ask puts a question of a kind, and decodes its answer. Where the program can't be had or does not understand, it panics: upstream's
// functions have no error to return then, and nothing else may answer for it.
func Ask(kind string, question, answer any) {
	fmt.Fprintln(os.Stderr, Marker+kind)
	reply, err := theProgram.ask(kind, question)
	if err == nil && os.Getenv(SpoilVariable) != "" {
		reply, err = spoil(reply)
	}
	if err == nil {
		err = json.Unmarshal(reply, answer)
	}
	if err != nil {
		panic(fmt.Sprintf("asking kubequota (%s): %v", kind, err))
	}
}

// program is the running program, started with the first question. One question at a time is asked.
type program struct {
	path  string
	mutex sync.Mutex
	cmd   *exec.Cmd
	in    io.WriteCloser
	out   *bufio.Reader
}

var theProgram = &program{path: os.Getenv(ProgramVariable)}

func (p *program) ask(kind string, question any) (json.RawMessage, error) {
	line, err := json.Marshal(map[string]any{kind: question})
	if err != nil {
		return nil, err
	}
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.cmd == nil {
		if err := p.start(); err != nil {
			return nil, err
		}
	}
	// Ending the program ends the read or write that waits for it.
	late := time.AfterFunc(deadline, func() { _ = p.cmd.Process.Kill() })
	reply, err := p.exchange(append(line, '\n'))
	if !late.Stop() && err != nil {
		err = fmt.Errorf("no answer within %s: %w", deadline, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w; the question was %s", err, line)
	}
	var decoded struct {
		Answer  json.RawMessage
		Mistake string
	}
	if err := json.Unmarshal(reply, &decoded); err != nil {
		return nil, fmt.Errorf("%w; the reply was %s", err, reply)
	}
	if decoded.Answer == nil {
		return nil, fmt.Errorf("%s; the question was %s", decoded.Mistake, line)
	}
	return decoded.Answer, nil
}

func (p *program) start() error {
	if p.path == "" {
		return errors.New(ProgramVariable + " does not say where the program is")
	}
	cmd := exec.Command(p.path)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	// It ends by itself when its input does, at the latest with this process.
	if err := cmd.Start(); err != nil {
		return err
	}
	p.cmd, p.in, p.out = cmd, in, bufio.NewReader(out)
	return nil
}

func (p *program) exchange(line []byte) ([]byte, error) {
	if _, err := p.in.Write(line); err != nil {
		return nil, fmt.Errorf("the program has ended: %w", err)
	}
	reply, err := p.out.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("the program has ended: %w", err)
	}
	return reply, nil
}
