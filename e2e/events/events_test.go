// Package events compares real events of several bases, from simulated reads to the published variants, with the literature.
package events

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/minimap"
	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/basecall/infer"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/simulate"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant"
	"github.com/porestream/porestream/variant/network"
	"github.com/porestream/porestream/vrs"
)

// event is a change and how it is described.
type event struct {
	name     string // as it is known
	contig   string
	pos      int // 1-based
	ref, alt string
	gene     string
	c, p     string // HGVS, without the sequence
	term     string // the most severe consequence
	// apart says that neighbours have unchanged bases between: they may be called as records of their own that make the same
	// haplotype.
	apart bool
}

const sarscov2 = "NC_045512.2"

// table is the events; testdata/events/README.md has where each is published.
var table = []event{
	{"SARS-CoV-2 B.1.1 N:R203K G204R", sarscov2, 28881, "GGG", "AAC", "N", "c.608_610delinsAAC", "p.Arg203_Gly204delinsLysArg", "missense_variant", false},
	{"SARS-CoV-2 BA.2 ORF6:D61L", sarscov2, 27382, "GAT", "CTC", "ORF6", "c.181_183delinsCTC", "p.Asp61Leu", "missense_variant", false},
	{"SARS-CoV-2 Alpha N:D3L", sarscov2, 28280, "GAT", "CTA", "N", "c.7_9delinsCTA", "p.Asp3Leu", "missense_variant", false},
	{"SARS-CoV-2 BA.1 S:S371L", sarscov2, 22673, "TC", "CT", "S", "c.1111_1112delinsCT", "p.Ser371Leu", "missense_variant", false},
	{"SARS-CoV-2 XBB.1.5 S:F486P", sarscov2, 23018, "TT", "CC", "S", "c.1456_1457delinsCC", "p.Phe486Pro", "missense_variant", false},
	{"SARS-CoV-2 XBB S:V445P", sarscov2, 22895, "GT", "CC", "S", "c.1333_1334delinsCC", "p.Val445Pro", "missense_variant", false},
	{"SARS-CoV-2 Delta S:E156G F157- R158-", sarscov2, 22028, "GAGTTCA", "G", "S", "c.467_472del", "p.Glu156_Arg158delinsGly", "inframe_deletion", false},
	{"SARS-CoV-2 BA.2 S:L24- P25- P26- A27S", sarscov2, 21632, "TTACCCCCTG", "T", "S", "c.71_79del", "p.Leu24_Ala27delinsSer", "inframe_deletion", false},
	{"SARS-CoV-2 BA.1 S:N211- L212I", sarscov2, 22193, "AATT", "A", "S", "c.632_634del", "p.Asn211_Leu212delinsIle", "inframe_deletion", false},
	{"SARS-CoV-2 BA.1 S:G142D V143- Y144- Y145-", sarscov2, 21986, "GGTGTTTATT", "G", "S", "c.425_433del", "p.Gly142_Tyr145delinsAsp", "inframe_deletion", false},
	{"SARS-CoV-2 BA.1 S:ins214EPE", sarscov2, 22204, "T", "TGAGCCAGAA", "S", "c.644_645insGCCAGAAGA", "p.Arg214_Asp215insGluProGlu", "inframe_insertion", false},

	{"EGFR exon 19 E746_A750del, c.2235", "EGFR_exon19", 3134, "AGGAATTAAGAGAAGC", "A", "EGFR", "c.2235_2249del", "p.Glu746_Ala750del", "inframe_deletion", false},
	{"EGFR exon 19 E746_A750del, c.2236", "EGFR_exon19", 3135, "GGAATTAAGAGAAGCA", "G", "EGFR", "c.2236_2250del", "p.Glu746_Ala750del", "inframe_deletion", false},
	{"EGFR exon 19 L747_A750delinsP, c.2239", "EGFR_exon19", 3139, "TTAAGAGAAG", "C", "EGFR", "c.2239_2248delinsC", "p.Leu747_Ala750delinsPro", "protein_altering_variant", false},
	{"EGFR exon 19 L747_A750delinsP, c.2238", "EGFR_exon19", 3138, "ATTAAGAGAAG", "GC", "EGFR", "c.2238_2248delinsGC", "p.Leu747_Ala750delinsPro", "protein_altering_variant", false},
	{"EGFR exon 19 E746_T751delinsA", "EGFR_exon19", 3136, "GAATTAAGAGAAGCAA", "G", "EGFR", "c.2237_2251del", "p.Glu746_Thr751delinsAla", "inframe_deletion", false},
	{"EGFR exon 19 E746_S752delinsV", "EGFR_exon19", 3137, "AATTAAGAGAAGCAACATC", "T", "EGFR", "c.2237_2255delinsT", "p.Glu746_Ser752delinsVal", "protein_altering_variant", false},
	{"EGFR exon 19 L747_P753delinsS", "EGFR_exon19", 3139, "TTAAGAGAAGCAACATCTC", "T", "EGFR", "c.2240_2257del", "p.Leu747_Pro753delinsSer", "inframe_deletion", false},

	{"TB rpoB D435F", "H37Rv_rpoB", 2803, "GA", "TT", "rpoB", "c.1303_1304delinsTT", "p.Asp435Phe", "missense_variant", false},
	{"TB rpoB H445C", "H37Rv_rpoB", 2833, "CA", "TG", "rpoB", "c.1333_1334inv", "p.His445Cys", "missense_variant", false},
	{"TB rpoB H445S", "H37Rv_rpoB", 2833, "CA", "AG", "rpoB", "c.1333_1334delinsAG", "p.His445Ser", "missense_variant", false},
	{"TB rpoB S450F", "H37Rv_rpoB", 2849, "CG", "TC", "rpoB", "c.1349_1350delinsTC", "p.Ser450Phe", "missense_variant", false},
	{"TB rpoB S450M", "H37Rv_rpoB", 2848, "TC", "AT", "rpoB", "c.1348_1349delinsAT", "p.Ser450Met", "missense_variant", false},
	{"TB katG S315T by two bases", "H37Rv_katG", 2779, "GC", "TG", "katG", "c.944_945delinsCA", "p.Ser315Thr", "missense_variant", false},

	{"HIV-1 PR I47A", "HXB2_pol", 1639, "AT", "GC", "PR", "c.139_140delinsGC", "p.Ile47Ala", "missense_variant", false},
	{"HIV-1 PR V82T", "HXB2_pol", 1744, "GT", "AC", "PR", "c.244_245inv", "p.Val82Thr", "missense_variant", false},
	{"HIV-1 RT Q151M", "HXB2_pol", 2248, "CA", "AT", "RT", "c.451_452delinsAT", "p.Gln151Met", "missense_variant", false},
	{"HIV-1 RT T215Y", "HXB2_pol", 2440, "AC", "TA", "RT", "c.643_644delinsTA", "p.Thr215Tyr", "missense_variant", false},
	{"HIV-1 RT T215F", "HXB2_pol", 2440, "AC", "TT", "RT", "c.643_644delinsTT", "p.Thr215Phe", "missense_variant", false},
	{"HIV-1 RT T69SSS", "HXB2_pol", 2002, "ACT", "TCTTCCTCC", "RT", "c.205_207delinsTCTTCCTCC", "p.Thr69delinsSerSerSer", "protein_altering_variant", true},
	// Made up: a base lost and one gained nine bases on, between which the frame is another one.
	{"HIV-1 RT, a frame that two neighbours shift and restore", "HXB2_pol", 2117, "CAGTACTGGA", "AGTACTGGAC", "RT", "c.320_329delinsAGTACTGGAC", "p.Thr107_Asp110delinsLysTyrTrpThr", "missense_variant", true},

	{"P. falciparum Pfcrt CVMNK>CVIET", "Pfcrt_exon2", 1722, "GAATAA", "TGAAAC", "Pfcrt", "c.222_227delinsTGAAAC", "p.Met74_Lys76delinsIleGluThr", "missense_variant", false},
}

