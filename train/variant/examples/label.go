package main

import (
	"slices"
	"strings"

	"github.com/porestream/porestream/variant"
)

// label is what is true of an example; its fields are those of the records of
// labels.npy.
type label struct {
	pos      int32
	copies   uint8
	zygosity uint8
	length   int8
	mode     uint8
	kind     uint8
	run      uint8
	depth    uint16
}

const (
	kindSNP = iota
	kindInsertion
	kindDeletion
)

// ambiguousCopies marks examples that more than one label is right for.
const ambiguousCopies = 255

// reach is how far, in bases, an allele of the truth influences what is proposed.
const reach = 12

// maxNear is how many alleles of the truth may be near an allele: with more,
// whether it is part of another way to write them isn't worked out.
const maxNear = 6

// labeller labels alleles of one contig.
type labeller struct {
	ref    []byte
	truth  []*known // by position
	ploidy variant.Ploidy
	mode   uint8
}

// haplotypesOf is the number of alleles in a genotype of the truth: in a mixture
// those of the two genomes that are mixed.
func haplotypesOf(p variant.Ploidy) int {
	if p == variant.Haploid {
		return 1
	}
	return 2
}

// modeOf is a ploidy's number in labels.
func modeOf(p variant.Ploidy) uint8 {
	switch p {
	case variant.Diploid:
		return 1
	case variant.Mixture:
		return 2
	}
	return 0
}

// label labels the allele. An event of several bases is true if the truth has the same event, even in several records. It reports false where more than one answer is right:
// where the allele, with others or without, is another way to write what the
// sample has; or where it is near an allele of the truth that isn't an example,
// and could stand for it.
func (l *labeller) label(a allele) (label, bool) {
	start, end := a.span(l.ref)
	near := l.near(start-reach, end+reach)
	out := label{pos: int32(a.pos), mode: l.mode, run: uint8(min(255, runAt(l.ref, a)))}
	switch {
	case a.lengthChange() > 0:
		out.kind = kindInsertion
	case a.lengthChange() < 0:
		out.kind = kindDeletion
	}
	site := make([]string, haplotypesOf(l.ploidy)) // the allele of each haplotype, "" for the reference's
	exact := false
	for _, k := range near {
		if k.start < end && start < k.end {
			for h, has := range k.haplotypes {
				if has {
					site[h] += k.ref + ">" + k.alt + " "
					out.length = clipLength(k.lengthChange())
				}
			}
		}
		if k.allele == a {
			exact = true
			out.copies = l.copies(k)
		}
	}
	if parts := l.parts(a, near); !exact && len(parts) > 0 {
		together := known{allele: a, haplotypes: onAll(parts)}
		exact, out.copies = true, l.copies(&together)
	}
	if exact {
		out.length = clipLength(a.lengthChange())
	} else {
		if slices.ContainsFunc(near, func(k *known) bool { return !k.proposed }) || l.equivalent(a, near) {
			return label{}, false
		}
	}
	out.zygosity = zygosity(site)
	return out, true
}

// parts lists the truth that together is a, on some haplotype: a SNP and a deletion behind it, say, where a is both in one. None,
// if a is no such event.
func (l *labeller) parts(a allele, near []*known) []*known {
	if a.indel() || len(a.ref) == 1 && len(a.alt) == 1 || len(near) < 2 || len(near) > maxNear {
		return nil
	}
	lo, hi := a.pos, a.pos+len(a.ref)
	for _, k := range near {
		lo, hi = min(lo, k.pos), max(hi, k.pos+len(k.ref))
	}
	whole, ok := l.spell(lo, hi, []allele{a})
	for some := 1; ok && some < 1<<len(near); some++ {
		if some&(some-1) == 0 {
			continue // one alone is written as a, or isn't it
		}
		var parts []*known
		var with []allele
		for i, k := range near {
			if some>>i&1 == 1 {
				parts, with = append(parts, k), append(with, k.allele)
			}
		}
		if !slices.Contains(onAll(parts), true) {
			continue
		}
		if seq, ok := l.spell(lo, hi, with); ok && seq == whole {
			return parts
		}
	}
	return nil
}

