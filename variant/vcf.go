package variant

import (
	"fmt"
	"math"
	"strconv"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vcf"
)

// Header is the VCF header for calls of one sample on g. It holds nothing that
// changes between runs: no date, no command line.
func Header(g *genome.Genome, sample string, cfg Config) *vcf.Header {
	cfg = cfg.withDefaults()
	h := vcf.NewHeader("VCFv4.3", sample)
	h.AddFilter("PASS", "All filters passed")
	h.AddFilter(filterLowQual, fmt.Sprintf("QUAL below %g", cfg.MinQual))
	h.AddFilter(filterLowDepth, fmt.Sprintf("Fewer than %d reads", cfg.MinDepth))
	h.AddFilter(filterStrandBias, fmt.Sprintf("The reads of one strand, at least %d, speak against the allele", biasMinReads))
	h.AddFilter(filterNoisyIndel, fmt.Sprintf("Indel from reads with a gap in more than %g of the columns", cfg.MaxIndelNoise))
	h.AddFormat("GT", "1", "String", "Genotype")
	h.AddFormat("GQ", "1", "Integer", "Phred-scaled probability that the genotype is wrong")
	h.AddFormat("DP", "1", "Integer", "Reads at the site, deletions included")
	h.AddFormat("AD", "R", "Integer", "Reads that show each allele")
	h.AddFormat("ADF", "R", "Integer", "Reads on the forward strand that show each allele")
	h.AddFormat("ADR", "R", "Integer", "Reads on the reverse strand that show each allele")
	h.AddFormat("AF", "A", "Float", "Share of the reads at the site that show the allele")
	for _, c := range g.Contigs {
		h.AddContig(c.Name, len(c.Seq))
	}
	return h
}

// VCFRecord is one call as a VCF record.
func VCFRecord(c *streampb.Call) *vcf.Record {
	filter := c.GetFilters()
	if len(filter) == 0 {
		filter = []string{"PASS"}
	}
	pair := func(ref, alt uint32) string {
		return strconv.FormatUint(uint64(ref), 10) + "," + strconv.FormatUint(uint64(alt), 10)
	}
	alt := c.GetAltForward() + c.GetAltReverse()
	af := 0.0
	if c.GetDepth() > 0 {
		af = math.Round(float64(alt)/float64(c.GetDepth())*1e4) / 1e4
	}
	gt := ""
	for i, a := range c.GetGenotype() {
		if i > 0 {
			gt += "/"
		}
		gt += strconv.FormatUint(uint64(a), 10)
	}
	return &vcf.Record{
		Chrom: c.GetContig(), Pos: int(c.GetPos()),
		Ref: c.GetRef(), Alt: []string{c.GetAlt()},
		Qual: c.GetQual(), Filter: filter,
		Format: []string{"GT", "GQ", "DP", "AD", "ADF", "ADR", "AF"},
		Samples: [][]string{{
			gt,
			strconv.FormatUint(uint64(c.GetGenotypeQuality()), 10),
			strconv.FormatUint(uint64(c.GetDepth()), 10),
			pair(c.GetRefForward()+c.GetRefReverse(), alt),
			pair(c.GetRefForward(), c.GetAltForward()),
			pair(c.GetRefReverse(), c.GetAltReverse()),
			vcf.FormatFloat(af),
		}},
	}
}
