package coverage

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const source = `package p

func Asked() int {
	return 1
}

type T struct{}

func (t *T) Asked() {
	print()
}

func Left() {
	print()
}
`

const profile = `mode: set
m/f.go:3.18,5.2 1 1
m/f.go:9.21,11.2 2 0
m/f.go:13.13,15.2 4 0
`

func TestReached(t *testing.T) {
	folder := t.TempDir()
	for name, text := range map[string]string{"f.go": source, "profile": profile} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	statements, err := ReadProfile(filepath.Join(folder, "profile"))
	if err != nil {
		t.Fatal(err)
	}
	locate := func(string) (string, error) { return folder, nil }
	for _, c := range []struct {
		functions, without []string
		hit, all           int
		missing            []string
	}{
		{nil, nil, 1, 7, []string{"f.go:9", "f.go:13"}},
		{nil, []string{"Left"}, 1, 3, []string{"f.go:9"}},
		{[]string{"Asked"}, nil, 1, 1, nil},
		{[]string{"T.Asked"}, nil, 0, 2, []string{"f.go:9"}},
	} {
		got, err := Subject{Module: "m", Files: []string{"f.go"}, Functions: c.functions, Without: c.without}.Reached(statements, locate)
		if err != nil || got.Hit != c.hit || got.All != c.all || !slices.Equal(got.Missing, c.missing) {
			t.Errorf("%v: %+v %v", c, got, err)
		}
	}
	// A function that upstream no longer has must be noticed.
	if _, err := (Subject{Module: "m", Files: []string{"f.go"}, Without: []string{"Gone"}}).Reached(statements, locate); err == nil {
		t.Error("a name that is gone is not noticed")
	}
}
