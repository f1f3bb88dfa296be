package oracle

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"time"
)

// answerDeadline is how long one batch of answers may take: a question that hangs must not hang the suite.
const answerDeadline = 2 * time.Minute

// process is the running Rust program.
type process struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
	stderr bytes.Buffer
	alarm  *time.Timer
}

func start(ctx context.Context, path string) (*process, error) {
	p := &process{cmd: exec.CommandContext(ctx, path)}
	p.cmd.Stderr = &p.stderr
	var err error
	if p.input, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.output = bufio.NewReaderSize(output, 1<<16)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.alarm = time.AfterFunc(answerDeadline, func() { p.cmd.Process.Kill() })
	return p, nil
}

// send writes questions while their answers are read; wait returns once all are written.
func (p *process) send(lines [][]byte) (wait func() error) {
	p.alarm.Reset(answerDeadline)
	done := make(chan error, 1)
	go func() {
		for i := range lines {
			lines[i] = append(lines[i], '\n')
			if _, err := p.input.Write(lines[i]); err != nil {
				done <- fmt.Errorf("asking: %w", err)
				return
			}
		}
		done <- nil
	}()
	return func() error { return <-done }
}

// receive reads the next answer.
func (p *process) receive() (json.RawMessage, error) {
	line, err := p.output.ReadBytes('\n')
	if err != nil {
		p.cmd.Process.Kill()
		p.cmd.Wait()
		return nil, fmt.Errorf("kubequota gave no answer: %w %s", err, bytes.TrimSpace(p.stderr.Bytes()))
	}
	var reply struct {
		Answer  json.RawMessage
		Mistake string
	}
	if err := json.Unmarshal(line, &reply); err != nil {
		return nil, fmt.Errorf("%w: %s", err, line)
	}
	if reply.Mistake != "" {
		return nil, fmt.Errorf("kubequota does not understand: %s", reply.Mistake)
	}
	return reply.Answer, nil
}

func (p *process) stop() {
	p.alarm.Stop()
	p.input.Close()
	p.cmd.Wait()
}
