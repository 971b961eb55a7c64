package variant

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/vcf"
)

// Header is the VCF header for calls of one sample on contigs, in their order. It
// holds nothing that changes between runs: no date, no command line, no path.
func Header(contigs []*genome.Contig, sample string, cfg Config) *vcf.Header {
	// A program that writes calls of others, from a topic, doesn't know whether a network scored
	// them.
	lowQual := fmt.Sprintf("QUAL below %d, scored by a network below %d in haploid samples and else %d", analyticMinQual, haploidMinQual, networkMinQual)
	if cfg.MinQual != 0 {
		lowQual = fmt.Sprintf("QUAL below %g", cfg.MinQual)
	}
	cfg = cfg.withDefaults()
	h := vcf.NewHeader("VCFv4.2", sample)
	h.AddMeta(callsAreFinal)
	h.AddFilter("PASS", "All filters passed")
	h.AddFilter(filterLowQual, lowQual)
	h.AddFilter(filterHomopolymer, fmt.Sprintf("As LowQual, of an indel that %g %% of at least %d reads show, in a homopolymer of %d bases and more, whose length reads get wrong together", 100*carriedShare, carriedReads, leastHomopolymer))
	h.AddFilter(filterLowDepth, fmt.Sprintf("Fewer than %d reads", cfg.MinDepth))
	h.AddFilter(filterLowFraction, fmt.Sprintf("Substitution of a haploid sample that fewer than %g %% of the reads show, scored by a network with a QUAL below %d %g %%", 100*minHaploidFraction, sureQual, 100*unsureFraction))
	h.AddFilter(filterStrandBias, fmt.Sprintf("The reads of one strand, at least %d, speak against the allele; scored by a network: strands differ by Fisher's exact test, %d dB", biasMinReads, maxStrandPhred))
	h.AddFilter(filterNoisyIndel, fmt.Sprintf("Indel that no network has scored, from reads with a gap in more than %g of the columns; scored by a network: as LowQual, of an indel of fewer than %d bases that %g %% of at least %d reads show, if they have a gap in more than %g", cfg.MaxIndelNoise, LongIndel, 100*carriedShare, carriedReads, noisyGaps))
	h.AddFilter(filterMotif, fmt.Sprintf("Substitution that reads of one strand show at a motif of %d to %d bases, or one of --modified-motifs, as they do at most of the motif's sites, and that those of the other don't bear out", leastMotif, mostMotif))
	h.AddInfo(infoVRS, "R", "String", "GA4GH VRS identifiers of the alleles; none is computed for REF")
	h.AddInfo(infoMismatch, ".", "String", "Basecalling models of at least 5 % of the region's reads that the variant model was not made for, the most frequent first")
	h.AddInfo(infoMotif, ".", "String", "Motifs of MotifArtifact: IUPAC letters, which base of it reads of one strand get wrong, what they show instead, sites, affected sites, and the share of wrong reads there, with colons between")
	h.AddFormat("GT", "1", "String", "Genotype")
	h.AddFormat("GQ", "1", "Integer", "Phred-scaled probability that the genotype is wrong")
	h.AddFormat("DP", "1", "Integer", "Reads at the site, deletions included")
	h.AddFormat("AD", "R", "Integer", "Reads that show each allele")
	h.AddFormat("ADF", "R", "Integer", "Reads on the forward strand that show each allele")
	h.AddFormat("ADR", "R", "Integer", "Reads on the reverse strand that show each allele")
	h.AddFormat("AF", "A", "Float", "Share of the reads at the site that show the allele")
	h.AddFormat("PL", "G", "Integer", "Phred-scaled genotype likelihoods, the least 0")
	h.AddFormat("PS", "1", "Integer", "Phase set: POS of its first heterozygous site")
	for _, c := range contigs {
		h.AddContig(c.Name, len(c.Seq))
	}
	_ = h.SetVersion("") // the least that it needs has no fault
	return h
}

// What the header says of the calls as a whole.
const (
	callsAreFinal       = "##porestream_calls=final"
	callsAreProvisional = "##porestream_calls=provisional: the run goes on, and calls may change"
)

// DeclareProvisional has the header of calls say that more reads may change them.
func DeclareProvisional(h *vcf.Header) {
	for i, line := range h.Meta {
		if line == callsAreFinal {
			h.Meta[i] = callsAreProvisional
		}
	}
}

// infoVRS is the INFO field of allele identifiers, named as by GA4GH's annotator.
const infoVRS = "VRS_Allele_IDs"

