package pipeline

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/modbase/stage/methylation"
	"github.com/porestream/porestream/stream"
)

// TestMotifsOfCounts: motifs are those of the reference that the counts are of; with another one there is an error, not a table
// without motifs.
func TestMotifsOfCounts(t *testing.T) {
	// The A of each GATC is modified, and no other.
	rng, bases := rand.New(rand.NewPCG(3, 44)), make([]byte, 40_000)
	for i := range bases {
		bases[i] = "ACGT"[rng.IntN(4)]
	}
	seq := string(bases)
	fasta := func(name, seq string) *genome.Genome {
		g, err := genome.Read(strings.NewReader(">" + name + "\n" + seq + "\n"))
		require.NoError(t, err)
		return g
	}
	s := methylation.Stretch{
		SchemaVersion: methylation.SchemaVersion, Run: "r", Sample: "s", Revision: 1, Status: methylation.Final,
		Stretch: event.Stretch{Contig: "c", Pos: 1, End: int64(len(seq))}, Code: "a", Sites: methylation.NewSites(),
	}
	for pos := range seq {
		row := pileup.Row{Pos: pos, Strand: pileup.Plus, Canonical: 10}
		if strings.HasPrefix(seq[max(0, pos-1):], "GATC") {
			row.Canonical, row.Modified = 0, 10
		}
		if seq[pos] == 'A' {
			s.Sites.Add(&row)
		}
	}
	out, err := s.Record("methylation")
	require.NoError(t, err)
	fold := NewMethylationFold(1)
	_, err = fold.Add(stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers})
	require.NoError(t, err)
	for name, tt := range map[string]struct {
		genome *genome.Genome
		fault  string
	}{
		"the counts' own":  {fasta("c", seq), ""},
		"of other contigs": {fasta("chr1", seq), "modified bases are counted on c, which isn't in the reference FASTA"},
		"shorter":          {fasta("c", seq[:100]), "modified bases are counted at c:1"},
	} {
		t.Run(name, func(t *testing.T) {
			var table bytes.Buffer
			err := fold.WriteMotifs(t.Context(), &table, "s", tt.genome)
			if tt.fault != "" {
				require.ErrorContains(t, err, tt.fault)
				require.Empty(t, table.String())
				return
			}
			require.NoError(t, err)
			require.Contains(t, table.String(), "\nGATC,1\ta\t")
			require.Equal(t, 2, strings.Count(table.String(), "\n"))
		})
	}
}

// TestRowsOfHaplotypes: where nothing was counted by haplotype there is an error; where one has no reads, the other's counts are there and it has no rows.
func TestRowsOfHaplotypes(t *testing.T) {
	rank := func(string) int { return 0 }
	fold := NewMethylationFold(1)
	for _, haplotype := range []int{0, 1} {
		s := methylation.Stretch{
			SchemaVersion: methylation.SchemaVersion, Run: "r", Sample: "s", Revision: 1, Status: methylation.Final, Haplotype: haplotype,
			Stretch: event.Stretch{Contig: "c", Pos: 1, End: 4096}, Code: "m", Sites: methylation.NewSites(),
		}
		s.Sites.Add(&pileup.Row{Pos: 7, Strand: pileup.Plus, Modified: 3})
		out, err := s.Record("methylation")
		require.NoError(t, err)
		_, err = fold.Add(stream.Record{Topic: out.Topic, Key: out.Key, Value: out.Value, Headers: out.Headers})
		require.NoError(t, err)
		for of, rows := range []int{1, haplotype, 0} {
			var text bytes.Buffer
			err := fold.WriteBedMethyl(&text, "s", of, rank)
			if of > 0 && haplotype == 0 {
				require.ErrorContains(t, err, "sample s has no counts by haplotype")
				continue
			}
			require.NoError(t, err)
			require.Equal(t, rows, strings.Count(text.String(), "\n"), "haplotype %d", of)
		}
	}
}
