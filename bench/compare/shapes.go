package main

import (
	"fmt"
	"slices"
	"strings"
)

// shape is a population, and what is done to it.
type shape struct {
	name                         string
	namespaces, pods, configMaps int // pods and configmaps of each namespace
	load                         load
}

type load int

const (
	// steady deletes and creates at the same rate.
	steady load = iota
	// burst deletes every pod as fast as the server takes it.
	burst
	// idle does nothing.
	idle
)

// shapes are those of a run, in its order. Two of them differ in nothing but how many pods share a namespace: few and many.
func shapes(configMaps int) []shape {
	return []shape{
		{name: "20x200", namespaces: 20, pods: 200},
		{name: few, namespaces: 100, pods: 50},
		{name: many, namespaces: 2, pods: 5000},
		{name: "1000x5", namespaces: 1000, pods: 5, configMaps: configMaps},
		{name: "burst", namespaces: 20, pods: 250, load: burst},
		{name: "idle", namespaces: 20, pods: 200, load: idle},
	}
}

const few, many = "100x50", "2x5000"

// chooseShapes finds shapes by their names. Any other NxM is a steady load on N namespaces of M pods.
func chooseShapes(all []shape, names string) ([]shape, error) {
	if names == "" {
		return all, nil
	}
	var chosen []shape
	for name := range strings.SplitSeq(names, ",") {
		at := slices.IndexFunc(all, func(s shape) bool { return s.name == name })
		if at >= 0 {
			chosen = append(chosen, all[at])
			continue
		}
		s := shape{name: name}
		if _, err := fmt.Sscanf(name, "%dx%d", &s.namespaces, &s.pods); err != nil || s.namespaces < 1 || s.pods < 1 || name != s.sized() {
			return nil, fmt.Errorf("no shape is called %q", name)
		}
		chosen = append(chosen, s)
	}
	return chosen, nil
}

func (s shape) sized() string { return fmt.Sprintf("%dx%d", s.namespaces, s.pods) }

// namespace is the name of the nth.
func namespace(n int) string { return fmt.Sprintf("team-%04d", n) }

// describe says what a shape is, for a table's title.
func (s shape) describe(o options) string {
	text := fmt.Sprintf("%d namespaces x %d pods", s.namespaces, s.pods)
	if s.configMaps > 0 {
		text += fmt.Sprintf(" and %d configmaps", s.configMaps)
	}
	switch s.load {
	case burst:
		return text + fmt.Sprintf(", all %d pods deleted at once", s.namespaces*s.pods)
	case idle:
		return text + fmt.Sprintf(", nothing happens for %s", o.idle)
	default:
		return text + fmt.Sprintf(", %d deletes and %d creates a second for %s", o.rate, o.rate, o.length)
	}
}