// place is a contig of the table with what is needed to call and annotate it.
type place struct {
	contig    *genome.Contig
	annotator *annotate.Annotator
}

// places are the contigs of the table, by name.
func places(t testing.TB) map[string]place {
	t.Helper()
	all := map[string]place{}
	for _, f := range []struct{ dir, reference string }{{"sarscov2", "reference.fa.gz"}, {"events", "reference.fa"}} {
		dir := filepath.Join("..", "..", "testdata", f.dir)
		g, err := genome.Load(filepath.Join(dir, f.reference))
		require.NoError(t, err)
		m, err := annotate.LoadModel(filepath.Join(dir, "genes.gff3"), g)
		require.NoError(t, err)
		a := annotate.New(g, m)
		for _, c := range g.Contigs {
			all[c.Name] = place{c, a}
		}
	}
	return all
}

// described is what the annotation says of an event in its gene: HGVS without the sequence, and the most severe term.
func (p *place) described(t testing.TB, pos int, ref, alt, gene string) string {
	t.Helper()
	a, err := p.annotator.Annotate(p.contig.Name, pos, ref, alt)
	require.NoError(t, err)
	for i := range a.Consequences {
		c := &a.Consequences[i]
		if c.Gene == nil || c.Gene.Symbol != gene || c.HGVSc == "" {
			continue
		}
		_, coding, _ := strings.Cut(c.HGVSc, ":")
		_, protein, _ := strings.Cut(c.HGVSp, ":")
		return fmt.Sprintf("%s %s %s", coding, protein, c.Terms[0].Name)
	}
	return "nothing of " + gene
}

