package replay

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"kubequota.dev/conformance/protobuf"
)

// Server answers requests as they are, whatever the answer.
type Server interface {
	Request(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error)
}

// Player plays steps on one server.
type Player struct {
	Server Server
	// Compact lets the server forget its history.
	Compact func(ctx context.Context) error

	kept map[string]string
}

// Know lets the script use a value by a name, as if a step had kept it.
func (p *Player) Know(name, value string) {
	if p.kept == nil {
		p.kept = map[string]string{}
	}
	p.kept[name] = value
}

// Answer is what a server said.
type Answer struct {
	Code   int
	Header http.Header
	// Body is parsed JSON: one value, or a watch's events. What is no JSON is a text.
	Body any
}

// patience bounds what a server does in its own time: events that are still to come, and the repeats of `until`.
const patience = 10 * time.Second

// errSilent is a server that gave no answer at all, which leaves nothing to be played.
var errSilent = errors.New("no answer")

// Play plays one step.
func (p *Player) Play(ctx context.Context, step Step) (Answer, error) {
	if step.Compact {
		if err := p.Compact(ctx); err != nil {
			return Answer{}, fmt.Errorf("compacting: %w", err)
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("no answer as expected within %s", patience))
	defer cancel()
	for {
		answer, err := p.send(ctx, step)
		if err != nil {
			return answer, err
		}
		if step.Until == 0 || answer.Code == step.Until {
			return answer, p.keep(step, answer)
		}
		select {
		case <-ctx.Done():
			return answer, fmt.Errorf("%w: the code stayed %d", context.Cause(ctx), answer.Code)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (p *Player) send(ctx context.Context, step Step) (Answer, error) {
	method, path, _ := strings.Cut(p.fill(step.Request), " ")
	body := []byte(p.fill(step.Text))
	if step.Body != nil {
		var err error
		if body, err = encode(step.Type, []byte(p.fill(string(step.Body)))); err != nil {
			return Answer{}, err
		}
	}
	header := http.Header{}
	if step.Accept != "" {
		header.Set("Accept", p.fill(step.Accept))
	}
	switch {
	case step.Type != "":
		header.Set("Content-Type", step.Type)
	case method == http.MethodPatch:
		header.Set("Content-Type", "application/merge-patch+json")
	case len(body) > 0:
		header.Set("Content-Type", "application/json")
	}
	response, err := p.Server.Request(ctx, method, path, header, body)
	if err != nil {
		return Answer{}, fmt.Errorf("%w: %w", errSilent, err)
	}
	defer response.Body.Close()
	answer := Answer{Code: response.StatusCode, Header: response.Header}
	if answer.Body, err = readBody(response, step.Events); err != nil {
		return answer, fmt.Errorf("reading the answer: %w", err)
	}
	return answer, nil
}

// encode is a body of a media type.
func encode(mediaType string, text []byte) ([]byte, error) {
	if mediaType != protobuf.MediaType {
		return text, nil
	}
	var typed meta.TypeMeta
	if err := json.Unmarshal(text, &typed); err != nil {
		return nil, err
	}
	object := protobuf.Empty(typed.APIVersion, typed.Kind)
	if object == nil {
		return nil, fmt.Errorf("no kind %s %s is known in protobuf", typed.APIVersion, typed.Kind)
	}
	if err := json.Unmarshal(text, object); err != nil {
		return nil, err
	}
	return protobuf.Encode(object)
}

// readBody reads a whole body, or so many lines of it.
func readBody(response *http.Response, lines int) (any, error) {
	if lines > 0 && response.StatusCode == http.StatusOK {
		var events []any
		reader := bufio.NewReader(response.Body)
		for range lines {
			line, err := reader.ReadBytes('\n')
			if err != nil {
				return nil, fmt.Errorf("event %d of %d: %w", len(events)+1, lines, err)
			}
			var event any
			if err := json.Unmarshal(line, &event); err != nil {
				return nil, err
			}
			events = append(events, event)
		}
		return events, nil
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	var values []any
	decoder := json.NewDecoder(bytes.NewReader(text))
	for {
		var value any
		err := decoder.Decode(&value)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return string(text), nil
		}
		values = append(values, value)
	}
	switch len(values) {
	case 0:
		return string(text), nil
	case 1:
		return values[0], nil
	}
	return values, nil
}

// fill puts kept values into a text.
func (p *Player) fill(text string) string {
	return os.Expand(text, func(name string) string {
		if value, kept := p.kept[name]; kept {
			return value
		}
		// A patch strategy, `$patch` for instance, is no variable.
		return "$" + name
	})
}

func (p *Player) keep(step Step, answer Answer) error {
	for _, name := range sorted(step.Keep) {
		value, found := field(answer.Body, step.Keep[name])
		if !found {
			return fmt.Errorf("the answer has no %s to be kept as %s", step.Keep[name], name)
		}
		p.Know(name, fmt.Sprint(value))
	}
	return nil
}

// field looks up a path of map keys; a number is an index.
func field(value any, path string) (any, bool) {
	for part := range strings.SplitSeq(path, ".") {
		switch holder := value.(type) {
		case map[string]any:
			inner, found := holder[part]
			if !found {
				return nil, false
			}
			value = inner
		case []any:
			var index int
			if _, err := fmt.Sscan(part, &index); err != nil || index < 0 || index >= len(holder) {
				return nil, false
			}
			value = holder[index]
		default:
			return nil, false
		}
	}
	return value, true
}
