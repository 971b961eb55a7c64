// Package statetest holds handlers to the law of [stream.State]: a handler that
// was given a state, and then the records behind it, can't be distinguished from
// one that has seen all records.
package statetest

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/porestream/porestream/stream"
)

// Emission is what a handler emitted with one call of Emit.
type Emission struct {
	Outs     []stream.Out
	Resolved []int64
}

// Recorder is an Emitter that keeps everything.
type Recorder struct {
	Emissions []Emission
	Failed    error
}

// Emit keeps outs.
func (r *Recorder) Emit(_ context.Context, outs []stream.Out, resolved []int64) error {
	r.Emissions = append(r.Emissions, Emission{slices.Clone(outs), slices.Clone(resolved)})
	return nil
}

// Fail keeps the first error.
func (r *Recorder) Fail(err error) {
	if r.Failed == nil {
		r.Failed = err
	}
}

// Handle hands a live record to h and returns what it emits for it.
func Handle(t testing.TB, h stream.Handler, rec stream.Record) []Emission {
	t.Helper()
	emit := new(Recorder)
	if err := h.Handle(t.Context(), rec, emit); err != nil {
		t.Fatalf("handling offset %d: %v", rec.Offset, err)
	}
	if emit.Failed != nil {
		t.Fatalf("handling offset %d: %v", rec.Offset, emit.Failed)
	}
	return emit.Emissions
}

// Snapshot is all sections of h's state, by name.
func Snapshot(t testing.TB, h stream.Handler) map[string]string {
	t.Helper()
	state := h.State()
	sections := make(map[string]string)
	last := ""
	for _, s := range state.Sections() {
		if s.Name <= last {
			t.Fatalf("section %q is listed behind %q", s.Name, last)
		}
		last = s.Name
		prefix := []byte("prefix")
		b, err := state.AppendSection(prefix, s.Name)
		if err != nil {
			t.Fatalf("section %q: %v", s.Name, err)
		}
		content, ok := bytes.CutPrefix(b, prefix)
		if !ok {
			t.Fatalf("section %q is not appended", s.Name)
		}
		sections[s.Name] = string(content)
	}
	return sections
}

// Restore gives sections to a new handler, whose buffers are overwritten behind
// it.
func Restore(t testing.TB, h stream.Handler, sections map[string]string) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		b := []byte(sections[name])
		if err := h.State().RestoreSection(name, b); err != nil {
			t.Fatal(err)
		}
		for i := range b {
			b[i] = 0xa5
		}
	}
}

// versions checks that a version of a section never stands for two contents.
type versions map[stream.Section]string

func (v versions) see(t testing.TB, h stream.Handler, sections map[string]string) {
	t.Helper()
	for _, s := range h.State().Sections() {
		if old, ok := v[s]; ok && old != sections[s.Name] {
			t.Fatalf("version %d of section %q stands for two contents", s.Version, s.Name)
		}
		v[s] = sections[s.Name]
	}
}

// Law handles recs with a handler that never stops, and with one that is lost and
// restored about every mean records, from a state up to 2*mean records old, with
// what lies between replayed. Both must say the same, record by record, and end
// with the same state. It returns what was emitted.
func Law(t testing.TB, newHandler func() stream.Handler, recs []stream.Record, mean int, seed uint64) []stream.Out {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 4711))
	whole, broken := newHandler(), newHandler()
	format := whole.State().Format()
	seen := make(versions)
	kept, at := Snapshot(t, broken), 0
	var all []stream.Out
	for i, rec := range recs {
		if rng.IntN(2*mean) == 0 {
			kept, at = Snapshot(t, broken), i
		}
		if rng.IntN(mean) == 0 {
			broken = newHandler()
			if got := broken.State().Format(); got != format {
				t.Fatalf("another handler has the format %v, want %v", got, format)
			}
			Restore(t, broken, kept)
			if got := Snapshot(t, broken); !maps.Equal(got, kept) {
				t.Fatalf("record %d: a restored state is %s", i, difference(got, kept))
			}
			for _, missed := range recs[at:i] {
				if err := broken.Replay(t.Context(), missed); err != nil {
					t.Fatalf("replaying record %d: %v", missed.Offset, err)
				}
			}
		}
		got, want := Handle(t, broken, rec), Handle(t, whole, rec)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("record %d gives\n%+v\nwant\n%+v", i, got, want)
		}
		for _, e := range want {
			all = append(all, e.Outs...)
		}
		if rng.IntN(mean) == 0 || i == len(recs)-1 {
			state := Snapshot(t, whole)
			if got := Snapshot(t, broken); !maps.Equal(got, state) {
				t.Fatalf("behind record %d a restored state is %s", i, difference(got, state))
			}
			seen.see(t, whole, state)
		}
	}
	return all
}

// difference names what is not the same.
func difference(got, want map[string]string) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		g, ok := got[name]
		switch {
		case !ok:
			return fmt.Sprintf("without section %q", name)
		case g != want[name]:
			return fmt.Sprintf("another in section %q: %d bytes\n%.2000q\nwant %d\n%.2000q", name, len(g), g, len(want[name]), want[name])
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			return fmt.Sprintf("one with section %q, which should not be there", name)
		}
	}
	return "the same"
}
