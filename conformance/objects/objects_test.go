package objects

import (
	"reflect"
	"testing"
)

func TestTheSameSeedMakesTheSamePopulation(t *testing.T) {
	if !reflect.DeepEqual(Generate(5), Generate(5)) {
		t.Error("two populations of one seed differ")
	}
	if reflect.DeepEqual(Generate(5), Generate(6)) {
		t.Error("two seeds make the same population")
	}
}

func TestNamesAreUnique(t *testing.T) {
	set := Generate(1)
	seen := map[string]bool{}
	for _, part := range [][]*Object{set.Cluster, set.Objects, set.Quotas} {
		for _, object := range part {
			if seen[object.Path()] {
				t.Errorf("%s is made twice", object.Path())
			}
			seen[object.Path()] = true
		}
	}
	if len(set.Objects) < 300 || len(set.Quotas) < 40 {
		t.Errorf("only %d objects and %d quotas", len(set.Objects), len(set.Quotas))
	}
}
