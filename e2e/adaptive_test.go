package e2e

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/aligntest"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/ingest/minknow/minknowsim"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/stream/streamtest"
	"github.com/porestream/porestream/testenv"
)

// sampling is adaptive sampling on a simulated sequencer.
type sampling struct {
	recordings []string // whose reads are sequenced
	limit      int      // of the reads of each; 0: none
	reference  string   // FASTA
	targets    string   // BED
	channels   int
	treated    int           // channels, from the first on, whose reads are decided about
	length     time.Duration // of the run
	processor  []string      // further flags
	// enough, if set, ends the run before its time.
	enough func(actions []minknowsim.Action) bool
}

// sampled is what came of it.
type sampled struct {
	decisions []decided
	actions   []minknowsim.Action
	strands   map[string]minknowsim.Strand // by read id
	ends      map[string]string            // why reads have ended, by the signal in Kafka
	ingest    string                       // its log
}

// decided is a decision, and when it was written.
type decided struct {
	*streampb.Decision
	at time.Time
}

// sample sequences.
func (s sampling) sample(t *testing.T) sampled {
	t.Helper()
	dir := t.TempDir()
	broker, err := embedded.Start(embedded.Config{DataDir: filepath.Join(dir, "broker")})
	require.NoError(t, err)
	defer broker.Close()
	client, err := kafka.Connect(t.Context(), kafka.Config{Brokers: []string{broker.Addr()}})
	require.NoError(t, err)
	defer client.Close()
	bed := filepath.Join(dir, "targets.bed")
	require.NoError(t, os.WriteFile(bed, []byte(s.targets), 0o600))
	sim := s.simulator(t, dir)

	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	processor := start(t, cancel, "processor", append([]string{"--brokers", broker.Addr(), "--ref", s.reference, "--stages", "adaptive", "--adaptive", "enrich",
		"--targets", bed, "--adaptive-last-channel", strconv.Itoa(s.treated), "--partitions", "3", "--listen", "127.0.0.1:0"}, s.processor...)...)
	awaitAssigned(ctx, t, client, processor)
	t.Setenv("MINKNOW_API_USE_LOCAL_TOKEN", "0")
	ingest := start(t, cancel, "ingest", "minknow", "--brokers", broker.Addr(), "--host", "127.0.0.1", "--port", strconv.Itoa(sim.Port),
		"--minknow-ca", filepath.Join(dir, "certs", "ca.crt"), "--listen", "127.0.0.1:0", "--partitions", "3", "--adaptive", "--once")
	if s.enough != nil {
		s.end(ctx, t, sim)
	}
	select {
	case <-ingest.exited:
	case <-ctx.Done():
		require.NoError(t, context.Cause(ctx))
	}
	ingest.ended(t)
	processor.stop(t)

	out := sampled{strands: make(map[string]minknowsim.Strand), ends: make(map[string]string), ingest: ingest.stderr.String()}
	layout, err := sim.Layout()
	require.NoError(t, err)
	for _, strand := range layout.Strands {
		out.strands[strand.ID] = strand
	}
	out.actions, err = sim.Actions()
	require.NoError(t, err)
	topics := stream.NewTopics("")
	read := kafka.ConsumeOptions{From: kafka.FromStart, UntilEnd: true}
	require.NoError(t, client.Consume(t.Context(), topics.Decisions, read, func(rec stream.Record) error {
		d, err := stream.DecodeDecision(rec.Value)
		require.NoError(t, err)
		require.Equal(t, stream.PartitionFor(stream.SignalKey(d.GetRun(), d.GetChannel()), 3), rec.Partition)
		out.decisions = append(out.decisions, decided{d, rec.Time})
		return nil
	}))
	require.NoError(t, client.Consume(t.Context(), topics.Signal, read, func(rec stream.Record) error {
		m, err := stream.DecodeSignal(rec.Value)
		require.NoError(t, err)
		if c := m.GetChunk(); c.GetEndOfRead() {
			out.ends[c.GetReadId()] = c.GetEndReason()
		}
		return nil
	}))
	return out
}

