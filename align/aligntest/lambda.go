// Package aligntest gives tests the segments of a real run.
package aligntest

import (
	"bufio"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
)

// folder is testdata/lambda.
func folder(t testing.TB) string {
	t.Helper()
	return filepath.Join(testenv.Root(t), "testdata", "lambda")
}

// LambdaGenome is the reference of the recording in testdata/lambda.
func LambdaGenome(t testing.TB) *genome.Genome {
	t.Helper()
	g, err := genome.Load(filepath.Join(folder(t), "reference.fa"))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// Lambda is the segments of that recording, 15-fold, in the order of the reads,
// of the given run and sample.
func Lambda(t testing.TB, run, sample string) []*streampb.Segment {
	t.Helper()
	f, err := os.Open(filepath.Join(folder(t), "segments.pb.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(z)
	var list []*streampb.Segment
	for {
		s := new(streampb.Segment)
		switch err := protodelim.UnmarshalFrom(in, s); {
		case errors.Is(err, io.EOF):
			return list
		case err != nil:
			t.Fatal(err)
		}
		s.Run, s.Sample = run, sample
		s.LastChunkMs = 1_700_000_000_000 + 1000*int64(len(list))
		list = append(list, s)
	}
}

// Deep is segments as if so many molecules had given each, in random order.
func Deep(segments []*streampb.Segment, times int, seed uint64) []*streampb.Segment {
	var list []*streampb.Segment
	for i := range times {
		for _, s := range segments {
			s = proto.CloneOf(s)
			s.ReadId = fmt.Sprintf("%s-%d", s.GetReadId(), i)
			list = append(list, s)
		}
	}
	rng := rand.New(rand.NewPCG(seed, 51))
	rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}
