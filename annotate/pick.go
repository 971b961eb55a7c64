package annotate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// PickMode says which consequences are kept, in the way of VEP's options. Whatever is kept, Consequence.Pick marks
// those that the choice is about.
type PickMode uint8

// The modes. All but the first three leave consequences out.
const (
	// FlagPickAllele keeps all and marks the best of each alternate allele. It is the default.
	FlagPickAllele PickMode = iota
	// FlagPick keeps all and marks the best of the record.
	FlagPick
	// FlagPickAlleleGene keeps all and marks the best of each alternate allele for each gene.
	FlagPickAlleleGene
	// PickRecord keeps the best of the record, over all its alternate alleles (VEP's --pick).
	PickRecord
	// PickAllele keeps the best of each alternate allele.
	PickAllele
	// PickGene keeps the best of the record for each gene, and all that are about no gene (VEP's --per_gene).
	PickGene
	// PickAlleleGene keeps the best of each alternate allele for each gene, and all that are about no gene.
	PickAlleleGene
	// MostSevereOnly keeps the most severe term of the record alone, without the feature that it is about.
	MostSevereOnly
)

// PickCriterion is one of the questions that decide which of two consequences is the better one.
type PickCriterion string

// The criteria, with VEP's names.
const (
	ByMANESelect       PickCriterion = "mane_select"
	ByMANEPlusClinical PickCriterion = "mane_plus_clinical"
	ByCanonical        PickCriterion = "canonical"
	ByAPPRIS           PickCriterion = "appris"
	ByTSL              PickCriterion = "tsl"     // transcript support level
	ByBiotype          PickCriterion = "biotype" // protein_coding first
	ByCCDS             PickCriterion = "ccds"
	ByRank             PickCriterion = "rank"   // severity of the most severe term
	ByLength           PickCriterion = "length" // longest coding sequence, or transcript if it is not coding
	ByEnsembl          PickCriterion = "ensembl"
	ByRefSeq           PickCriterion = "refseq"
)

// DefaultPickOrder is VEP's order of criteria (releases 115 and 116). Consequences that are equal in all of them stay in the
// order of Annotation.Consequences, where VEP's choice would depend on the order of its cache.
func DefaultPickOrder() []PickCriterion { return slices.Clone(defaultPickOrder) }

var defaultPickOrder = []PickCriterion{
	ByMANESelect, ByMANEPlusClinical, ByCanonical, ByAPPRIS, ByTSL, ByBiotype, ByCCDS, ByRank, ByLength, ByEnsembl, ByRefSeq,
}

// criterion is a PickCriterion as a number, its place in defaultPickOrder: each transcript of a genome is asked all of them.
type criterion uint8

const (
	byMANESelect criterion = iota
	byMANEPlusClinical
	byCanonical
	byAPPRIS
	byTSL
	byBiotype
	byCCDS
	byRank
	byLength
	byEnsembl
	byRefSeq
	criterionCount
)

// ParsePickOrder reads criteria separated by commas, as VEP's --pick_order.
func ParsePickOrder(s string) ([]PickCriterion, error) {
	var order []PickCriterion
	for _, name := range strings.Split(s, ",") {
		c := PickCriterion(strings.TrimSpace(name))
		if !slices.Contains(defaultPickOrder, c) {
			return nil, fmt.Errorf("pick criterion %q is none of %v", c, defaultPickOrder)
		}
		if slices.Contains(order, c) {
			return nil, fmt.Errorf("pick criterion %q is named twice", c)
		}
		order = append(order, c)
	}
	return order, nil
}

// Pick chooses among the consequences of a record. Its zero value marks the best of each allele by VEP's order.
type Pick struct {
	Mode PickMode
	// Order are the criteria, the most important first; DefaultPickOrder if there are none.
	Order []PickCriterion
}

// withoutGrade is the score of a transcript without an APPRIS grade or support level: behind all that have one.
const withoutGrade = 100

// score is e's place by criterion c: the lower, the better.
func (e *effect) score(c criterion) int {
	t := e.t
	if c == byRank {
		return int(e.terms.worst())
	}
	if t == nil {
		switch c {
		case byLength:
			return 0
		case byAPPRIS, byTSL:
			return withoutGrade
		}
		return 1
	}
	unless := func(ok bool) int {
		if ok {
			return 0
		}
		return 1
	}
	switch c {
	case byMANESelect:
		return unless(t.maneSelect)
	case byMANEPlusClinical:
		return unless(t.manePlus)
	case byCanonical:
		return unless(t.canonical)
	case byAPPRIS:
		return t.labels.apprisGrade()
	case byTSL:
		return cmp.Or(t.labels.tsl, withoutGrade)
	case byBiotype:
		return unless(t.biotype == "protein_coding")
	case byCCDS:
		return unless(t.labels.ccds != "")
	case byLength:
		if t.cds != nil {
			return -t.cdsLen
		}
		return -t.cdnaLength
	case byEnsembl:
		return unless(strings.HasPrefix(t.id, "ENS"))
	}
	return unless(len(t.id) > 3 && t.id[2] == '_' && strings.Contains("NM NR XM XR YP NP XP", t.id[:2]))
}

