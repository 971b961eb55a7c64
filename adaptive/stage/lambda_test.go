package stage

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/porestream/porestream/adaptive"
	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
)

// TestLambda plays the beginnings of real reads, and compares what is decided with
// where the whole reads lie.
func TestLambda(t *testing.T) {
	const target, clear = 24_000, 4000 // bases of the target, and how far from its ends a read is clear of doubt
	lambda := aligntest.LambdaGenome(t)
	length := len(lambda.Contigs[0].Seq)
	targets, err := adaptive.ReadTargets(strings.NewReader("J02459.1\t0\t24000\n"), "t.bed", 0, func(string) (int, bool) { return length, true })
	if err != nil {
		t.Fatal(err)
	}
	// Where reads begin, by the alignment of the whole read.
	begins := make(map[string]int)
	for _, s := range aligntest.Lambda(t, "run", "s") {
		if s.GetAlignment() != 0 || s.GetPart() != 0 {
			begins[s.GetReadId()] = -1 // a chimera
		}
		if _, chimera := begins[s.GetReadId()]; chimera {
			continue
		}
		begins[s.GetReadId()] = int(s.GetStart())
		if s.GetReverse() {
			extent, err := align.Check(s, length)
			if err != nil {
				t.Fatal(err)
			}
			begins[s.GetReadId()] += extent.Reference
		}
	}
	onTarget := func(id string) (on, certain bool) {
		at, known := begins[id]
		on = at < target
		return on, known && at >= clear && at < length-clear && (at < target-clear || at > target+clear)
	}

	model, err := models.Open("")
	if err != nil {
		t.Fatal(err)
	}
	caller, err := basecall.NewCaller(model, basecall.Config{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer caller.Close()
	index, err := minimap.NewIndex(lambda, minimap.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer index.Close()
	aligner := index.NewAligner()
	defer aligner.Close()
	recording, err := signal.NewIndex(t.Context(), []string{filepath.Join("..", "..", "testdata", "lambda", "reads.pod5")})
	if err != nil {
		t.Fatal(err)
	}
	defer recording.Close()

	for _, mode := range []adaptive.Mode{adaptive.Enrich, adaptive.Deplete} {
		t.Run(mode.String(), func(t *testing.T) {
			policy, err := adaptive.NewPolicy(adaptive.Config{Mode: mode, Targets: targets})
			if err != nil {
				t.Fatal(err)
			}
			b := newBench(t, func(c *Config) {
				// No clock has a say: a loaded machine decides the same.
				c.Policy, c.Schedule, c.MaxAge = policy, adaptive.DefaultSchedule(), time.Hour
				c.Caller, c.Aligners = caller, []Aligner{aligner}
			})
			const reads = 24
			for i := range reads {
				e := recording.Entry(i)
				levels, err := recording.Samples(i, nil)
				if err != nil {
					t.Fatal(err)
				}
				first := uint64(0)
				for chunk := range slices.Chunk(levels, 3200) {
					b.handle(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: &streampb.SignalChunk{
						Run: "run", Channel: uint32(i) + 1, ReadId: e.ID, FirstSample: first, SampleCount: uint32(len(chunk)), Vbz: b.codec.Encode(nil, chunk),
						CalibrationOffset: e.Calibration.Offset, CalibrationScale: e.Calibration.Scale,
					}}}, time.Now())
					first += uint64(len(chunk))
					b.Handler.(*handler).working.Wait()
					if first > 20_000 {
						break
					}
				}
			}
			decided, sure := make(map[string]bool), 0
			for _, d := range b.decisions {
				if decided[d.GetReadId()] {
					t.Errorf("two decisions about read %s", d.GetReadId())
				}
				decided[d.GetReadId()] = true
				on, certain := onTarget(d.GetReadId())
				unblocks := d.GetAction() == streampb.DecisionAction_DECISION_ACTION_UNBLOCK
				switch {
				case !certain || strings.Contains("ambiguous unaligned too_short mixed", d.GetReason()):
				case unblocks != (on == (mode == adaptive.Deplete)):
					t.Errorf("read %s begins at %d: %v", d.GetReadId(), begins[d.GetReadId()], d)
				default:
					sure++
				}
			}
			t.Logf("%v: %d of %d reads decided about, %d of them certain and right", mode, len(decided), reads, sure)
			if len(decided) < reads*3/4 || sure < reads/2 {
				t.Errorf("%d of %d reads decided about, %d of them certain and right", len(decided), reads, sure)
			}
		})
	}
}
