package stage

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/snapshot"
)

// firstVersion is a state as version 1 says of itself.
type firstVersion struct {
	stream.State
	cfg Config
}

func (v firstVersion) Format() stream.StateFormat {
	h := sha256.New()
	fmt.Fprintf(h, "methylate %v %v %v %d\n", v.cfg.Filter.Thresholds, v.cfg.Filter.Given, v.cfg.Filter.Percentile, v.cfg.MaxRegion)
	if v.cfg.FindMotifs {
		fmt.Fprintln(h, "finds motifs")
	}
	if v.cfg.Haplotypes {
		fmt.Fprintln(h, "counts by haplotype")
	}
	for _, contig := range v.cfg.Genome.Contigs {
		fmt.Fprintf(h, "contig %q %s\n", contig.Name, contig.Digest())
	}
	return stream.StateFormat{Stage: Name, Version: 1, Fingerprint: hex.EncodeToString(h.Sum(nil))}
}

// TestVersion1IsNotGoneOnWith: a snapshot of version 1, whose reads have other keys, isn't restored, and one of today's is. With the keys of version 1 a read
// that comes once more would be counted twice.
func TestVersion1IsNotGoneOnWith(t *testing.T) {
	s := newScene(t, 1, 20)
	cfg := config(s, Filter{Percentile: 0.1})
	cfg.MaxRegion = DefaultMaxRegion
	reads := s.topic(t, rand.New(rand.NewPCG(1, 2)), 1)
	for version, used := range []bool{false, true} {
		made, err := New(cfg)("reads", 0, 1)
		require.NoError(t, err)
		state := made.State()
		if !used {
			state = firstVersion{state, cfg}
		}
		for _, rec := range reads.logs[0] {
			require.NoError(t, made.Replay(t.Context(), rec))
		}
		offset := int64(len(reads.logs[0]))
		source := snapshot.Source{Group: "porestream-methylate", Topic: "reads"}
		index := snapshot.NewIndex(source)
		w := snapshot.NewWriter(snapshot.WriterConfig{Topic: "state", Epoch: 1}, snapshot.NewIndex(source), nil, state)
		n := int64(0)
		for out, err := range w.Take(state, offset) {
			require.NoError(t, err)
			index.Add(stream.Record{Offset: n, Key: out.Key, Value: out.Value})
			n++
		}
		today, err := New(cfg)("reads", 0, 1)
		require.NoError(t, err)
		chosen, refused := index.Choose(today.State().Format(), stream.PositionAt(0, offset), 0)
		if used {
			require.NotNil(t, chosen, "version %d: %v", version+1, refused)
			continue
		}
		require.Nil(t, chosen, "version %d", version+1)
		require.Len(t, refused, 1)
		require.Contains(t, refused[0].Reason, "or by another version of the stage")
	}
}