// apprisGrade is the rank of an APPRIS class, with alternative isoforms behind the principal ones.
func (l *labels) apprisGrade() int {
	if l.appris == "" {
		return withoutGrade
	}
	n, err := strconv.Atoi(l.appris[1:])
	if err != nil {
		return withoutGrade
	}
	if l.appris[0] == 'A' {
		n += 10
	}
	return n
}

// scoreBits are how many bits the scores of the criteria take.
var scoreBits = [criterionCount]int{
	byMANESelect: 1, byMANEPlusClinical: 1, byCanonical: 1, byAPPRIS: 7, byTSL: 7, byBiotype: 1, byCCDS: 1, byRank: 6,
	byLength: 31, byEnsembl: 1, byRefSeq: 1,
}

// preferences holds what speaks for each transcript in the order of the criteria, so that two effects are compared by
// comparing two numbers.
type preferences struct {
	order       []criterion
	rankAt      int      // where the severity of the worst term stands, in bits; -1 if it does not count
	withoutRank []uint64 // by the transcript's rank in the model; the severity is zero
}

// preferences are the preferences of p for m's transcripts.
func (m *Model) preferences(p *Pick) preferences {
	f := preferences{order: p.order(), rankAt: -1}
	if i := slices.Index(f.order, byRank); i >= 0 {
		f.rankAt = 0
		for _, later := range f.order[i+1:] {
			f.rankAt += scoreBits[later]
		}
	}
	f.withoutRank = make([]uint64, m.count)
	e := effect{terms: 1}
	for _, k := range m.contigs {
		for _, t := range k.transcripts {
			e.t = t
			f.withoutRank[t.rank] = f.pack(&e)
		}
	}
	return f
}

// order are the criteria by which p chooses.
func (p *Pick) order() []criterion {
	names := p.Order
	switch {
	case p.Mode == MostSevereOnly:
		return []criterion{byRank}
	case len(names) == 0:
		names = defaultPickOrder
	}
	var order []criterion
	for _, name := range names {
		if i := slices.Index(defaultPickOrder, name); i >= 0 {
			order = append(order, criterion(i))
		}
	}
	return order
}

// pack makes one number of e's scores.
func (f *preferences) pack(e *effect) uint64 {
	var n uint64
	for _, c := range f.order {
		score := e.score(c)
		if c == byLength {
			score += math.MaxInt32
		}
		n = n<<scoreBits[c] | uint64(score)
	}
	return n
}

// of is e's preference: the lower, the better.
func (f *preferences) of(e *effect) uint64 {
	if e.t == nil {
		return f.pack(e)
	}
	if f.rankAt < 0 {
		return f.withoutRank[e.t.rank]
	}
	return f.withoutRank[e.t.rank] | uint64(e.terms.worst())<<f.rankAt
}

// candidates are the effects of the alternate alleles of a record, in order of relevance for each allele.
type candidates [][]*effect

// choose marks the effects that p is about, and those to leave out.
func (p *Pick) choose(all candidates) {
	switch p.Mode {
	case FlagPickAllele, PickAllele:
		for i := range all {
			all[i : i+1].best()
		}
	case FlagPick, PickRecord, MostSevereOnly:
		all.best()
	case FlagPickAlleleGene, PickAlleleGene:
		for i := range all {
			all[i : i+1].bestOfGenes()
		}
	case PickGene:
		all.bestOfGenes()
	}
	if p.Mode < PickRecord {
		return
	}
	for i := range all {
		all[i] = slices.DeleteFunc(all[i], func(e *effect) bool { return !e.picked })
	}
	if p.Mode == MostSevereOnly {
		all.withoutFeatures()
	}
}

// best marks the best of all effects.
func (all candidates) best() {
	var best *effect
	for i := range all {
		for _, e := range all[i] {
			if best == nil || e.preference < best.preference {
				best = e
			}
		}
	}
	if best != nil {
		best.picked = true
	}
}

// bestOfGenes marks the best effect for each gene, and those on features without a gene.
func (all candidates) bestOfGenes() {
	genes := map[*gene]*effect{}
	for i := range all {
		for _, e := range all[i] {
			if e.t == nil {
				e.picked = true
			} else if best := genes[e.t.gene]; best == nil || e.preference < best.preference {
				genes[e.t.gene] = e
			}
		}
	}
	for _, e := range genes {
		e.picked = true
	}
}

// withoutFeatures leaves of each effect its most severe term.
func (all candidates) withoutFeatures() {
	for i := range all {
		for j, e := range all[i] {
			var s termSet
			s.add(e.terms.worst())
			all[i][j] = &effect{terms: s, picked: true}
		}
	}
}
