package suites

import "testing"

func TestCompareResource(t *testing.T) {
	text := func(s string) *string { return &s }
	for name, c := range map[string]struct {
		got        auditResource
		hard, used string
		recorded   bool
		ok         bool
	}{
		"same by value":          {auditResource{"cpu", text("1000m"), text("0.5"), text("500m"), text("0")}, "1", "500m", true, true},
		"other hard":             {auditResource{"cpu", text("2"), text("1"), text("1"), nil}, "1", "1", true, false},
		"other recorded":         {auditResource{"cpu", text("1"), text("2"), text("1"), nil}, "1", "1", true, false},
		"other computed":         {auditResource{"cpu", text("1"), text("1"), text("2"), text("-1")}, "1", "1", true, false},
		"not computed":           {auditResource{"cpu", text("1"), text("1"), nil, nil}, "1", "1", true, false},
		"invented drift":         {auditResource{"cpu", text("1"), text("1"), text("1"), text("1")}, "1", "1", true, false},
		"not a quantity":         {auditResource{"cpu", text("1"), text("1"), text("one"), nil}, "1", "1", true, false},
		"untracked, kept":        {auditResource{"example.com/gadgets", text("10"), text("7"), nil, nil}, "10", "7", true, true},
		"untracked, nothing":     {auditResource{"example.com/gadgets", text("10"), nil, nil, nil}, "10", "", false, true},
		"untracked, yet counted": {auditResource{"example.com/gadgets", text("10"), text("7"), text("0"), nil}, "10", "7", true, false},
	} {
		t.Run(name, func(t *testing.T) {
			if err := compareResource(c.got, c.hard, c.used, c.recorded); (err == nil) != c.ok {
				t.Errorf("got %v, want ok: %t", err, c.ok)
			}
		})
	}
}