// infoMismatch is the INFO field of basecalling models that the variant model wasn't made for.
const infoMismatch = "ModelMismatch"

// listed writes a text as an element of a list in INFO.
var listed = vcf.NewEscaper("%:;=, ")

// infoMotif is the INFO field of motifs.
const infoMotif = "MOTIF"

// spellMotif is a motif in INFO.
func spellMotif(e *streampb.MotifError) string {
	share := math.Round(1e3*float64(e.GetWrong())/float64(max(1, e.GetReads()))) / 1e3
	return fmt.Sprintf("%s:%d:%s:%d:%d:%s", e.GetMotif(), e.GetBase(), e.GetShows(), e.GetSites(), e.GetAffected(), vcf.FormatFloat(share))
}

// VCFSite is a VCF record and the calls that it was made of.
type VCFSite struct {
	Record *vcf.Record
	// Calls has the call of each ALT, nil for an allele of the genotype whose call
	// is not there.
	Calls []*streampb.Call

	genotype []int // allele numbers; nil: not known
	end      int64 // 1-based position behind REF
}

// VCFRecords are the records of [VCFSites].
func VCFRecords(calls []*streampb.Call) []*vcf.Record {
	sites := VCFSites(calls)
	records := make([]*vcf.Record, len(sites))
	for i := range sites {
		records[i] = sites[i].Record
	}
	return records
}

// VCFSites turns calls of one sample, in the order of a file, into records, in
// that order.
//
// Problem: a call is about one allele, a record about a place; where both
// haplotypes differ from the reference, and from each other, two calls are one
// genotype 1/2.
//
// Strategy: calls whose genotypes hold each other's allele, and whose REF spans
// overlap, make one record: REF is what the spans cover together, every ALT is
// written over that, in the order of the calls. Where spans don't overlap, a
// haplotype shows the reference at the one place and its own allele at the other, and
// each call has a record of its own.
//
// Consequences: ALTs are left-aligned and, together, as short as VCF allows.
// Likelihoods of genotypes with two alternate alleles take the calls for
// independent: each says how likely one copy, and none, of its own allele is. QUAL
// is the highest of the calls, since it asks whether there is any variant; GQ the
// lowest, and at most what PL allows; FILTER what any of them failed.
func VCFSites(calls []*streampb.Call) []VCFSite {
	var sites []VCFSite
	done := make([]bool, len(calls))
	for i, c := range calls {
		if done[i] {
			continue
		}
		group := siteOf(c, calls[i:], done[i:])
		sites = append(sites, newSite(group))
	}
	return sites
}

// allele is an alternate allele of a site as its own call spells it.
type allele struct {
	pos      int64
	ref, alt string
	call     *streampb.Call // nil: known from another call's genotype only
}

func (a *allele) end() int64 { return a.pos + int64(len(a.ref)) }

func (a *allele) compare(b *allele) int {
	return cmp.Or(cmp.Compare(a.pos, b.pos), strings.Compare(a.ref, b.ref), strings.Compare(a.alt, b.alt))
}

// siteOf is the site of the first call: its own allele and those that its
// genotype, and theirs, hold besides, as far as the spans overlap. What it takes
// of calls is marked in done.
func siteOf(first *streampb.Call, calls []*streampb.Call, done []bool) []allele {
	site := []allele{{first.GetPos(), first.GetRef(), first.GetAlt(), first}}
	done[0] = true
	for next := 0; next < len(site); next++ {
		a := site[next]
		for _, o := range a.call.GetOthers() {
			b := allele{pos: o.GetPos(), ref: o.GetRef(), alt: o.GetAlt()}
			if b.pos >= a.end() || a.pos >= b.end() || slices.ContainsFunc(site, func(s allele) bool { return s.compare(&b) == 0 }) {
				continue
			}
			for i, c := range calls {
				if c.GetContig() != first.GetContig() || c.GetPos() > b.pos {
					break
				}
				if !done[i] && c.GetPos() == b.pos && c.GetRef() == b.ref && c.GetAlt() == b.alt {
					b.call, done[i] = c, true
				}
			}
			if b.call == nil && b.pos < first.GetPos() {
				continue // the record would come behind records of later positions
			}
			site = append(site, b)
		}
	}
	slices.SortFunc(site, func(a, b allele) int { return a.compare(&b) })
	return site
}