// simulator starts the sequencer with all reads of the recordings.
func (s sampling) simulator(t *testing.T, dir string) *minknowsim.Sim {
	t.Helper()
	var reads bytes.Buffer
	for _, path := range s.recordings {
		index, err := signal.NewIndex(t.Context(), []string{path})
		require.NoError(t, err)
		require.NoError(t, minknowsim.WriteReads(&reads, index, s.limit))
		require.NoError(t, index.Close())
	}
	file := filepath.Join(dir, "reads.jsonl")
	require.NoError(t, os.WriteFile(file, reads.Bytes(), 0o600))
	authority, err := streamtest.NewAuthority()
	require.NoError(t, err)
	id, err := authority.Issue("localhost", 24*time.Hour)
	require.NoError(t, err)
	require.NoError(t, minknowsim.WriteCerts(filepath.Join(dir, "certs"), id.CAPEM, id.CertPEM, id.KeyPEM))
	sim, err := minknowsim.Start(minknowsim.Config{
		Python: minknowPython(t), Reads: file, Certs: filepath.Join(dir, "certs"), Dir: filepath.Join(dir, "sim"), Log: os.Stderr,
		Args: []string{"--channels", strconv.Itoa(s.channels), "--length", fmt.Sprint(s.length.Seconds()), "--interval", "0.02"},
	})
	require.NoError(t, err)
	t.Cleanup(sim.Kill)
	return sim
}

// awaitAssigned waits until the stage has its partitions: it takes what comes from then
// on.
func awaitAssigned(ctx context.Context, t *testing.T, client *kafka.Client, processor *service) {
	t.Helper()
	streamtest.Eventually(ctx, t, "the stage's partitions", func() bool {
		for p := range int32(3) {
			if offset, _, err := client.CommittedOffset(ctx, "porestream-adaptive", stream.NewTopics("").Signal, p); err != nil || offset < 0 {
				return false
			}
		}
		return true
	})
}

// end ends the run when there is enough of it.
func (s sampling) end(ctx context.Context, t *testing.T, sim *minknowsim.Sim) {
	t.Helper()
	streamtest.Eventually(ctx, t, "enough of the run", func() bool {
		actions, err := sim.Actions()
		require.NoError(t, err)
		return s.enough(actions)
	})
	require.NoError(t, sim.Command("end"))
}

var summaryField = regexp.MustCompile(` sent=(\d+)`)

