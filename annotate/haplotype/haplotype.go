package haplotype

import (
	"bytes"
	"fmt"
)

// Variant is an allele that a haplotype carries.
type Variant struct {
	Pos      int // 1-based, of the first base of Ref
	Ref, Alt string
}

// Effect is a consequence that a variant has on a transcript, with the others on its haplotype.
type Effect struct {
	Terms      Terms
	Gene       string
	Transcript string
	Biotype    string
	Forward    bool
	// AminoAcids and DNA describe the change: "5TY>5I" and "121ACG>A+124TA>T". Both are empty where only the variant's
	// place is reported.
	AminoAcids, DNA string
	// At is the index of the variant that carries the consequence, if it is another one of its compound: Terms then
	// holds the terms of the variant's own place, and the change is empty; else -1.
	At int
	// Compound are the indices of all variants that make the consequence together, this one's included, in order;
	// nil if it has the consequence on its own.
	Compound []int
	// Value is the consequence as bcftools csq writes it in INFO/BCSQ.
	Value string
}

// UpstreamStop reports whether a stop comes before the variant on its haplotype, so that it has no effect.
func (e *Effect) UpstreamStop() bool { return e.Terms&UpstreamStop != 0 }

// Effects are the consequences of variants that one haplotype of a contig carries together, in the order of their
// positions; the result has an element for each of them. It is a pure function of its arguments: when a variant comes
// or goes, call it again with those of the transcripts that it touches (see Reach) and compare. A symbolic allele has
// consequences by its place only. trimProtein is as in Options.
func (all *Genes) Effects(contig string, variants []Variant, trimProtein int) ([][]Effect, error) {
	of := all.genome.Contig(contig)
	if of == nil {
		return nil, fmt.Errorf("contig %q is not in the reference", contig)
	}
	out := make([][]Effect, len(variants))
	k := all.contigs[of.Name]
	if k == nil {
		return out, nil
	}
	c, err := newCaller(all, Options{TrimProtein: trimProtein, replaced: true}, 0)
	if err != nil {
		return nil, err
	}
	var done []*site
	for i, v := range variants {
		if v.Ref == "" || v.Alt == "" || v.Pos < 1 {
			return nil, fmt.Errorf("%s:%d %q>%q is no variant", contig, v.Pos, v.Ref, v.Alt)
		}
		if i > 0 && v.Pos < variants[i-1].Pos {
			return nil, fmt.Errorf("%s:%d comes after %d: variants must be sorted", contig, v.Pos, variants[i-1].Pos)
		}
		s := &site{
			number: i, contig: k, pos: v.Pos - 1, rlen: len(v.Ref),
			text: [][]byte{[]byte(v.Ref), []byte(v.Alt)},
		}
		s.alleles = [][]byte{bytes.ToUpper(s.text[0]), bytes.ToUpper(s.text[1])}
		s.skip = v.Alt[0] == '*' || len(v.Alt) > 1 && v.Alt[1] == '*'
		if done, err = c.push(done, s); err != nil {
			return nil, fmt.Errorf("%s:%d %s>%s: %w", contig, v.Pos, v.Ref, v.Alt, err)
		}
	}
	for _, s := range c.flush(done) {
		i := s.number
		for j := range s.calls {
			out[i] = append(out[i], s.calls[j].effect())
		}
	}
	return out, nil
}

// effect is c for others.
func (c *call) effect() Effect {
	t := c.shown()
	e := Effect{
		Terms: t &^ (printedElsewhere | incompleteCDS), Gene: c.transcript.gene, Transcript: c.transcript.id,
		Biotype: c.transcript.biotype.name, Forward: c.transcript.forward, At: -1, Value: string(c.append(nil)),
	}
	if t&printedElsewhere != 0 && c.elsewhere != nil {
		e.At = c.elsewhere.number
	} else if c.change.written {
		e.AminoAcids, e.DNA = c.change.aminos(), c.change.bases()
	}
	if len(c.members) > 1 {
		for _, s := range c.members {
			e.Compound = append(e.Compound, s.number)
		}
	}
	return e
}

// Reach is the stretch of a contig, 1-based and inclusive, in which variants can share a compound with one at pos that
// replaces length bases: the transcripts whose coding sequence it lies in. It is false if there are none, so that the
// variant's consequences are its own.
func (all *Genes) Reach(contig string, pos, length int) (first, last int, ok bool) {
	c := all.contigs[contig]
	if c == nil {
		return 0, 0, false
	}
	for _, e := range c.coding.overlapping(nil, pos-1, pos-1+length, new(int)) {
		t := e.transcript
		if !ok {
			first, last, ok = t.beg+1, t.end+1, true
		}
		first, last = min(first, t.beg+1), max(last, t.end+1)
	}
	return first, last, ok
}
