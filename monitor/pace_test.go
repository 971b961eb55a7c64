package monitor

import (
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

func TestBehind(t *testing.T) {
	ratio := func(v float64) *float64 { return &v }
	unknown := math.NaN()
	for name, c := range map[string]struct {
		pace pace
		want bool
	}{
		"nothing comes in":                    {pace{nil, 0, []float64{1000}}, false},
		"all is basecalled":                   {pace{ratio(1), 1, []float64{0}}, false},
		"just enough":                         {pace{ratio(0.95), 0.5, []float64{100}}, false},
		"long reads have begun":               {pace{ratio(0.2), 1, []float64{0.3, 0}}, false},
		"signal is left unread":               {pace{ratio(0.9), 0.9, []float64{0.3}}, true},
		"ten seconds wait":                    {pace{ratio(0.9), 1, []float64{0, 10}}, false},
		"eleven seconds wait":                 {pace{ratio(0.9), 1, []float64{0, 11, 0}}, true},
		"work waits and none is done":         {pace{ratio(0.9), 1, []float64{math.Inf(1)}}, true},
		"nothing waits and nothing is done":   {pace{ratio(0.9), 1, []float64{unknown}}, false},
		"nobody tells what was taken in":      {pace{ratio(0.9), unknown, []float64{0}}, false},
		"work waits, but more is done":        {pace{ratio(1.4), 1.4, []float64{300}}, false},
		"nobody tells, but ten seconds' work": {pace{ratio(0), unknown, []float64{10.5}}, true},
	} {
		assert.Equal(t, c.want, c.pace.behind(), name)
	}
}

// The page says what the alert says, at a fifth of its times.
func TestPaceIsTheAlerts(t *testing.T) {
	rules, err := os.ReadFile(filepath.Join("..", "deploy", "prometheus", "rules.yml"))
	require.NoError(t, err)
	_, alert, found := strings.Cut(string(rules), "- alert: PorestreamNotKeepingUp\n")
	require.True(t, found)
	alert, _, _ = strings.Cut(alert, "- alert:")
	numbers := func(pattern string) []float64 {
		var out []float64
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(alert, -1) {
			n, err := strconv.ParseFloat(m[1], 64)
			require.NoError(t, err)
			out = append(out, n)
		}
		return out
	}
	assert.Equal(t, []float64{leastKept, leastKept}, numbers(`(?:keep_up|taken_in):ratio_rate5m < (\S+)`))
	assert.Equal(t, []float64{longestWait, longestWait}, numbers(`drain_seconds:rate5m\)? > (\S+)`))
	held := regexp.MustCompile(`(?m)^\s+for: (\S+)$`).FindStringSubmatch(alert)
	require.NotNil(t, held)
	hold, err := time.ParseDuration(held[1])
	require.NoError(t, err)
	assert.Equal(t, hold, 5*behindHold)
	assert.Equal(t, hold, 5*longWindow)
	assert.Contains(t, alert, "severity: "+SeverityWarning)
}

// flowOf is a processor that takes in and basecalls shares of the 5,000 samples a second
// that come in, with seconds of work waiting.
type flowOf struct{ takenIn, kept, waits float64 }

// Word, sentence, tile and problem agree at every moment.
func TestWordAndPaceAgree(t *testing.T) {
	steady := func(f flowOf) func(int) flowOf { return func(int) flowOf { return f } }
	for name, c := range map[string]struct {
		flow     func(second int) flowOf
		word     string
		state    string
		pace     string
		sentence string
	}{
		"keeping up": {steady(flowOf{1, 1, 0.2}), "Running", HealthGood, PaceKept, "Everything that comes in"},
		"late":       {steady(flowOf{1, 1, 25}), "Catching up", HealthGood, PaceKept, "250 records wait for basecall, about 25 s of work; calls come later by as much."},
		"long reads": {steady(flowOf{1, 0.5, 0.2}), "Running", HealthGood, PaceUnsettled, "Reads are under way"},
		"unread":     {steady(flowOf{0.6, 0.6, 3}), "Falling behind", HealthWarning, PaceBehind, "Only 60 % of the signal that comes in is basecalled. Start another processor"},
		"waiting":    {steady(flowOf{1, 0.9, 20}), "Falling behind", HealthWarning, PaceBehind, "Only 90 %"},
		"far behind": {steady(flowOf{0.6, 0.6, 100}), "Falling behind", HealthError, PaceBehind, "Only 60 %"},
		"for a while only": {func(n int) flowOf {
			if n > 90 && n < 120 {
				return flowOf{0.1, 0.1, 3}
			}
			return flowOf{1, 1, 0.2}
		}, "Running", HealthGood, PaceKept, "Everything"},
		"caught up again": {func(n int) flowOf {
			if n < 150 {
				return flowOf{0.6, 0.6, 15}
			}
			return flowOf{1, 1, 0.2}
		}, "Running", HealthGood, PaceKept, "Everything"},
	} {
		t.Run(name, func(t *testing.T) {
			topics := stream.NewTopics("")
			begin := time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC)
			v := NewView(topics, Limits{})
			value, err := stream.EncodeRun(&streampb.Run{Id: "run", Sample: "x", SampleRate: 5000})
			require.NoError(t, err)
			require.NoError(t, v.Add(stream.Record{Topic: topics.Runs, Value: value, Time: begin}))
			var s Summary
			var taken, kept float64
			for n := range 300 {
				f := c.flow(n)
				taken, kept = taken+5000*f.takenIn, kept+5000*f.kept
				now := begin.Add(time.Duration(n) * time.Second)
				m := &streampb.Status{Instance: "p", Sequence: uint64(n + 1), TimeMs: now.UnixMilli(), Body: &streampb.Status_Process{Process: &streampb.ProcessReport{
					Kind: "processor", Host: "lab", StartedMs: begin.UnixMilli(), Stages: []string{"basecall"}, Measures: []*streampb.Measure{
						{Name: mIngestSamples, Value: 5000 * float64(n)}, {Name: mChunkSamples, Value: taken}, {Name: mBasecallSamples, Labels: []string{"model", "fast"}, Value: kept},
						{Name: mRecords, Labels: []string{"direction", "in", "topic", "signal"}, Value: 10 * float64(n)},
						{Name: mLag, Labels: []string{"topic", "signal"}, Value: 10 * f.waits},
						{Name: mLive, Labels: []string{"group", "g"}, Value: 4},
					},
				}}}
				record, err := stream.EncodeStatus(m)
				require.NoError(t, err)
				require.NoError(t, v.Add(stream.Record{Topic: topics.Status, Key: stream.StatusKey(m), Value: record, Time: now}))
				v.Changes(now)
				s = v.Summary(now)
				_, behind := v.problems[keepUpProblem]
				require.Equal(t, behind, s.Rates.Pace == PaceBehind, "after %d s", n)
				require.Equal(t, behind, s.Health.Word == "Falling behind", "after %d s: %+v", n, s.Health)
				if s.Health.State == HealthGood {
					require.NotContains(t, s.Health.Sentence, "%")
					require.NotEqual(t, PaceBehind, s.Rates.Pace)
				}
			}
			assert.Equal(t, c.word, s.Health.Word)
			assert.Equal(t, c.state, s.Health.State)
			assert.Equal(t, c.pace, s.Rates.Pace)
			assert.Contains(t, s.Health.Sentence, c.sentence)
		})
	}
}
