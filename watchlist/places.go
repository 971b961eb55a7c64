package watchlist

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
)

// regions are the places that the rule names.
func (c *compiler) regions(r *ruleText) []span {
	var spans []span
	for _, it := range r.match.regions {
		if s, ok := c.region(r, it); ok {
			spans = append(spans, s)
		}
	}
	for _, p := range r.match.bed {
		if s, ok := c.located(r, r.match.line, p); ok {
			spans = append(spans, s)
		}
	}
	return union(spans)
}

// region is a region as a rule writes it; false, and a fault of the rule, if it is none of the reference.
func (c *compiler) region(r *ruleText, it item) (span, bool) {
	p, err := c.place(it.text)
	if err != nil {
		c.addRule(it.line, r.id, ": %w", err)
		return span{}, false
	}
	return c.located(r, it.line, p)
}

// place reads a region, which may be a contig with a colon in its name.
func (c *compiler) place(text string) (place, error) {
	p, err := parseRegion(text)
	if err == nil && c.watch.genome.Contig(text) != nil {
		p = place{contig: text}
	}
	return p, err
}

// located is a place on the reference; false, and a fault of the rule, if it isn't on it.
func (c *compiler) located(r *ruleText, line int, p place) (span, bool) {
	contig := c.watch.genome.Contig(p.contig)
	if contig == nil {
		c.addRule(line, r.id, ": %s%s", origin(p), c.noContig(p.contig))
		return span{}, false
	}
	end := cmp.Or(p.end, len(contig.Seq))
	if end > len(contig.Seq) {
		c.addRule(line, r.id, ": %s%s:%d-%d reaches outside of the contig, which has %d bases", origin(p), p.contig, p.start+1, end, len(contig.Seq))
		return span{}, false
	}
	return span{p.contig, p.start, end}, true
}

// origin is where a place was read, for an error.
func origin(p place) string {
	if p.origin == "" {
		return ""
	}
	return p.origin + ": "
}

// placed makes the subject of a rule that many alleles can fulfil.
func (c *compiler) placed(r *ruleText) []*subject {
	m := &r.match
	before := c.found
	f := c.filterOf(r)
	where := c.regions(r)
	if c.found > before {
		return nil
	}
	spans := where
	if len(m.genes)+len(m.transcripts) > 0 || !m.placed() {
		spans = c.geneSpans(r, f)
		if len(where) > 0 {
			spans = intersect(spans, where)
		}
	}
	if c.found > before {
		return nil
	}
	if len(spans) == 0 {
		c.addRule(m.line, r.id, " means no position: its genes, codons, flags and regions have none in common")
		return nil
	}
	s := &subject{scope: ScopeRule, area: newArea(spans), filter: f}
	return []*subject{s}
}

// filterOf is what a rule asks of the consequences of an allele, wherever that is; with faults for what can't be asked.
func (c *compiler) filterOf(r *ruleText) *filter {
	m := &r.match
	f := &filter{terms: map[string]bool{}, impacts: map[annotate.Impact]bool{}}
	for _, it := range m.terms {
		if _, ok := annotate.ImpactOf(it.text); !ok {
			c.addRule(it.line, r.id, ": consequence %q is not a Sequence Ontology term that variants are annotated with%s", clip(it.text), c.genes.suggestTerm(it.text))
		}
		f.terms[it.text] = true
	}
	for _, it := range m.impacts {
		switch i := annotate.Impact(strings.ToUpper(it.text)); i {
		case annotate.High, annotate.Moderate, annotate.Low, annotate.Modifier:
			f.impacts[i] = true
		default:
			c.addRule(it.line, r.id, ": impact %q: want HIGH, MODERATE, LOW or MODIFIER", clip(it.text))
		}
	}
	for _, it := range m.flags {
		switch it.text {
		case "canonical", "mane_select", "mane_plus_clinical":
			f.flags = append(f.flags, it.text)
		default:
			c.addRule(it.line, r.id, ": flag %q: want canonical, mane_select or mane_plus_clinical", clip(it.text))
		}
	}
	for _, it := range m.nmd {
		predicted := it.text == "predicted"
		if !predicted && it.text != "escaping" || len(m.nmd) > 1 {
			c.addRule(it.line, r.id, ": nmd %q: want predicted or escaping", clip(it.text))
		}
		f.nmd = &predicted
	}
	for _, it := range m.scores {
		least, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(it.text), ">=")), 64)
		if err != nil || !(least > 0) || math.IsInf(least, 0) || len(m.scores) > 1 {
			c.addRule(it.line, r.id, ": score %q: want the least that a sequence network has to say, such as \">= 0.5\"", clip(it.text))
		}
		f.score = least
		c.watch.scored = r.id
	}
	for _, it := range m.codons {
		from, to, err := parseCodons(it.text)
		if err != nil {
			c.addRule(it.line, r.id, ": %w", err)
			continue
		}
		f.codons = append(f.codons, [2]int{from, to})
	}
	return f
}

// geneSpans are the positions that a rule covers in its genes and transcripts, or in all of them. It sets which
// genes and transcripts f asks for.
func (c *compiler) geneSpans(r *ruleText, f *filter) []span {
	m := &r.match
	var views []*annotate.View
	for _, it := range m.genes {
		found, err := c.genes.gene(it.text)
		if err != nil {
			c.addRule(it.line, r.id, ": %w", err)
			continue
		}
		if f.genes == nil {
			f.genes = map[string]bool{}
		}
		f.genes[geneID(found[0].Gene)] = true
		views = append(views, found...)
	}
	for _, it := range m.transcripts {
		found, err := c.genes.transcript(it.text)
		if err != nil {
			c.addRule(it.line, r.id, ": %w", err)
			continue
		}
		if f.transcripts == nil {
			f.transcripts = map[string]bool{}
		}
		for _, v := range found {
			f.transcripts[v.ID] = true
		}
		if len(m.genes) == 0 {
			views = append(views, found...)
		}
	}
	if len(m.genes)+len(m.transcripts) == 0 {
		views = c.genes.all
		if len(views) == 0 {
			c.addRule(m.line, r.id, " names classes of consequences, but there are no genes: give the genes of the reference (--gff)")
		}
	}
	var spans []span
	longest := 0
	for _, v := range views {
		if f.transcripts != nil && !f.transcripts[v.ID] || !hasFlags(v.Flags(), f.flags) {
			continue
		}
		if len(f.codons) > 0 {
			longest = max(longest, v.CodingLength()/3)
			for _, k := range f.codons {
				spans = append(spans, c.genes.codons(v, k[0], k[1])...)
			}
			continue
		}
		spans = append(spans, c.genes.stretches(v, m.span)...)
	}
	for i, k := range f.codons {
		if longest > 0 && k[0] > longest {
			c.addRule(m.codons[i].line, r.id, ": codon %s is outside of the coding sequence, which has %d, the stop included", m.codons[i].text, longest)
		}
	}
	return union(spans)
}

// hasFlags reports whether all that are wanted are there.
func hasFlags(have, want []string) bool {
	for _, f := range want {
		if !slices.Contains(have, f) {
			return false
		}
	}
	return true
}
