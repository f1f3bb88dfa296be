package replay

import (
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// headers are those whose values clients go by.
var headers = []string{"Content-Type", "Retry-After", "Warning", "Cache-Control"}

// ignored are fields that differ between any two servers, or that no client of the embedded server can rely on.
var ignored = map[string]string{
	"managedFields":      "who set which field, with times; kubectl shows it only when asked",
	"description":        "what a column of a table means: texts that kubectl doesn't show",
	"storageVersionHash": "a hash of upstream's storage, told to storage migrators",
}

// Words that stand for what no two servers agree on.
var words = []struct {
	pattern *regexp.Regexp
	word    string
}{
	{regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`), "<uid>"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`), "<time>"},
	{regexp.MustCompile(`(ResourceVersion in object meta|current): \d+`), "$1: <version>"},
	{regexp.MustCompile(`(too old resource version: \d+) \(\d+\)`), "$1 (<version>)"},
	{regexp.MustCompile(`(ResourceVersion in (the precondition|record)) \(\d+\)`), "$1 (<version>)"},
	// What a parser, or Go's types, have to say about nonsense. What comes before it is upstream's.
	{regexp.MustCompile(`(?s)((couldn't get version/kind; json parse error|error decoding patch|unable to parse requirement|` +
		`continue key is not valid): ).*`), "$1<why>"},
	{regexp.MustCompile(`(?s)(\w+( in version "[^"]*")? cannot be handled as an? \w+: ).*`), "<type error>"},
	{regexp.MustCompile(`(?s)(Object 'Kind' is missing in ).*`), "$1<object>"},
	{regexp.MustCompile(`(?s)(patch: )?Invalid value: ("\{\\|\{patched).*`), "${1}Invalid value: <object>"},
	{regexp.MustCompile(`(?s)(pod updates may not change fields other than [^\n]*\n).*`), "$1<difference>"},
	{regexp.MustCompile(`^\d+[smhd]$`), "<age>"},
	{regexp.MustCompile(`is not a list \(.*\)`), "is not a list (<type>)"},
}

// normal is an answer with what differs between any two runs of one server replaced: values that the script kept by their names, other
// uids, times, versions and page tokens by a word for each. So it still shows whether a uid stays what it was.
func (p *Player) normal(answer Answer) map[string]any {
	header := map[string]any{}
	for _, name := range headers {
		if values := answer.Header[http.CanonicalHeaderKey(name)]; len(values) > 0 {
			header[name] = strings.Join(values, "; ")
		}
	}
	return map[string]any{"code": float64(answer.Code), "header": header, "body": p.normalValue("", answer.Body)}
}

func (p *Player) normalValue(name string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		made := make(map[string]any, len(value))
		for key, inner := range value {
			if _, skipped := ignored[key]; !skipped {
				made[p.normalText(key)] = p.normalValue(key, inner)
			}
		}
		return made
	case []any:
		made := make([]any, len(value))
		for i, inner := range value {
			made[i] = p.normalValue("", inner)
		}
		return made
	case string:
		switch {
		case value == "":
			return value
		case name == "resourceVersion":
			return p.normalVersion(value)
		case name == "continue":
			return "<token>"
		}
		return p.normalText(value)
	}
	return value
}

func (p *Player) normalVersion(version string) string {
	for _, name := range sorted(p.kept) {
		// A list's version is the server's and may be anything since the last write; those that are kept of lists are not named so.
		if p.kept[name] == version && strings.HasSuffix(name, "Version") {
			return "${" + name + "}"
		}
	}
	return "<version>"
}

func (p *Player) normalText(text string) string {
	for _, name := range sorted(p.kept) {
		// Short values and numbers might be anywhere by chance.
		if value := p.kept[name]; len(value) > 4 && strings.Trim(value, "0123456789") != "" {
			text = strings.ReplaceAll(text, value, "${"+name+"}")
		}
	}
	for _, word := range words {
		text = word.pattern.ReplaceAllString(text, word.word)
	}
	return text
}

func sorted[T any](from map[string]T) []string { return slices.Sorted(maps.Keys(from)) }