// onAll says which haplotypes have all of the alleles.
func onAll(list []*known) []bool {
	has := slices.Clone(list[0].haplotypes)
	for _, k := range list[1:] {
		for h := range has {
			has[h] = has[h] && k.haplotypes[h]
		}
	}
	return has
}

// copies of an allele of the truth, as a network counts them: a haploid sample has
// all or none.
func (l *labeller) copies(k *known) uint8 {
	if l.ploidy == variant.Haploid {
		return 2
	}
	return uint8(k.copies())
}

// zygosity of a site where the haplotypes have the given alleles.
func zygosity(site []string) uint8 {
	if strings.Join(site, "") == "" {
		return 0
	}
	for _, s := range site {
		if s != site[0] {
			return 1
		}
	}
	return 2
}

// near lists the truth whose spans touch [start, end).
func (l *labeller) near(start, end int) []*known {
	const longest = 200 // from pos to the end of a span
	i, _ := slices.BinarySearchFunc(l.truth, start-longest, func(k *known, pos int) int { return k.pos - pos })
	var out []*known
	for ; i < len(l.truth) && l.truth[i].pos < end; i++ {
		if l.truth[i].end > start {
			out = append(out, l.truth[i])
		}
	}
	return out
}

// equivalent reports whether a, together with some of the truth, spells a haplotype
// that is true.
func (l *labeller) equivalent(a allele, near []*known) bool {
	if len(near) == 0 {
		return false
	}
	if len(near) > maxNear {
		return true
	}
	lo, hi := a.pos, a.pos+len(a.ref)
	for _, k := range near {
		lo, hi = min(lo, k.pos), max(hi, k.pos+len(k.ref))
	}
	lo, hi = max(0, lo-reach), min(len(l.ref), hi+reach)
	var real []string
	for h := range haplotypesOf(l.ploidy) {
		var have []allele
		for _, k := range near {
			if k.haplotypes[h] {
				have = append(have, k.allele)
			}
		}
		if seq, ok := l.spell(lo, hi, have); ok {
			real = append(real, seq)
		}
	}
	for some := range 1 << len(near) {
		with := []allele{a}
		for i, k := range near {
			if some>>i&1 == 1 {
				with = append(with, k.allele)
			}
		}
		if seq, ok := l.spell(lo, hi, with); ok && slices.Contains(real, seq) {
			return true
		}
	}
	return false
}

// spell is the reference's [lo, hi) with alleles; false if two of them change the
// same bases.
func (l *labeller) spell(lo, hi int, with []allele) (string, bool) {
	with = slices.Clone(with)
	slices.SortFunc(with, allele.compare)
	var b strings.Builder
	at := lo
	for _, a := range with {
		if a.indel() { // the anchor isn't changed
			a.pos, a.ref, a.alt = a.pos+1, a.ref[1:], a.alt[1:]
		}
		if a.pos < at {
			return "", false
		}
		b.Write(l.ref[at:a.pos])
		b.WriteString(a.alt)
		at = a.pos + len(a.ref)
	}
	b.Write(l.ref[at:hi])
	return b.String(), true
}

// clipLength is a change of length as the network's classes have it.
func clipLength(n int) int8 { return int8(max(-16, min(16, n))) }

// runAt is the longest homopolymer of the reference that the allele touches.
func runAt(ref []byte, a allele) int {
	start, end := a.pos, a.pos+len(a.ref)
	if a.indel() {
		start, end = a.pos+1, max(a.pos+2, end)
	}
	longest := 0
	for p := start; p < min(end, len(ref)); p++ {
		lo, hi := p, p+1
		for lo > 0 && ref[lo-1] == ref[p] {
			lo--
		}
		for hi < len(ref) && ref[hi] == ref[p] {
			hi++
		}
		longest = max(longest, hi-lo)
	}
	return longest
}
