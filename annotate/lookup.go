package annotate

// Model is the gene model that a annotates with.
func (a *Annotator) Model() *Model { return a.model }

// Flags are the transcript's marks as in [Consequence]. They must not be changed.
func (v *View) Flags() []string { return v.transcript.flags }

// Residue is amino acid n (from 1) of the unchanged protein as one letter, '*' for its stop; 0 if the transcript is
// not coding or has no such whole codon.
func (v *View) Residue(n int) byte {
	if v.transcript.cds == nil || n < 1 {
		return 0
	}
	return v.transcript.reference(n - 1)
}

// ImpactOf is the impact of the Sequence Ontology term of that name, and whether there is such a consequence term.
func ImpactOf(term string) (Impact, bool) {
	for i := range terms {
		if terms[i].Name == term {
			return terms[i].impact, true
		}
	}
	return "", false
}