// TestAdaptiveSampling: reads of phage lambda that lie in the half that is not asked for
// are ejected by the sequencer while they are sequenced, and no other ones.
func TestAdaptiveSampling(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the services")
	}
	const target, clear, channels, treated = 24_000, 4000, 8, 6
	begins, length := wholeReads(t)
	s := sampling{
		recordings: []string{lambda("reads.pod5")}, reference: lambda("reference.fa"), targets: fmt.Sprintf("J02459.1\t0\t%d\n", target),
		channels: channels, treated: treated, length: 10 * time.Minute,
		processor: []string{"--adaptive-max-age", "1h"}, // a machine that is busy decides the same
		enough: func(actions []minknowsim.Action) bool {
			n := 0
			for _, a := range actions {
				if a.Answer == "SUCCESS" {
					n++
				}
			}
			return n > treated // so one channel acted twice, and everything about its first time was published
		},
	}
	got := s.sample(t)

	about, certain := make(map[string]decided), 0
	for _, d := range got.decisions {
		strand, known := got.strands[d.GetReadId()]
		require.True(t, known, "a decision about read %s", d.GetReadId())
		require.Equal(t, strand.Channel, d.GetChannel())
		require.LessOrEqual(t, d.GetChannel(), uint32(treated), "the other channels are left alone")
		require.NotContains(t, about, d.GetReadId(), "two decisions about a read")
		about[d.GetReadId()] = d
		at, placed := begins[strand.Source]
		if placed = placed && at >= clear && at < length-clear && (at < target-clear || at >= target+clear); !placed || inDoubt(d.Decision) {
			continue
		}
		certain++
		require.Equal(t, at >= target, d.GetAction() == streampb.DecisionAction_DECISION_ACTION_UNBLOCK, "read %s begins at %d: %v", strand.Source, at, d.Decision)
	}
	require.GreaterOrEqual(t, certain, 4)

	acted, ejected, explained := make(map[string]bool), 0, 0
	for _, a := range got.actions {
		require.Equal(t, streampb.DecisionAction_DECISION_ACTION_UNBLOCK, about[a.Read].GetAction(), "an action that nobody decided: %+v", a)
		require.False(t, acted[a.Read], "two actions of read %s", a.Read)
		acted[a.Read] = true
		if a.Answer != "SUCCESS" {
			continue
		}
		ejected++
		strand := got.strands[a.Read]
		require.Equal(t, a.Progress+1, strand.End-strand.Start)
		require.Less(t, strand.End-strand.Start, a.Of)
		if got.ends[a.Read] == signal.EndDataServiceUnblockMuxChange.String() {
			explained++
		}
	}
	require.Greater(t, ejected, treated)
	require.Positive(t, explained, "the signal in Kafka tells why reads have ended: %v", got.ends)
	m := summaryField.FindStringSubmatch(got.ingest)
	require.NotNil(t, m, got.ingest)
	sent, err := strconv.Atoi(m[1])
	require.NoError(t, err)
	// What was on its way when the run ended may not have come.
	require.GreaterOrEqual(t, sent, len(got.actions))
	t.Logf("%d decisions, %d of them certain; %d actions, %d reads ejected, %d of them told of", len(got.decisions), certain, len(got.actions), ejected, explained)
}

// inDoubt reports whether a decision keeps a read for want of knowledge.
func inDoubt(d *streampb.Decision) bool {
	return slices.Contains([]string{"unaligned", "ambiguous", "too_short", "mixed"}, d.GetReason())
}

// wholeReads returns where the reads of the shipped recording begin, by the alignments of
// whole reads, except chimeras, and how long the genome is.
func wholeReads(t *testing.T) (begins map[string]int, length int) {
	t.Helper()
	length = len(aligntest.LambdaGenome(t).Contigs[0].Seq)
	begins = make(map[string]int)
	chimeras := make(map[string]bool)
	for _, seg := range aligntest.Lambda(t, "run", "s") {
		id := seg.GetReadId()
		_, again := begins[id]
		chimeras[id] = chimeras[id] || again || seg.GetAlignment() != 0 || seg.GetPart() != 0
		begins[id] = int(seg.GetStart())
		if seg.GetReverse() {
			extent, err := align.Check(seg, length)
			require.NoError(t, err)
			begins[id] += extent.Reference
		}
	}
	for id := range chimeras {
		if chimeras[id] {
			delete(begins, id)
		}
	}
	return begins, length
}

// adaptiveVariable asks for the simulation with two genomes, as CHANNELS:LENGTH.
const adaptiveVariable = "PORESTREAM_ADAPTIVE"

