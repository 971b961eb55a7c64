package stream

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/porestream/porestream/stream/streampb"
)

func markersState(t testing.TB, m *Markers) []byte {
	t.Helper()
	b, err := m.AppendState(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// goldenMarkers are two runs of a sample, one of which has ended for a part of
// its sources, and a run that nothing has ended.
func goldenMarkers(t testing.TB) *Markers {
	t.Helper()
	m := new(Markers)
	full := &streampb.Run{
		Id: "run-2", Sample: "lambda", Experiment: "exp", FlowCell: "FAK12345", FlowCellProduct: "FLO-MIN106", Kit: "SQK-RAD004", Position: "MN1",
		Device: "MinION", SampleRate: 4000, StartTimeMs: 1_700_000_000_000, PoreType: "R9.4",
	}
	for _, step := range []struct {
		mk  *streampb.Marker
		end bool
	}{
		{&streampb.Marker{Run: full, Source: 0, Sources: 300}, false},
		{markerOf("run-1", "lambda", 0, 1), false},
		{markerOf("run-3", "phiX", 1, 2), false},
		{markerOf("run-1", "lambda", 0, 1), true},
		{&streampb.Marker{Run: full, Source: 299, Sources: 300}, true},
		{&streampb.Marker{Run: full, Source: 2, Sources: 300, EndStatus: streampb.EndStatus_END_STATUS_TIMEOUT}, true},
		{&streampb.Marker{Run: full, Source: 3, Sources: 300}, true},
	} {
		f := m.Start
		if step.end {
			f = m.End
		}
		if _, err := f(step.mk); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestGoldenMarkers: state that version 1 wrote is read by every later program.
func TestGoldenMarkers(t *testing.T) {
	path := filepath.Join("testdata", "golden", "markers-state.v1.hex")
	encoded := markersState(t, goldenMarkers(t))
	text, err := os.ReadFile(path)
	if os.IsNotExist(err) && *update {
		text = []byte(hexLines(encoded))
		err = os.WriteFile(path, text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	golden, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		t.Fatal(err)
	}
	var m Markers
	if err := m.RestoreState(golden); err != nil {
		t.Fatal(err)
	}
	if got := markersState(t, &m); !bytes.Equal(got, golden) || !bytes.Equal(encoded, golden) {
		t.Errorf("the golden state is written as\n%sand from the markers as\n%swant\n%s", hexLines(got), hexLines(encoded), text)
	}
	if !m.Ended("run-1") || m.Ended("run-2") || m.Run("run-2").GetKit() != "SQK-RAD004" || m.SampleEnded("lambda") || len(m.Open()) != 2 {
		t.Error("the golden state means something else")
	}
}

// TestRestoredMarkersGoOn: markers that were restored anywhere in a sequence say
// of the rest what those say that saw it whole, and their state is the same.
func TestRestoredMarkersGoOn(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 61))
		var whole, restored Markers
		versions := make(map[uint64]string)
		for range 40 {
			mk := markerOf(fmt.Sprint("run-", rng.IntN(5)), fmt.Sprint("sample-", rng.IntN(2)), 0, uint32(1+rng.IntN(3)))
			mk.Source = rng.Uint32N(mk.Sources)
			end := rng.IntN(3) > 0
			mk.EndStatus = streampb.EndStatus(rng.IntN(3))
			say := func(m *Markers) string {
				if end {
					complete, err := m.End(mk)
					return fmt.Sprint(complete, err, m.SampleEnded(mk.GetRun().GetSample()), m.EndStatus(mk.GetRun().GetId()), m.Open())
				}
				isNew, err := m.Start(mk)
				return fmt.Sprint(isNew, err, m.SampleEnded(mk.GetRun().GetSample()), m.Open())
			}
			if rng.IntN(4) == 0 {
				state := markersState(t, &restored)
				restored = Markers{}
				if err := restored.RestoreState(state); err != nil {
					t.Fatal(err)
				}
			}
			if got, want := say(&restored), say(&whole); got != want {
				t.Fatalf("seed %d: restored markers say %s, others %s", seed, got, want)
			}
			state := string(markersState(t, &whole))
			if got := string(markersState(t, &restored)); got != state {
				t.Fatalf("seed %d: states differ: %x, want %x", seed, got, state)
			}
			if old, ok := versions[whole.Version()]; ok && old != state {
				t.Fatalf("seed %d: version %d stands for two states", seed, whole.Version())
			}
			versions[whole.Version()] = state
		}
	}
}

func TestDamagedMarkers(t *testing.T) {
	whole := markersState(t, goldenMarkers(t))
	m := goldenMarkers(t)
	for n := range whole {
		if err := m.RestoreState(whole[:n]); err == nil {
			t.Errorf("the first %d of %d bytes are taken for all", n, len(whole))
		}
	}
	swapped := new(Markers)
	swapped.runs = map[string]*runMarkers{"x": {run: &streampb.Run{Sample: "s", SampleRate: 1}, sources: 1}}
	if err := m.RestoreState(markersState(t, swapped)); err == nil {
		t.Error("a run without id is accepted")
	}
	if got := markersState(t, m); !bytes.Equal(got, whole) {
		t.Error("an error left a trace")
	}
}

func FuzzMarkersState(f *testing.F) {
	f.Add(markersState(f, goldenMarkers(f)))
	f.Add(markersState(f, new(Markers)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var m Markers
		if m.RestoreState(b) != nil {
			return
		}
		state := markersState(t, &m)
		var again Markers
		if err := again.RestoreState(state); err != nil {
			t.Fatal(err)
		}
		if got := markersState(t, &again); !bytes.Equal(got, state) {
			t.Fatalf("restored it writes %x, want %x", got, state)
		}
	})
}
