package protobuf

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TableFile is where the embedded server keeps the table, from the checkout's folder.
const TableFile = "crates/testserver/src/protobuf/messages.txt"

const tableHeader = `# How objects of Kubernetes %s look in protobuf and in JSON. Made, after a change of that version, by
#     go run -C conformance ./cmd/protobuf-table
# kind APIVERSION KIND MESSAGE
# message NAME, and a line for each field: NUMBER NAME TYPE
#     name: that of JSON; a dot is a message whose fields stand in JSON beside the others
#     type: ? left out of JSON where empty   * may be absent   [] list   {} map from string, then a type or a message's name
`

// special are types that write their JSON, or read their protobuf, by code of their own.
var special = map[reflect.Type]string{
	reflect.TypeFor[resource.Quantity]():                          "quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "int-or-string",
	reflect.TypeFor[meta.Time]():                                  "time",
	reflect.TypeFor[meta.MicroTime]():                             "micro-time",
	reflect.TypeFor[meta.FieldsV1]():                              "json",
	reflect.TypeFor[runtime.RawExtension]():                       "json",
	reflect.TypeFor[apiextensions.JSON]():                         "json",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "schema-or-bool",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "schema-or-list",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "schema-or-names",
}

// Table is what the server has to know of the messages of Kinds: fields by their numbers, with their names and types in JSON. It is read off
// Go's types, whose tags are what both encodings are made of: the .proto files, made of the same tags, don't tell what JSON leaves out.
func Table(kubernetes string) (string, error) {
	t := table{messages: map[string]string{}}
	var kinds []string
	for _, object := range Kinds() {
		gvk := object.GetObjectKind().GroupVersionKind()
		name, err := t.add(message(object))
		if err != nil {
			return "", err
		}
		kinds = append(kinds, fmt.Sprintf("kind %s %s %s\n", gvk.GroupVersion(), gvk.Kind, name))
	}
	text := fmt.Sprintf(tableHeader, kubernetes) + strings.Join(kinds, "")
	for _, name := range slices.Sorted(maps.Keys(t.messages)) {
		text += "message " + name + "\n" + t.messages[name]
	}
	return text, nil
}

type table struct{ messages map[string]string }

// message is the Go type of an object's message.
func message(object runtime.Object) reflect.Type { return reflect.TypeOf(object).Elem() }

// add adds a message with all that it holds, and names it: `core.v1.Pod` for k8s.io/api/core/v1.Pod.
func (t table) add(message reflect.Type) (string, error) {
	path := strings.Split(message.PkgPath(), "/")
	name := strings.Join(append(path[max(0, len(path)-2):], message.Name()), ".")
	if _, known := t.messages[name]; known {
		return name, nil
	}
	t.messages[name] = "" // messages may hold themselves
	var lines strings.Builder
	for i := range message.NumField() {
		line, err := t.field(message.Field(i))
		if err != nil {
			return "", fmt.Errorf("%s.%w", name, err)
		}
		lines.WriteString(line)
	}
	t.messages[name] = lines.String()
	return name, nil
}

func (t table) field(field reflect.StructField) (string, error) {
	tag := field.Tag.Get("protobuf")
	if tag == "" || tag == "-" {
		return "", nil // TypeMeta, which the envelope holds
	}
	parts := strings.Split(tag, ",")
	if len(parts) < 2 {
		return "", fmt.Errorf("%s: a protobuf tag without a number", field.Name)
	}
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	said := func(option string) bool { return slices.Contains(strings.Split(options, ","), option) }
	of, err := t.typeOf(field.Type)
	if err != nil {
		return "", fmt.Errorf("%s: %w", field.Name, err)
	}
	switch {
	case name == "" && field.Anonymous && field.Type.Kind() == reflect.Struct:
		name = "."
	case name == "" || name == "-" || name == ".":
		return "", fmt.Errorf("%s: no name in JSON", field.Name)
	case said("omitzero"), said("omitempty") && field.Type.Kind() != reflect.Struct:
		// Without omitzero a struct is never left out.
		of = "?" + of
	}
	return fmt.Sprintf("%s %s %s\n", parts[1], name, of), nil
}

func (t table) typeOf(of reflect.Type) (string, error) {
	if name, found := special[of]; found {
		if strings.HasPrefix(name, "schema-") {
			_, err := t.add(reflect.TypeFor[apiextensions.JSONSchemaProps]())
			return name, err
		}
		return name, nil
	}
	_, custom := reflect.PointerTo(of).MethodByName("Unmarshal")
	prefix := ""
	switch of.Kind() {
	case reflect.String:
		return "text", nil
	case reflect.Int32, reflect.Int64, reflect.Bool, reflect.Float64:
		return of.Kind().String(), nil
	case reflect.Struct:
		return t.add(of)
	case reflect.Pointer:
		prefix = "*"
	case reflect.Map:
		if of.Key().Kind() == reflect.String {
			prefix = "{}"
		}
	case reflect.Slice:
		if of.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		prefix = "[]"
	}
	// A list that is a message of its own has a method to be read by.
	if prefix == "" || custom {
		return "", fmt.Errorf("%s: a type that the embedded server can't read", of)
	}
	inner, err := t.typeOf(of.Elem())
	return prefix + inner, err
}
