package virtual

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	alignstage "github.com/porestream/porestream/align/stage"
	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/diplotype"
	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/basecall"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/chaos/check"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/internal/pipeline"
	"github.com/porestream/porestream/modbase"
	methylatestage "github.com/porestream/porestream/modbase/stage"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	variantstage "github.com/porestream/porestream/variant/stage"
	"github.com/porestream/porestream/variant/varianttest"
)

// The recording: every sample of a toy read is a base.
const (
	contigs      = 4
	contigLength = 1500
	readLength   = 400
	chunkLength  = 100
	channels     = 12
	toySNPs      = 6 // per contig
)

var bases = []byte("ACGT")

// recording is made-up sequencing runs, one behind the other, of one sample that differs from the reference in places.
type recording struct {
	genome *genome.Genome
	gene   *diplotype.Definitions // on a contig with one copy, as all are
	runs   []*streampb.Run
	chunks [][]*streampb.SignalChunk // of each run, in the order of their time
}

// runsOfSample is how many runs the sample has.
const runsOfSample = 2

// record makes a recording. It is done outside of virtual time, for it reads a file.
func record(t *testing.T, rng *rand.Rand, reads int) *recording {
	t.Helper()
	var fasta strings.Builder
	for c := range contigs {
		fmt.Fprintf(&fasta, ">c%d\n", c)
		for range contigLength {
			fasta.WriteByte(bases[rng.IntN(4)])
		}
		fasta.WriteByte('\n')
	}
	path := filepath.Join(t.TempDir(), "toy.fa")
	require.NoError(t, os.WriteFile(path, []byte(fasta.String()), 0o600))
	g, err := genome.Load(path)
	require.NoError(t, err)
	r := &recording{genome: g, gene: gene(t, g.Contig("c0"))}
	for n := range runsOfSample {
		r.runs = append(r.runs, &streampb.Run{Id: fmt.Sprint("toy", n), Sample: "sample", SampleRate: 4000})
	}
	var samples [contigs][2][]byte // both copies of each
	for c := range samples {
		for copied := range samples[c] {
			samples[c][copied] = append([]byte(nil), g.Contig(fmt.Sprint("c", c)).Seq...)
			for i := range toySNPs {
				if c > 0 && copied > 0 && i%toySNPs > 0 {
					continue // of these contigs the second copy has one alone
				}
				p := place(i)
				samples[c][copied][p] = bases[(strings.IndexByte("ACGT", samples[c][copied][p])+1)%4]
			}
		}
	}
	for n, run := range r.runs {
		open := make([][]*streampb.SignalChunk, channels)
		for i := n * reads / runsOfSample; i < (n+1)*reads/runsOfSample; i++ {
			channel, contig, start := i%channels, rng.IntN(contigs), rng.IntN(contigLength-readLength)
			open[channel] = append(open[channel], r.read(rng, run.GetId(), i, uint32(channel+1), contig, start, samples[contig][rng.IntN(2)])...)
		}
		r.chunks = append(r.chunks, nil)
		for more := true; more; {
			more = false
			for channel := range open {
				if len(open[channel]) > 0 {
					r.chunks[n] = append(r.chunks[n], open[channel][0])
					open[channel], more = open[channel][1:], true
				}
			}
		}
	}
	return r
}

// ploidies are those of contigs with two copies: all but the first.
func (r *recording) ploidies() variant.Ploidies {
	p := make(variant.Ploidies)
	for c := 1; c < contigs; c++ {
		p[fmt.Sprint("c", c)] = []variant.PloidySpan{{Span: variant.Span{Start: 0, End: contigLength}, Ploidy: variant.Diploid}}
	}
	return p
}

// place is a SNP of the sample, 0-based.
func place(number int) int { return (number + 1) * contigLength / (toySNPs + 1) }

// gene is a gene with two positions: where the sample differs, and where it has the reference's base.
func gene(t *testing.T, contig *genome.Contig) *diplotype.Definitions {
	t.Helper()
	var variants, same, other []string
	for _, at := range []int{place(1), place(1) + 50} {
		ref := string(contig.Seq[at])
		alt := string(bases[(strings.IndexByte("ACGT", ref[0])+1)%4])
		variants = append(variants, fmt.Sprintf(`{"position": %[1]d, "ref": %[2]q, "alts": [%[3]q], "cpicAlleles": [%[2]q, %[3]q], "cpicToVcfAlleleMap": {%[2]q: %[2]q, %[3]q: %[3]q}}`, at+1, ref, alt))
		same, other = append(same, strconv.Quote(ref)), append(other, strconv.Quote(alt))
	}
	d, err := diplotype.Read(strings.NewReader(fmt.Sprintf(`{"formatVersion": "2", "gene": "G", "chromosome": %[1]q, "genomeBuild": "toy", "variants": [%[2]s], "namedAlleles": [
		{"name": "*1", "alleles": [%[3]s], "cpicAlleles": [%[3]s], "reference": true},
		{"name": "*2", "alleles": [%[4]s], "cpicAlleles": [%[4]s]}]}`, contig.Name, strings.Join(variants, ", "), strings.Join(same, ", "), strings.Join(other, ", "))))
	require.NoError(t, err)
	return d
}

