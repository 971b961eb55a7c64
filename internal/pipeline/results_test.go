package pipeline

import (
	"bytes"
	"encoding/json"
	"strconv"
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

// TestHeaderSaysWhetherCallsAreFinal: one call that may change makes the file provisional.
func TestHeaderSaysWhetherCallsAreFinal(t *testing.T) {
	g, err := genome.Read(strings.NewReader(">one\nACGTACGTAC\n"))
	require.NoError(t, err)
	annotator := annotate.New(g, nil)
	for _, tt := range []struct {
		statuses []streampb.CallStatus
		want     string
	}{
		{nil, "##porestream_calls=final"},
		{[]streampb.CallStatus{streampb.CallStatus_FINAL, streampb.CallStatus_AMENDED}, "##porestream_calls=final"},
		{[]streampb.CallStatus{streampb.CallStatus_FINAL, streampb.CallStatus_PROVISIONAL}, "##porestream_calls=provisional: the run goes on, and calls may change"},
		{[]streampb.CallStatus{streampb.CallStatus_STABLE, streampb.CallStatus_FINAL}, "##porestream_calls=provisional: the run goes on, and calls may change"},
	} {
		var variants []*event.Variant
		for i, status := range tt.statuses {
			c := &streampb.Call{Sample: "s", VrsId: strconv.Itoa(i), Contig: "one", Pos: int64(2 + i), Ref: "CGTACGTAC"[i : i+1], Alt: "ACACACACA"[i : i+1], Status: status}
			ann, err := annotator.Annotate(c.Contig, int(c.Pos), c.Ref, c.Alt)
			require.NoError(t, err)
			v := event.FromCall(c, ann)
			variants = append(variants, &v)
		}
		var b bytes.Buffer
		require.NoError(t, WriteVCF(&b, g, "s", variant.Config{}, "", variants))
		require.Equal(t, tt.want, strings.Split(b.String(), "\n")[1])
	}
}

// TestWarning: where most reads are of no use, a line says why, the commonest reason first.
func TestWarning(t *testing.T) {
	for _, tt := range []struct {
		mapped int64
		left   map[string]int64
		want   string
	}{
		{0, nil, ""},
		{40, map[string]int64{"unclassified": 20, "unmapped": 20}, ""},
		{0, map[string]int64{"unclassified": 43}, "43 of 43 reads were left out: 43 have no barcode of the run's samples"},
		{5, map[string]int64{"short": 2, "unmapped": 9, "low_quality": 2}, "13 of 18 reads were left out: 9 map nowhere on the reference, 2 are below the least quality, 2 are too short"},
	} {
		s := Summary{Mapped: tt.mapped, LeftOut: tt.left}
		require.Equal(t, tt.want, s.Warning())
	}
}

// TestModelWarnings: a line for each sample that mixes models, and for each with some that the variant model
// was not made for.
func TestModelWarnings(t *testing.T) {
	s := Summary{VariantModel: "wide"}
	s.SetModels(map[string][]*streampb.ModelReads{
		"a": {{Name: "hac@5", Reads: 70}, {Name: "hac@4", Reads: 30}},
		"b": {{Name: "hac@5", Reads: 10}},
		"c": {{Reads: 10}, {Name: "fast", Reads: 30, Mismatch: true}},
		"d": {{Name: "hac@5"}},
	})
	require.Equal(t, map[string][]SampleModel{
		"a": {{Name: "hac@5", Reads: 70, Share: 0.7}, {Name: "hac@4", Reads: 30, Share: 0.3}},
		"b": {{Name: "hac@5", Reads: 10, Share: 1}},
		"c": {{Reads: 10, Share: 0.25}, {Name: "fast", Reads: 30, Share: 0.75, Mismatch: true}},
	}, s.Models)
	require.Equal(t, []string{"a"}, s.MixedModels)
	require.Equal(t, []string{
		"sample a mixes basecalling models: hac@5 (70.0 %), hac@4 (30.0 %)",
		"sample c: variant model wide was not made for reads of fast (75.0 %); calls where they are 5 % and more say ModelMismatch, and --strict-models refuses",
	}, s.ModelWarnings())
}

// TestSummaryHasTheVariantModelUnderBothNames: those who read summary.json find it under the former name, too, and
// what an earlier version wrote is read.
func TestSummaryHasTheVariantModelUnderBothNames(t *testing.T) {
	text, err := json.Marshal(Summary{Reads: 3, VariantModel: "wide", Files: map[string]string{"s": "variants.vcf"}})
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(text, &fields))
	require.Equal(t, "wide", fields["variant_model"])
	require.Equal(t, "wide", fields["caller_model"])
	for name, tt := range map[string]struct{ text, want string }{
		"both":    {string(text), "wide"},
		"former":  {`{"reads": 3, "caller_model": "narrow", "files": {"s": "variants.vcf"}}`, "narrow"},
		"current": {`{"reads": 3, "variant_model": "wide", "files": {"s": "variants.vcf"}}`, "wide"},
	} {
		var s Summary
		require.NoError(t, json.Unmarshal([]byte(tt.text), &s), name)
		require.Equal(t, Summary{Reads: 3, VariantModel: tt.want, Files: map[string]string{"s": "variants.vcf"}}, s, name)
	}
	require.Error(t, json.Unmarshal([]byte(`{"reads": "three"}`), new(Summary)))
}
