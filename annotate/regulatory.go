package annotate

// regulatoryEffects appends the effects of v on regulatory features.
func (v *variant) regulatoryEffects(dst []effect, k *regulatoryTrack) []effect {
	var near [16]*regulatory
	for _, r := range k.overlapping(near[:0], v.start, v.end) {
		if v.overlaps(r.start, r.end) {
			dst = append(dst, effect{r: r, terms: r.terms(v)})
		}
	}
	return dst
}

// terms are what v, which overlaps r, does to it.
func (r *regulatory) terms(v *variant) termSet {
	ablation, amplification, variant := regulatoryAblation, regulatoryAmplification, regulatoryVariant
	if r.motif() {
		ablation, amplification, variant = motifAblation, motifAmplification, motifVariant
	}
	var s termSet
	s.add(variant)
	if whole := v.start <= r.start && v.end >= r.end; whole {
		s.addIf(v.loss(), ablation)
		s.addIf(v.kind == svGain, amplification)
	}
	return s
}