// results are what a consumer of the variants topic ends with: the sample's gVCF, and its named alleles. An error says that the topic lacks something.
func (r *recording) results(records []stream.Record, partitions int32) ([]byte, error) {
	fold := pipeline.NewFold(partitions)
	for _, rec := range records {
		if _, err := fold.Add(rec); err != nil {
			return nil, err
		}
	}
	var text bytes.Buffer
	if err := pipeline.WriteGVCF(&text, variant.Config{Ploidies: r.ploidies()}, "", variant.AnyAllele, fold.ReferenceRecords("sample", r.genome), fold.Variants("sample", r.genome.Rank)); err != nil {
		return nil, err
	}
	out := bufio.NewWriter(&text)
	if err := pipeline.NewNamer(r.genome, []*diplotype.Definitions{r.gene}).Write(out, fold, "sample"); err != nil {
		return nil, err
	}
	err := out.Flush()
	return text.Bytes(), err
}

// methylation is what a consumer of the methylation topic ends with: the bedMethyl of the sample, and of its haplotypes.
func (r *recording) methylation(records []stream.Record, partitions int32) (map[string][]byte, error) {
	fold := pipeline.NewMethylationFold(partitions)
	for _, rec := range records {
		if _, err := fold.Add(rec); err != nil {
			return nil, err
		}
	}
	beds := make(map[string][]byte)
	for _, haplotype := range append(fold.Haplotypes("sample"), 0) {
		var bed bytes.Buffer
		if err := fold.WriteBedMethyl(&bed, "sample", haplotype, r.genome.Rank); err != nil {
			return nil, err
		}
		beds[fmt.Sprintf("sample, haplotype %d", haplotype)] = bed.Bytes()
	}
	return beds, nil
}

// read makes the chunks of a read, whose id says where it lies.
func (r *recording) read(rng *rand.Rand, run string, number int, channel uint32, contig, start int, sample []byte) []*streampb.SignalChunk {
	signal := make([]int16, readLength)
	for i := range signal {
		base := sample[start+i]
		if rng.IntN(50) == 0 {
			base = bases[rng.IntN(4)]
		}
		signal[i] = int16(strings.IndexByte("ACGT", base))
	}
	var chunks []*streampb.SignalChunk
	for first := 0; first < readLength; first += chunkLength {
		chunks = append(chunks, &streampb.SignalChunk{
			Run: run, Channel: channel, ReadId: fmt.Sprintf("r%d:c%d:%d", number, contig, start), Number: uint32(first / chunkLength),
			FirstSample: uint64(first), SampleCount: chunkLength, Vbz: vbz.Encode(nil, signal[first:first+chunkLength]),
			EndOfRead: first+chunkLength == readLength, ReadStart: uint64(number/channels) * readLength, CalibrationScale: 1,
		})
	}
	return chunks
}

// records are the recording's records on the signal topic: a run begins when the one before has ended.
func (r *recording) records(t *testing.T, partitions int32) []stream.Out {
	t.Helper()
	var outs []stream.Out
	for n, run := range r.runs {
		mk := &streampb.Marker{Run: run, Sources: 1}
		begin, err := stream.SignalMarker(mk, false)
		require.NoError(t, err)
		outs = append(outs, stream.Broadcast("signal", partitions, mk, false, begin)...)
		for _, c := range r.chunks[n] {
			value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
			require.NoError(t, err)
			outs = append(outs, stream.Out{Topic: "signal", Partition: stream.AnyPartition, Key: stream.SignalKey(run.GetId(), c.Channel), Value: value})
		}
		end, err := stream.SignalMarker(mk, true)
		require.NoError(t, err)
		outs = append(outs, stream.Broadcast("signal", partitions, mk, true, end)...)
	}
	return outs
}

// toyCaller takes samples for bases, and its time: several reads are in the works at any moment, and done with in another order.
type toyCaller struct{}

func (c toyCaller) Call(ctx context.Context, read basecall.Read) (basecall.Called, error) {
	select {
	case <-time.After(time.Duration(rand.IntN(2500)) * time.Millisecond):
	case <-ctx.Done():
		return basecall.Called{}, ctx.Err()
	}
	return c.called(read), nil
}