// newSite writes the alleles of a site, at least one of which has a call, as a
// record.
func newSite(site []allele) VCFSite {
	s := VCFSite{Record: &vcf.Record{}}
	for i := range site {
		s.Calls = append(s.Calls, site[i].call)
	}
	s.end = spellSite(s.Record, site)
	leading := site[slices.IndexFunc(site, func(a allele) bool { return a.call != nil })].call
	s.Record.Chrom = leading.GetContig()
	s.genotype = genotypeOf(leading, site)
	s.describe()
	s.genotypeColumns(leading)
	return s
}

// spellSite sets the position of a record and its alleles, all over the bases that any of them changes,
// and returns where these end.
func spellSite(rec *vcf.Record, site []allele) (end int64) {
	lo, hi := site[0].pos, site[0].end()
	for i := range site {
		hi = max(hi, site[i].end())
	}
	ref := make([]byte, hi-lo)
	for i := range site {
		copy(ref[site[i].pos-lo:], site[i].ref)
	}
	rec.Pos, rec.Ref = int(lo), string(ref)
	for i := range site {
		rec.Alt = append(rec.Alt, rec.Ref[:site[i].pos-lo]+site[i].alt+rec.Ref[site[i].end()-lo:])
	}
	return hi
}

// describe sets quality, filters and INFO to what the calls of the site say.
func (s *VCFSite) describe() {
	rec := s.Record
	var filters, motifs []string
	vrsIDs := []string{"."}
	for _, c := range s.Calls {
		if c == nil {
			vrsIDs = append(vrsIDs, ".")
			continue
		}
		rec.Qual = max(rec.Qual, c.GetQual())
		vrsIDs = append(vrsIDs, cmp.Or(c.GetVrsId(), "."))
		if c.GetMotif() != nil {
			motifs = append(motifs, spellMotif(c.GetMotif()))
		}
		for _, f := range c.GetFilters() {
			if !slices.Contains(filters, f) {
				filters = append(filters, f)
			}
		}
	}
	rec.Filter = filters
	if len(filters) == 0 {
		rec.Filter = []string{"PASS"}
	}
	if strings.Join(vrsIDs, "") != strings.Repeat(".", len(vrsIDs)) {
		rec.Info.Set(infoVRS, strings.Join(vrsIDs, ","))
	}
	if names := mismatches(s.Calls); names != "" {
		rec.Info.Set(infoMismatch, names)
	}
	if len(motifs) > 0 {
		rec.Info.Set(infoMotif, strings.Join(slices.Compact(motifs), ","))
	}
}

// genotypeColumns sets FORMAT and the sample's column; leading is the call that the genotype is of.
func (s *VCFSite) genotypeColumns(leading *streampb.Call) {
	rec := s.Record
	var depth uint32
	quality := uint32(math.MaxUint32)
	for _, c := range s.Calls {
		if c != nil {
			quality, depth = min(quality, c.GetGenotypeQuality()), max(depth, c.GetDepth())
		}
	}
	sample := []string{joinGenotype(s.genotype, leading.GetPhaseSet() != 0), "", number(depth)}
	rec.Format = []string{"GT", "GQ", "DP", "AD", "ADF", "ADR", "AF"}
	sample = append(sample,
		counts(s.Calls, func(c *streampb.Call) (ref, alt uint32) {
			return c.GetRefForward() + c.GetRefReverse(), c.GetAltForward() + c.GetAltReverse()
		}),
		counts(s.Calls, func(c *streampb.Call) (ref, alt uint32) { return c.GetRefForward(), c.GetAltForward() }),
		counts(s.Calls, func(c *streampb.Call) (ref, alt uint32) { return c.GetRefReverse(), c.GetAltReverse() }),
		fractions(s.Calls, depth))
	if pl := likelihoods(s.Calls, len(leading.GetGenotype())); pl != nil {
		quality = min(quality, uint32(agree(pl, genotypeIndex(s.genotype))))
		rec.Format = append(rec.Format, "PL")
		sample = append(sample, joinInts(pl))
	}
	sample[1] = number(quality)
	if leading.GetPhaseSet() != 0 && len(leading.GetGenotype()) > 1 {
		rec.Format = append(rec.Format, "PS")
		sample = append(sample, strconv.FormatInt(leading.GetPhaseSet(), 10))
	}
	rec.Samples = [][]string{sample}
}

// mismatches are the basecalling models that calls of a site name, each once, as INFO has them.
func mismatches(calls []*streampb.Call) string {
	var list []string
	for _, c := range calls {
		for _, name := range c.GetModelMismatch() {
			if text := string(listed.Append(nil, name)); !slices.Contains(list, text) {
				list = append(list, text)
			}
		}
	}
	return strings.Join(list, ",")
}

