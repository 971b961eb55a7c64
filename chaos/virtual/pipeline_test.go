package virtual

import (
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
	annotatestage "github.com/porestream/porestream/annotate/stage"
	"github.com/porestream/porestream/basecall"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
	variantstage "github.com/porestream/porestream/variant/stage"
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

// recording is a made-up sequencing run: reads of a sample that differs from the reference in places.
type recording struct {
	genome *genome.Genome
	run    *streampb.Run
	chunks []*streampb.SignalChunk // in the order of their time
}

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
	r := &recording{genome: g, run: &streampb.Run{Id: "toy", Sample: "sample", SampleRate: 4000}}
	var samples [contigs][]byte
	for c := range samples {
		samples[c] = append([]byte(nil), g.Contig(fmt.Sprint("c", c)).Seq...)
		for i := range toySNPs {
			p := (i + 1) * contigLength / (toySNPs + 1)
			samples[c][p] = bases[(strings.IndexByte("ACGT", samples[c][p])+1)%4]
		}
	}
	open := make([][]*streampb.SignalChunk, channels)
	for i := range reads {
		channel, contig, start := i%channels, rng.IntN(contigs), rng.IntN(contigLength-readLength)
		open[channel] = append(open[channel], r.read(rng, i, uint32(channel+1), contig, start, samples[contig])...)
	}
	for more := true; more; {
		more = false
		for channel := range open {
			if len(open[channel]) > 0 {
				r.chunks = append(r.chunks, open[channel][0])
				open[channel], more = open[channel][1:], true
			}
		}
	}
	return r
}

// read makes the chunks of a read, whose id says where it lies.
func (r *recording) read(rng *rand.Rand, number int, channel uint32, contig, start int, sample []byte) []*streampb.SignalChunk {
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
			Run: r.run.Id, Channel: channel, ReadId: fmt.Sprintf("r%d:c%d:%d", number, contig, start), Number: uint32(first / chunkLength),
			FirstSample: uint64(first), SampleCount: chunkLength, Vbz: vbz.Encode(nil, signal[first:first+chunkLength]),
			EndOfRead: first+chunkLength == readLength, ReadStart: uint64(number/channels) * readLength, CalibrationScale: 1,
		})
	}
	return chunks
}

// records are the recording's records on the signal topic.
func (r *recording) records(t *testing.T, partitions int32) []stream.Out {
	t.Helper()
	mk := &streampb.Marker{Run: r.run, Sources: 1}
	begin, err := stream.SignalMarker(mk, false)
	require.NoError(t, err)
	outs := stream.Broadcast("signal", partitions, mk, false, begin)
	for _, c := range r.chunks {
		value, err := stream.EncodeSignal(&streampb.SignalRecord{Body: &streampb.SignalRecord_Chunk{Chunk: c}})
		require.NoError(t, err)
		outs = append(outs, stream.Out{Topic: "signal", Partition: stream.AnyPartition, Key: stream.SignalKey(r.run.Id, c.Channel), Value: value})
	}
	end, err := stream.SignalMarker(mk, true)
	require.NoError(t, err)
	return append(outs, stream.Broadcast("signal", partitions, mk, true, end)...)
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

// makers are the stages of one process, by input topic.
func (r *recording) makers(partitions map[string]int32) map[string]stream.NewHandler {
	topics := stream.NewTopics("")
	var aligners []alignstage.Aligner
	for range 12 {
		aligners = append(aligners, toyAligner{r.genome})
	}
	return map[string]stream.NewHandler{
		topics.Signal: basecallstage.New(basecallstage.Config{
			Topics: topics, ReadsPartitions: partitions[topics.Reads], Caller: toyCaller{}, InFlight: true, SampleRates: []int{4000}, Aligners: aligners,
			Contig: func(name string) []byte { return r.genome.Contig(name).Seq }, Model: "toy", Partial: 20 * time.Millisecond,
		}),
		topics.Reads: variantstage.New(variantstage.Config{Topics: topics, CallsPartitions: partitions[topics.Calls], Genome: r.genome}),
		topics.Calls: annotatestage.New(annotatestage.Config{
			Topics: topics, VariantsPartitions: partitions[topics.Variants], Annotator: annotate.New(r.genome, nil),
		}),
	}
}