// TestEnrichment sequences phage lambda and E. coli, from half of the channels lambda
// only, and prints how soon and how well that works. `make adaptive` runs it.
func TestEnrichment(t *testing.T) {
	text, long, ok := strings.Cut(os.Getenv(adaptiveVariable), ":")
	if !ok {
		t.Skipf("measures: set %s=CHANNELS:LENGTH, or run make adaptive", adaptiveVariable)
	}
	channels, err := strconv.Atoi(text)
	require.NoError(t, err)
	length, err := time.ParseDuration(long)
	require.NoError(t, err)
	lambdaReads, ecoliReads := testenv.Recordings(t, "lambda-r9/reads.pod5"), testenv.Recordings(t, "ecoli-r9/reads.pod5")
	reference := filepath.Join(t.TempDir(), "both.fa")
	var both bytes.Buffer
	for _, path := range []string{testenv.Recordings(t, "lambda-r9/NEB.fa"), testenv.Recordings(t, "ecoli-r9/MG1655.fa.gz")} {
		g, err := genome.Load(path)
		require.NoError(t, err)
		for _, c := range g.Contigs {
			fmt.Fprintf(&both, ">%s\n%s\n", c.Name, c.Seq)
		}
	}
	require.NoError(t, os.WriteFile(reference, both.Bytes(), 0o600))
	isLambda := make(map[string]bool)
	index, err := signal.NewIndex(t.Context(), []string{lambdaReads})
	require.NoError(t, err)
	for i := range index.Len() {
		isLambda[index.Entry(i).ID] = true
	}
	require.NoError(t, index.Close())

	treated := channels / 2
	got := sampling{
		// As many reads of the one as there are of the other.
		recordings: []string{lambdaReads, ecoliReads}, limit: 57, reference: reference, targets: "NEB\t0\t48502\n",
		channels: channels, treated: treated, length: length,
	}.sample(t)
	r := report{channels: channels, length: length}
	about := make(map[string]decided)
	for _, d := range got.decisions {
		about[d.GetReadId()] = d
		r.decision = append(r.decision, d.at.Sub(time.UnixMilli(d.GetLastChunkMs())))
		unblocks := d.GetAction() == streampb.DecisionAction_DECISION_ACTION_UNBLOCK
		switch {
		case inDoubt(d.Decision):
			r.doubts++
		case unblocks != isLambda[got.strands[d.GetReadId()].Source]:
			r.right++
		default:
			r.wrong++
		}
	}
	for _, a := range got.actions {
		r.action = append(r.action, time.UnixMicro(int64(a.Time*1e6)).Sub(time.UnixMilli(about[a.Read].GetLastChunkMs())))
		if a.Answer == "SUCCESS" {
			r.ejected = append(r.ejected, time.Duration(float64(a.Progress)/4000*float64(time.Second)))
		} else {
			r.late++
		}
	}
	for _, strand := range got.strands {
		side := &r.control
		if strand.Channel <= uint32(treated) {
			side = &r.treated
		}
		n := float64(strand.End - strand.Start)
		side.all += n
		side.reads++
		if isLambda[strand.Source] {
			side.target += n
		}
	}
	t.Log("\n" + r.String())
	require.Zero(t, r.wrong)
	require.NotEmpty(t, r.action)
}

// report is how soon and how well reads were decided about.
type report struct {
	channels             int
	length               time.Duration
	right, wrong, doubts int
	decision, action     []time.Duration // from the last chunk's arrival
	ejected              []time.Duration // of the read, when it was ejected
	late                 int             // actions that came when the read had ended
	treated, control     struct{ reads, target, all float64 }
}

func (r *report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	row := func(what, format string, args ...any) {
		fmt.Fprintf(w, "%s\t"+format+"\n", append([]any{what}, args...)...)
	}
	row("channels, length", "%d, %v; half of the channels are left alone", r.channels, r.length)
	row("decisions", "%d: %d right, %d wrong, %d kept in doubt", r.right+r.wrong+r.doubts, r.right, r.wrong, r.doubts)
	row("last chunk to decision", "%s", quantiles(r.decision))
	row("last chunk to action at MinKNOW", "%s", quantiles(r.action))
	row("reads ejected", "%d, after %s; %d actions came too late", len(r.ejected), quantiles(r.ejected), r.late)
	row("target of all signal", "%.1f %% with decisions, %.1f %% without", 100*r.treated.target/r.treated.all, 100*r.control.target/r.control.all)
	row("target signal per channel", "%.2f times that without decisions", r.treated.target/r.control.target)
	if err := w.Flush(); err != nil {
		return err.Error()
	}
	return b.String()
}

// quantiles of durations, as text.
func quantiles(all []time.Duration) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	at := func(q float64) time.Duration {
		return all[min(len(all)-1, int(math.Ceil(q*float64(len(all))))-1)].Round(time.Millisecond)
	}
	return fmt.Sprintf("p50 %v, p99 %v", at(0.5), at(0.99))
}
