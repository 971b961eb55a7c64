package ingest

import "testing"

func TestParsePace(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want float64
		ok   bool
	}{
		{"max", 0, true}, {"1", 1, true}, {"0.5", 0.5, true}, {"1e3", 1000, true},
		{"0", 0, false}, {"-1", 0, false}, {"", 0, false}, {"fast", 0, false}, {"Inf", 0, false}, {"NaN", 0, false},
	} {
		got, err := ParsePace(tt.in)
		if got != tt.want || (err == nil) != tt.ok {
			t.Errorf("ParsePace(%q) = %g, %v", tt.in, got, err)
		}
	}
}