// genotypeOf is the allele numbers of a site in the words of one of its calls, ascending
// unless they are phased. An allele of the genotype that lies elsewhere counts as the
// reference here.
func genotypeOf(c *streampb.Call, site []allele) []int {
	at := func(pos int64, ref, alt string) int {
		want := allele{pos: pos, ref: ref, alt: alt}
		return slices.IndexFunc(site, func(a allele) bool { return a.compare(&want) == 0 }) + 1
	}
	numbers := make([]int, len(c.GetGenotype()))
	for i, n := range c.GetGenotype() {
		switch {
		case n == 1:
			numbers[i] = at(c.GetPos(), c.GetRef(), c.GetAlt())
		case n >= 2 && int(n)-2 < len(c.GetOthers()):
			o := c.GetOthers()[n-2]
			numbers[i] = at(o.GetPos(), o.GetRef(), o.GetAlt())
		}
	}
	if c.GetPhaseSet() == 0 {
		slices.Sort(numbers)
	}
	return numbers
}

// joinGenotype is GT.
func joinGenotype(numbers []int, phased bool) string {
	separator := "/"
	if phased {
		separator = "|"
	}
	if len(numbers) == 0 {
		return "."
	}
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, separator)
}

// genotypeIndex is where a genotype of one or two alleles is in the order of VCF's
// Number=G.
func genotypeIndex(numbers []int) int {
	if len(numbers) == 1 {
		return numbers[0]
	}
	a, b := min(numbers[0], numbers[1]), max(numbers[0], numbers[1])
	return b*(b+1)/2 + a
}

// counts is a field of Number=R. Reads of the reference are those that no call
// counts as another allele's.
func counts(calls []*streampb.Call, of func(*streampb.Call) (ref, alt uint32)) string {
	least := uint32(math.MaxUint32)
	list := []string{""}
	for _, c := range calls {
		if c == nil {
			list = append(list, ".")
			continue
		}
		ref, alt := of(c)
		least = min(least, ref)
		list = append(list, number(alt))
	}
	list[0] = number(least)
	return strings.Join(list, ",")
}

// fractions is AF, rounded to four digits.
func fractions(calls []*streampb.Call, depth uint32) string {
	list := make([]string, len(calls))
	for i, c := range calls {
		switch {
		case c == nil:
			list[i] = "."
		case depth == 0:
			list[i] = "0"
		default:
			reads := float64(c.GetAltForward()) + float64(c.GetAltReverse())
			list[i] = vcf.FormatFloat(math.Round(reads/float64(depth)*1e4) / 1e4)
		}
	}
	return strings.Join(list, ",")
}

// likelihoods is PL of a site for one or two copies; nil if a call has none, or
// there are more copies.
func likelihoods(calls []*streampb.Call, ploidy int) []int {
	over := costsOver(calls, ploidy)
	if over == nil {
		return nil
	}
	return genotypeCosts(ploidy, len(calls), func(copies []int) int {
		sum := 0
		for i, n := range copies {
			sum += over[i][n]
		}
		return sum
	})
}

// costsOver is, for each call, what a number of copies of its allele costs over
// none; nil as of likelihoods.
func costsOver(calls []*streampb.Call, ploidy int) [][]int {
	over := make([][]int, 0, len(calls))
	for _, c := range calls {
		if ploidy < 1 || ploidy > 2 || len(c.GetPhredLikelihoods()) != ploidy+1 {
			return nil
		}
		costs := make([]int, ploidy+1)
		for n, pl := range c.GetPhredLikelihoods() {
			costs[n] = int(pl) - int(c.GetPhredLikelihoods()[0])
		}
		over = append(over, costs)
	}
	return over
}

// genotypeCosts lists the cost of every genotype of one or two copies and a number
// of alternate alleles, in the order of VCF's Number=G, so that the least is 0.
// cost is given how many copies there are of each alternate allele.
func genotypeCosts(ploidy, alts int, cost func(copies []int) int) []int {
	var list []int
	copies := make([]int, alts+1) // of each allele, the reference first
	add := func(alleles ...int) {
		clear(copies)
		for _, a := range alleles {
			copies[a]++
		}
		list = append(list, cost(copies[1:]))
	}
	for b := range alts + 1 {
		if ploidy == 1 {
			add(b)
			continue
		}
		for a := range b + 1 {
			add(a, b)
		}
	}
	least := slices.Min(list)
	for i := range list {
		list[i] -= least
	}
	return list
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

func joinInts(list []int) string {
	text := make([]string, len(list))
	for i, n := range list {
		text[i] = strconv.Itoa(n)
	}
	return strings.Join(text, ",")
}
