package stream

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// samplePositions are the golden ones.
var samplePositions = map[string]Position{
	"start":  {},
	"plain":  PositionAt(17, 128_812),
	"open":   {Origin: 0, Offset: 1000, Next: 1200, Open: []Span{{1000, 1001}, {1010, 1150}, {1190, 1191}}},
	"widest": {Origin: 1 << 40, Offset: 1 << 61, Next: maxOffset, Open: []Span{{1 << 61, maxOffset - 1}}},
}

func TestGoldenPositions(t *testing.T) {
	for name, want := range samplePositions {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join("testdata", "golden", "position-"+name+".v1.txt")
			encoded, err := want.MarshalText()
			if err != nil {
				t.Fatal(err)
			}
			golden, err := os.ReadFile(path)
			if os.IsNotExist(err) && *update {
				golden = append(bytes.Clone(encoded), '\n')
				err = os.WriteFile(path, golden, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
			golden = bytes.TrimSpace(golden)
			var got Position
			if err := got.UnmarshalText(golden); err != nil {
				t.Fatalf("the golden position is no longer read: %v", err)
			}
			if !got.Equal(want) {
				t.Errorf("the golden position reads as %+v, want %+v", got, want)
			}
			if string(encoded) != string(golden) {
				t.Errorf("other text is written for it: %s, want %s", encoded, golden)
			}
		})
	}
}

func TestPositionsThatAreNone(t *testing.T) {
	sound, err := samplePositions["open"].MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.Clone(sound)
	flipped[6] ^= 1
	for name, tc := range map[string]struct{ text, want string }{
		"empty":         {"", "not a position"},
		"of others":     {"committed by hand", "not a position"},
		"newer":         {"p2." + string(sound[3:]), "newer version"},
		"no content":    {"p1.", "truncated"},
		"truncated":     {string(sound[:len(sound)-4]), "truncated"},
		"damaged":       {string(flipped), "damaged"},
		"not base64":    {"p1.%%%%", "base64"},
		"line break":    {string(sound[:10]) + "\n" + string(sound[10:]), "not a position"},
		"much too long": {positionV1 + strings.Repeat("A", MaxPositionText), "at most 3072"},
	} {
		t.Run(name, func(t *testing.T) {
			p := PositionAt(1, 2)
			if err := p.UnmarshalText([]byte(tc.text)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if !p.Equal(PositionAt(1, 2)) {
				t.Errorf("the position has become %+v", p)
			}
		})
	}
}

func TestPositionsThatContradictThemselves(t *testing.T) {
	for name, p := range map[string]Position{
		"negative":             {Origin: -1},
		"before its origin":    PositionAt(5, 4),
		"next before offset":   {Offset: 5, Next: 4},
		"ahead without a hole": {Offset: 5, Next: 7},
		"hole without end":     {Offset: 5, Next: 7, Open: []Span{{5, 7}}},
		"hole too late":        {Offset: 5, Next: 9, Open: []Span{{6, 7}}},
		"adjacent holes":       {Offset: 5, Next: 9, Open: []Span{{5, 6}, {6, 7}}},
		"empty hole":           {Offset: 5, Next: 9, Open: []Span{{5, 5}}},
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := p.MarshalText(); err == nil {
				t.Errorf("encoded as %s", text)
			}
		})
	}
	long := Position{Next: 4000}
	for at := int64(0); at < 3998; at += 2 {
		long.Open = append(long.Open, Span{at, at + 1})
	}
	if _, err := long.MarshalText(); !errors.Is(err, ErrPositionTooLong) {
		t.Errorf("%d spans: %v", len(long.Open), err)
	}
}

func FuzzPosition(f *testing.F) {
	for _, p := range samplePositions {
		text, err := p.MarshalText()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var p Position
		if p.UnmarshalText(text) != nil {
			return
		}
		again, err := p.MarshalText()
		if err != nil || !bytes.Equal(again, text) {
			t.Errorf("%s is written as %s, %v", text, again, err)
		}
	})
}

// A tracker's position lists exactly the records that were resolved, survives
// the text form, and leaves a new tracker where the old one was.
func TestTrackerPositionIsExact(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 5))
		start := rng.Int64N(100)
		tracker := NewTracker(start)
		resolved := make(map[int64]bool)
		var tracked []int64
		next := start
		for range rng.IntN(300) {
			if rng.IntN(2) == 0 || len(tracked) == 0 {
				next += int64(rng.IntN(3) / 2) // now and then an offset without a record
				tracker.Track(next, 1)
				tracked = append(tracked, next)
				next++
			} else {
				offset := tracked[rng.IntN(len(tracked))]
				tracker.Resolve(offset)
				resolved[offset] = true
			}
		}
		p := tracker.Position(start)
		text, err := p.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got Position
		if err := got.UnmarshalText(text); err != nil || !got.Equal(p) {
			t.Fatalf("seed %d: %+v reads as %+v, %v", seed, p, got, err)
		}
		if len(got.Open) != tracker.OpenSpans() {
			t.Fatalf("seed %d: %d spans, the tracker counts %d", seed, len(got.Open), tracker.OpenSpans())
		}
		for _, offset := range tracked {
			if got.Done(offset) != resolved[offset] {
				t.Fatalf("seed %d: offset %d of %+v is done: %v, want %v", seed, offset, got, got.Done(offset), resolved[offset])
			}
		}
		if got.Offset != tracker.Committable() {
			t.Fatalf("seed %d: offset %d, want %d", seed, got.Offset, tracker.Committable())
		}
	}
}

func BenchmarkTrackerPosition(b *testing.B) {
	tracker := NewTracker(0)
	for offset := range int64(10_000) {
		tracker.Track(offset, 100)
	}
	for offset := range int64(10_000) {
		if offset%100 != 0 {
			tracker.Resolve(offset)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := tracker.Position(0).MarshalText(); err != nil {
			b.Fatal(err)
		}
	}
}