// windowReach is how much of a contig on either side of an event is sequenced.
const windowReach = 2500

// called are the calls that passed of simulated R10.4.1 reads, at 30x, of a sample that has an event: on all of its haplotypes, or
// on one of two.
func (p *place) called(t testing.TB, e *event, network variant.Network, genotype []uint8) []*streampb.Call {
	t.Helper()
	from, to := max(0, e.pos-1-windowReach), min(len(p.contig.Seq), e.pos-1+windowReach)
	window := &genome.Contig{Name: e.contig, Seq: p.contig.Seq[from:to]}
	copies, err := simulate.Haplotypes(window, []simulate.Site{{
		Contig: e.contig, Start: e.pos - 1 - from, Ref: e.ref, Alts: []string{e.alt}, Genotype: genotype,
	}}, len(genotype))
	require.NoError(t, err)
	profile, err := simulate.OpenProfile("r10.4.1-2pct")
	require.NoError(t, err)
	sampler, err := simulate.NewSampler(copies, len(genotype), profile, simulate.ReadsConfig{Depth: 30, Length: 1500, LengthSpread: 0.4, MinLength: 300, Seed: uint64(e.pos)})
	require.NoError(t, err)

	index, err := minimap.NewIndex(&genome.Genome{Contigs: []*genome.Contig{p.contig}}, minimap.Config{Preset: "lr:hq"})
	require.NoError(t, err)
	defer index.Close()
	aligner := index.NewAligner()
	defer aligner.Close()
	number := (e.pos - 1) / align.RegionWidth
	cfg := variant.Config{Ploidy: variant.Haploid, Network: network}
	if len(genotype) == 2 {
		cfg.Ploidy = variant.Diploid
	}
	region, err := variant.NewRegion(p.contig, number, cfg)
	require.NoError(t, err)
	var read simulate.Read
	for i := range sampler.Len() {
		sampler.Read(i, &read)
		alignments, err := aligner.Map(read.Name, read.Seq)
		require.NoError(t, err)
		if len(alignments) == 0 {
			continue
		}
		segments, err := align.Segments(&align.Read{Run: "run", Sample: "s", ID: read.Name, Seq: bytes.Clone(read.Seq), Qualities: bytes.Clone(read.Qualities)}, &alignments[0], p.contig.Seq)
		require.NoError(t, err)
		for _, s := range segments {
			if int(s.GetRegion()) == number {
				_, err := region.Apply(s)
				require.NoError(t, err)
			}
		}
	}
	calls, err := region.Finalize()
	require.NoError(t, err)
	return slices.DeleteFunc(calls, func(c *streampb.Call) bool {
		return c.GetStatus() != streampb.CallStatus_FINAL || len(c.GetFilters()) > 0
	})
}