func (toyCaller) called(read basecall.Read) basecall.Called {
	called := basecall.Called{Stride: 1, NumSamples: len(read.Samples), MeanQuality: 20}
	for _, s := range read.Samples {
		called.Sequence = append(called.Sequence, bases[s&3])
		called.Qualities = append(called.Qualities, 20)
		called.Moves = append(called.Moves, 1)
	}
	return called
}

// Begin implements basecallstage.Caller.
func (c toyCaller) Begin(read basecall.Read) (basecallstage.Stream, error) {
	return &toyStream{caller: c, read: read}, nil
}

// toyStream collects a read's samples.
type toyStream struct {
	caller toyCaller
	read   basecall.Read
}

func (s *toyStream) Write(_ context.Context, samples []int16) error {
	s.read.Samples = append(s.read.Samples, samples...)
	return nil
}

func (s *toyStream) SoFar() basecall.Called { return s.caller.called(s.read) }

func (s *toyStream) Finish(ctx context.Context) (basecall.Called, error) {
	return s.caller.Call(ctx, s.read)
}

func (s *toyStream) Close() {}

// toyAligner lays a read where its id says.
type toyAligner struct{ genome *genome.Genome }

func (a toyAligner) Map(name string, seq []byte) ([]align.Alignment, error) {
	fields := strings.Split(name, ":")
	start, err := strconv.Atoi(fields[2])
	if err != nil {
		return nil, err
	}
	reference := a.genome.Contig(fields[1]).Seq[start : start+len(seq)]
	result := align.Alignment{Contig: fields[1], Start: start, End: start + len(seq), QueryEnd: len(seq), MappingQuality: 60}
	for i := range seq {
		op := align.Match
		if seq[i] != reference[i] {
			op = align.Mismatch
			result.NM++
		}
		if n := len(result.Ops); n > 0 && result.Ops[n-1].Kind == op {
			result.Ops[n-1].Len++
			continue
		}
		result.Ops = append(result.Ops, align.Op{Kind: op, Len: 1})
	}
	return []align.Alignment{result}, nil
}

// toyModifier holds a C in front of a G for modified, more or less surely by the base before it.
type toyModifier struct{}

func (toyModifier) Call(_ context.Context, _ []int16, called *basecall.Called) (*modbase.Tags, error) {
	list := modbase.List{Base: 'C', Codes: []modbase.Code{'m'}, Skipped: modbase.Unknown}
	for i, b := range called.Sequence {
		if b != 'C' {
			continue
		}
		p := 20 + 25*strings.IndexByte("ACGT", called.Sequence[max(0, i-1)])
		if i+1 < len(called.Sequence) && called.Sequence[i+1] == 'G' {
			p = 255 - p
		}
		list.Skips, list.Probabilities = append(list.Skips, 0), append(list.Probabilities, byte(p))
	}
	return &modbase.Tags{Lists: []modbase.List{list}, Length: len(called.Sequence)}, nil
}

// stages are those of one process.
func (r *recording) stages(partitions map[string]int32) []check.Stage {
	topics := stream.NewTopics("")
	var aligners []alignstage.Aligner
	for range 12 {
		aligners = append(aligners, toyAligner{r.genome})
	}
	return []check.Stage{
		{Name: basecallstage.Name, Input: topics.Signal, New: basecallstage.New(basecallstage.Config{
			Topics: topics, ReadsPartitions: partitions[topics.Reads], Caller: toyCaller{}, InFlight: true, SampleRates: []int{4000}, Aligners: aligners,
			Contig: func(name string) []byte { return r.genome.Contig(name).Seq }, Model: "toy", Partial: 20 * time.Millisecond,
			ModifierOf: func(*streampb.Run) basecallstage.Modifier { return toyModifier{} },
		})},
		{Name: variantstage.Name, Input: topics.Reads, New: variantstage.New(variantstage.Config{Topics: topics, CallsPartitions: partitions[topics.Calls], Genome: r.genome,
			Variant: variant.Config{Ploidies: r.ploidies(), Network: new(varianttest.DoseNetwork)}, Haplotypes: true,
			Survey: variant.SurveyConfig{Blocks: true}, Followed: map[string][]int{"c0": {place(1), place(1) + 50}}})},
		{Name: methylatestage.Name, Input: topics.Reads, New: methylatestage.New(methylatestage.Config{
			Topics: topics, MethylationPartitions: partitions[topics.Methylation], Genome: r.genome, Filter: methylatestage.Filter{Percentile: 0.1}, Haplotypes: true,
		})},
		{Name: annotatestage.Name, Input: topics.Calls, New: annotatestage.New(annotatestage.Config{
			Topics: topics, VariantsPartitions: partitions[topics.Variants], Annotator: annotate.New(r.genome, nil),
		})},
	}
}
