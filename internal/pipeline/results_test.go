package pipeline

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
)

// Two alleles of a genotype are one record, in which each has its annotation under
// the name that the record's REF gives it.
func TestWriteVCFOfTwoAlleles(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">one\nACGTACGTAC\n"))
	require.NoError(t, err)
	annotator := annotate.New(g, nil)
	deletion := &streampb.Call{Sample: "s", VrsId: "x", Contig: "one", Pos: 1, Ref: "AC", Alt: "A", Genotype: []uint32{1, 2}, Others: []*streampb.OtherAllele{{Pos: 1, Ref: "ACG", Alt: "A"}}}
	longer := &streampb.Call{Sample: "s", VrsId: "y", Contig: "one", Pos: 1, Ref: "ACG", Alt: "A", Genotype: []uint32{1, 2}, Others: []*streampb.OtherAllele{{Pos: 1, Ref: "AC", Alt: "A"}}}
	var variants []*event.Variant
	for _, c := range []*streampb.Call{deletion, longer} {
		ann, err := annotator.Annotate(c.Contig, int(c.Pos), c.Ref, c.Alt)
		require.NoError(t, err)
		v := event.FromCall(c, ann)
		require.Equal(t, "heterozygous", v.Call.Zygosity)
		variants = append(variants, &v)
	}
	var b bytes.Buffer
	require.NoError(t, WriteVCF(&b, g, "s", variant.Config{}, "", variants))
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	f := strings.Split(lines[len(lines)-1], "\t")
	require.Equal(t, []string{"one", "1", ".", "ACG", "AG,A"}, f[:5])
	require.Regexp(t, `;CSQ=G\|intergenic_variant\|[^,]*one:g\.2del,-\|intergenic_variant\|[^,]*one:g\.2_3del$`, f[7])
	require.True(t, strings.HasPrefix(f[9], "1/2:"), f[9])
}
