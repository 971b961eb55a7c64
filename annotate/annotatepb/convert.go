// Package annotatepb is the protobuf form of annotated alleles.
package annotatepb

import "github.com/porestream/porestream/annotate"

// FromLine is the message of an annotated allele. It shares the line's lists.
func FromLine(l *annotate.Line) *AnnotatedAllele {
	m := &AnnotatedAllele{
		Variant: &Variant{
			Contig: l.Variant.Contig, Pos: int32(l.Variant.Pos), Id: l.Variant.ID, Ref: l.Variant.Ref, Alt: l.Variant.Alt, VrsId: l.Variant.VRSID,
		},
		Hgvsg:      l.HGVSg,
		Atoms:      l.Atoms,
		GeneModels: l.GeneModels,
		MostSevere: &MostSevere{
			Term: l.MostSevere.Term, So: l.MostSevere.SO, Impact: string(l.MostSevere.Impact), Gene: l.MostSevere.Gene, Transcript: l.MostSevere.Transcript,
		},
	}
	for i := range l.Consequences {
		m.Consequences = append(m.Consequences, fromConsequence(&l.Consequences[i]))
	}
	for i := range l.Known {
		m.Known = append(m.Known, fromKnown(&l.Known[i]))
	}
	for i := range l.Scores {
		m.Scores = append(m.Scores, fromScore(&l.Scores[i]))
	}
	return m
}

func fromScore(s *annotate.Score) *Score {
	m := &Score{Network: s.Network, Version: s.Version, Sha256: s.SHA256, Gene: s.Gene, Score: s.Score, Unscored: s.Unscored, Licence: s.Licence}
	for _, c := range s.Changes {
		change := &ScoreChange{Name: c.Name, Score: float64(c.Score) + 0}
		if c.Position != nil {
			position := int32(*c.Position)
			change.Position = &position
		}
		m.Changes = append(m.Changes, change)
	}
	return m
}

func fromKnown(k *annotate.Known) *Known {
	m := &Known{Source: k.Source, Version: k.Version, Date: k.Date, Id: k.ID, Match: string(k.Match), Place: k.Place}
	for _, f := range k.Fields {
		m.Fields = append(m.Fields, &KnownField{Name: f.Name, Type: string(f.Type), List: f.List, Value: f.Value})
	}
	return m
}

func fromConsequence(c *annotate.Consequence) *Consequence {
	m := &Consequence{
		Allele: c.Allele, Impact: string(c.Impact), Hgvsc: c.HGVSc, Hgvsp: c.HGVSp, HgvsOffset: int32(c.HGVSOffset),
		Exon: c.Exon, Intron: c.Intron, Cdna: c.CDNA, Cds: c.CDS, Protein: c.Protein, AminoAcids: c.AminoAcids, Codons: c.Codons,
		Distance: int32(c.Distance), Strand: int32(c.Strand), Pick: c.Pick, Flags: c.Flags,
	}
	if g := c.Gene; g != nil {
		m.Gene = &Gene{Symbol: g.Symbol, Id: g.ID}
	}
	if f := c.Feature; f != nil {
		m.Feature = &Feature{Type: f.Type, Id: f.ID, Biotype: f.Biotype}
	}
	for _, t := range c.Terms {
		m.Terms = append(m.Terms, &Term{So: t.SO, Name: t.Name})
	}
	if n := c.NMD; n != nil {
		m.Nmd = &NMD{Predicted: &n.Predicted, Rule: n.Rule}
	}
	for i := range c.Functions {
		f := &c.Functions[i]
		m.Functions = append(m.Functions, &Function{
			Kind: string(f.Kind), Db: f.DB, Id: f.ID, Name: f.Name, Relation: f.Relation, Evidence: f.Evidence,
			Start: int32(f.Start), End: int32(f.End), Source: f.Source, Version: f.Version, Date: f.Date,
		})
	}
	return m
}