// spelled is what calls make of the bases around an event.
func (p *place) spelled(t testing.TB, e *event, calls []*streampb.Call) string {
	t.Helper()
	const around = 40
	start, end := e.pos-1-around, e.pos-1+len(e.ref)+around
	var b strings.Builder
	at := start
	for _, c := range calls {
		edit := vrs.Edit{Start: int(c.GetPos()) - 1, Ref: c.GetRef(), Alt: c.GetAlt()}.Trim()
		require.GreaterOrEqual(t, edit.Start, at, "calls overlap, or are elsewhere: %v", names(calls))
		require.LessOrEqual(t, edit.End(), end, "a call elsewhere: %v", names(calls))
		b.Write(p.contig.Seq[at:edit.Start])
		b.WriteString(edit.Alt)
		at = edit.End()
	}
	b.Write(p.contig.Seq[at:end])
	return b.String()
}

// names spells calls.
func names(calls []*streampb.Call) []string {
	var list []string
	for _, c := range calls {
		list = append(list, fmt.Sprintf("%d %s>%s %s", c.GetPos(), c.GetRef(), c.GetAlt(), genotypeOf(c)))
	}
	return list
}

// genotypeOf is a call's genotype without phase.
func genotypeOf(c *streampb.Call) string {
	var alleles []string
	for _, a := range c.GetGenotype() {
		alleles = append(alleles, strconv.Itoa(int(a)))
	}
	slices.Sort(alleles)
	return strings.Join(alleles, "/")
}

// shipped is the network with which the caller scores by default.
func shipped(t *testing.T) variant.Network {
	t.Helper()
	if _, err := infer.FindLibrary(""); err != nil {
		t.Skip("needs ONNX Runtime: ", err)
	}
	model, err := models.OpenVariant(models.DefaultVariant)
	require.NoError(t, err)
	n, err := network.New(model, network.Config{Device: "cpu", Sessions: 1})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, n.Close()) })
	return n
}

// TestRealEvents holds the annotation of each event, as one record, to what is published of it, and then has the reads of a
// sample with it called: the event is called as a whole, and nothing else is, so what is published is what the reads say.
func TestRealEvents(t *testing.T) {
	all := places(t)
	require.GreaterOrEqual(t, len(table), 30)
	for _, e := range table {
		p := all[e.contig]
		t.Run("annotated/"+e.name, func(t *testing.T) {
			require.Equal(t, e.ref, string(p.contig.Seq[e.pos-1:e.pos-1+len(e.ref)]))
			assert.Equal(t, fmt.Sprintf("%s %s %s", e.c, e.p, e.term), p.described(t, e.pos, e.ref, e.alt, e.gene))
		})
	}
	scorer := shipped(t)
	for _, sample := range []struct {
		name, called string
		genotype     []uint8
	}{{"haploid", "1", []uint8{1}}, {"homozygous", "1/1", []uint8{1, 1}}, {"heterozygous", "0/1", []uint8{0, 1}}} {
		for _, e := range table {
			p := all[e.contig]
			t.Run("called/"+sample.name+"/"+e.name, func(t *testing.T) {
				calls := p.called(t, &e, scorer, sample.genotype)
				if e.apart && len(calls) > 1 {
					want := event{pos: e.pos, ref: e.ref, alt: e.alt}
					assert.Equal(t, p.spelled(t, &want, []*streampb.Call{{Pos: int64(e.pos), Ref: e.ref, Alt: e.alt}}), p.spelled(t, &e, calls))
					for _, c := range calls {
						assert.Equal(t, sample.called, genotypeOf(c), "%v", names(calls))
					}
					return
				}
				require.Equal(t, []string{fmt.Sprintf("%d %s>%s %s", e.pos, e.ref, e.alt, sample.called)}, names(calls))
				assert.Equal(t, fmt.Sprintf("%s %s %s", e.c, e.p, e.term), p.described(t, int(calls[0].GetPos()), calls[0].GetRef(), calls[0].GetAlt(), e.gene))
			})
		}
	}
}
