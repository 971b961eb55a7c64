package stage

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/statetest"
	"github.com/porestream/porestream/stream/streampb"
)

func motifsValue(t testing.TB, sample string, runs []string, motifs ...string) []byte {
	t.Helper()
	value, err := stream.EncodeReads(&streampb.ReadRecord{Body: &streampb.ReadRecord_ModifiedMotifs{ModifiedMotifs: &streampb.ModifiedMotifs{Sample: sample, Runs: runs, Motifs: motifs}}})
	require.NoError(t, err)
	return value
}

// waiting makes handlers that wait for motifs.
func waiting(t testing.TB, log *slog.Logger) stream.Handler {
	t.Helper()
	h, err := New(Config{Topics: stream.NewTopics(""), CallsPartitions: 2, Genome: lambda(t), FindMotifs: true, Logger: log})("reads", 2, 5)
	require.NoError(t, err)
	return h
}

// TestFinalCallsWaitForMotifs: what is final comes with the motifs of all of the sample's runs, and the run's end behind it; motifs of
// fewer runs, or while a run goes on, don't bring it about.
func TestFinalCallsWaitForMotifs(t *testing.T) {
	h := waiting(t, nil)
	counts := func(values ...[]byte) (final, ends int) {
		for _, rec := range records(values) {
			for _, e := range statetest.Handle(t, h, rec) {
				for _, m := range decode(t, e.Outs) {
					if m.GetCall().GetStatus() == streampb.CallStatus_FINAL {
						require.Zero(t, ends, "a run has ended before its final calls")
						final++
					}
					if m.GetRunEnd() != nil {
						ends++
					}
				}
			}
		}
		return final, ends
	}
	values := [][]byte{markerValue(t, "run-2", "s", 0, 1, false)}
	for _, run := range []string{"run-1", "run-2"} {
		values = append(values, runValues(t, run, "s", simulate(t, lambda(t), run, "s", 60, 5))...)
	}
	values = append(values, motifsValue(t, "s", nil, "GATC"), motifsValue(t, "s", []string{"run-1"}, "GATC"), motifsValue(t, "other", []string{"run-1", "run-2"}))
	final, ends := counts(values...)
	require.Zero(t, final)
	require.Equal(t, 2, ends, "of the run whose sample goes on in another one, in two partitions")
	final, ends = counts(motifsValue(t, "s", []string{"run-1", "run-2"}, "GATC", "CCWGG", "CHH"))
	require.GreaterOrEqual(t, final, len(truth))
	require.Equal(t, 2, ends, "of the last run")
	final, ends = counts(motifsValue(t, "s", []string{"run-1", "run-2"}, "GATC", "CCWGG", "CHH"))
	require.Zero(t, final+ends, "nothing has changed")
}

// TestMotifsThatDontCome: a run that waits for motifs for a minute is reported, once.
func TestMotifsThatDontCome(t *testing.T) {
	var log bytes.Buffer
	h := waiting(t, slog.New(slog.NewTextHandler(&log, nil)))
	for _, rec := range records(runValues(t, "run-1", "s", nil)) {
		statetest.Handle(t, h, rec)
	}
	begin := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	for after := time.Duration(0); after <= 3*time.Minute; after += 2 * time.Second {
		require.NoError(t, h.(stream.Ticker).Tick(t.Context(), begin.Add(after), new(statetest.Recorder)))
		require.Equal(t, after >= time.Minute, log.Len() > 0, "after %v", after)
	}
	require.Equal(t, 1, bytes.Count(log.Bytes(), []byte("final calls wait for the motifs")), log.String())
	require.Contains(t, log.String(), "run-1")
}

// TestLawWithMotifs: a handler that is lost and restored while it waits goes on as one that is not.
func TestLawWithMotifs(t *testing.T) {
	reads := simulate(t, lambda(t), "run-1", "s", 90, 8)
	first := runValues(t, "run-1", "s", reads[:60])
	values := append([][]byte{}, first[:30]...)
	values = append(values, motifsValue(t, "s", nil, "GATC"))
	values = append(values, first[30:]...)
	values = append(values, motifsValue(t, "s", []string{"run-1"}, "CCWGG", "GATC"))
	for _, s := range reads[60:] {
		values = append(values, segmentValue(t, s))
	}
	values = append(values, motifsValue(t, "s", []string{"run-1"}, "GATC"), markerValue(t, "run-1", "s", 0, 1, true))
	for seed := range uint64(3) {
		outs := statetest.Law(t, func() stream.Handler { return waiting(t, nil) }, records(values), 6, seed)
		statuses := make(map[streampb.CallStatus]int)
		for _, m := range decode(t, outs) {
			statuses[m.GetCall().GetStatus()]++
		}
		require.Positive(t, statuses[streampb.CallStatus_FINAL])
		require.Positive(t, statuses[streampb.CallStatus_AMENDED])
	}
}

// TestRunsThatGoOnWithoutMotifs: a run's end doesn't wait for the motifs of a sample that goes on in another run: those of the first alone may
// never be found. What is final of the sample waits for both.
func TestRunsThatGoOnWithoutMotifs(t *testing.T) {
	h := waiting(t, nil)
	ended := func(values ...[]byte) (runs []string) {
		for _, rec := range records(values) {
			for _, e := range statetest.Handle(t, h, rec) {
				for _, m := range decode(t, e.Outs) {
					require.NotEqual(t, streampb.CallStatus_FINAL, m.GetCall().GetStatus())
					if end := m.GetRunEnd(); end != nil {
						runs = append(runs, end.GetRun().GetId())
					}
				}
			}
		}
		return runs
	}
	require.Empty(t, ended(runValues(t, "run-1", "s", simulate(t, lambda(t), "run-1", "s", 60, 5))...))
	require.Equal(t, []string{"run-1", "run-1"}, ended(markerValue(t, "run-2", "s", 0, 1, false)), "in two partitions")
	require.Empty(t, ended(motifsValue(t, "s", []string{"run-1"}, "GATC"), markerValue(t, "run-2", "s", 0, 1, true)))
}

// TestMotifsOfLateReads: if late reads change the motifs of a sample whose carry-over is assessed, it is assessed again: other alleles may be
// called than before.
func TestMotifsOfLateReads(t *testing.T) {
	h := waiting(t, nil)
	mk := &streampb.Marker{
		Run:     &streampb.Run{Id: "run-1", Sample: "s", Samples: []string{"s", "wild"}, SampleRate: 4000, Controls: []*streampb.Control{wild()}},
		Sources: 1,
	}
	start, err := stream.ReadsMarker(mk, false)
	require.NoError(t, err)
	end, err := stream.ReadsMarker(mk, true)
	require.NoError(t, err)
	notified := func(values ...[]byte) (n int) {
		for _, rec := range records(values) {
			for _, e := range statetest.Handle(t, h, rec) {
				for _, o := range e.Outs {
					if o.Topic != "reads" {
						continue
					}
					m, err := stream.DecodeReads(o.Value)
					require.NoError(t, err)
					require.Equal(t, []string{"run-1"}, m.GetCarryOverReport().GetEnded())
					n++
				}
			}
		}
		return n
	}
	runs := []string{"run-1"}
	require.Zero(t, notified(start, end, motifsValue(t, "s", runs, "GATC")))
	require.Equal(t, 1, notified(motifsValue(t, "wild", runs)), "all of the run is there")
	require.Zero(t, notified(motifsValue(t, "s", runs, "GATC")))
	require.Equal(t, 1, notified(motifsValue(t, "s", runs, "CCWGG")))
}
