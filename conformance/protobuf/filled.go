package protobuf

import (
	"fmt"
	"reflect"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Fill sets every field of an object, each to a value of its own. What holds itself is filled once within itself. Of its metadata only what a
// client may set is left.
func Fill(object runtime.Object) {
	f := filler{within: map[reflect.Type]int{}}
	f.fill(reflect.ValueOf(object).Elem())
	if holder, ok := object.(meta.Object); ok {
		holder.SetName("filled")
		holder.SetNamespace("")
		holder.SetUID("")
		holder.SetResourceVersion("")
	}
}

type filler struct {
	count  int
	within map[reflect.Type]int
}

func (f *filler) fill(value reflect.Value) {
	f.count++
	text := fmt.Sprintf("v%d", f.count)
	switch special := value.Addr().Interface().(type) {
	case *resource.Quantity:
		*special = *resource.NewQuantity(int64(f.count), resource.DecimalSI)
		return
	case *intstr.IntOrString:
		if *special = intstr.FromInt32(int32(f.count)); f.count%2 == 0 {
			*special = intstr.FromString(text)
		}
		return
	case *meta.Time:
		*special = meta.NewTime(time.Unix(1_700_000_000+int64(f.count), 0))
		return
	case *meta.MicroTime:
		*special = meta.NewMicroTime(time.Unix(1_700_000_000, int64(f.count)*1000))
		return
	case *meta.FieldsV1:
		special.SetRawString(`{"f:` + text + `":{}}`)
		return
	case *runtime.RawExtension:
		special.Raw = []byte(`{"apiVersion":"v1","kind":"` + text + `"}`)
		return
	case *apiextensions.JSON:
		special.Raw = []byte(`["` + text + `"]`)
		return
	case *apiextensions.JSONSchemaPropsOrStringArray:
		if f.count%2 == 0 {
			special.Property = []string{text}
			return
		}
	case *apiextensions.JSONSchemaPropsOrArray:
		if f.count%2 == 0 {
			special.JSONSchemas = []apiextensions.JSONSchemaProps{{ID: text}, {}}
			return
		}
	case *apiextensions.JSONSchemaPropsOrBool:
		if special.Allows = true; f.count%2 == 0 {
			return
		}
	}
	switch value.Kind() {
	case reflect.String:
		value.SetString(text)
	case reflect.Int32, reflect.Int64:
		value.SetInt(int64(f.count))
	case reflect.Float64:
		value.SetFloat(float64(f.count) + 0.5)
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Pointer:
		if f.within[value.Type().Elem()] < 2 {
			made := reflect.New(value.Type().Elem())
			f.fill(made.Elem())
			value.Set(made)
		}
	case reflect.Slice:
		if value.Type().Elem().Kind() == reflect.Uint8 {
			value.SetBytes([]byte(text))
		} else if f.within[value.Type().Elem()] < 2 {
			made := reflect.MakeSlice(value.Type(), 1, 1)
			f.fill(made.Index(0))
			value.Set(made)
		}
	case reflect.Map:
		if f.within[value.Type().Elem()] < 2 {
			made, inner := reflect.MakeMap(value.Type()), reflect.New(value.Type().Elem()).Elem()
			f.fill(inner)
			made.SetMapIndex(reflect.ValueOf(text).Convert(value.Type().Key()), inner)
			value.Set(made)
		}
	case reflect.Struct:
		f.within[value.Type()]++
		for i := range value.NumField() {
			// TypeMeta is in no message: the outermost one is in the envelope, and others get lost.
			if value.Type().Field(i).Tag.Get("protobuf") != "" {
				f.fill(value.Field(i))
			}
		}
		f.within[value.Type()]--
	}
}
