package variant

// snpMinReads is how many reads with the alternate base make a candidate, if their
// share is enough.
const snpMinReads = 2

// proposeSNPs appends the substitutions that a column shows.
func (r *Region) proposeSNPs(out []candidate, m *matrix, model *errorModel, col int) []candidate {
	pos, counts := m.lo+col, &r.work.counts[col]
	ref := baseCode[r.contig.Seq[pos]]
	if ref > 3 {
		return out
	}
	depth := int32(0)
	for code := range deleted + 1 {
		depth += counts[0][code] + counts[1][code]
	}
	for b := range byte(4) {
		n := counts[0][b] + counts[1][b]
		if b == ref || n < snpMinReads || !r.enough(pos, n, depth) {
			continue
		}
		follow := correlation
		if inPalindrome(r.contig.Seq, pos) {
			follow = correlationPalindrome
		}
		var rates [2][2]float64 // [hypothesis][strand]
		for strand := range 2 {
			k := kmerAt(r.contig.Seq, pos, strand == 1)
			from, to := strandBase(ref, strand == 1), strandBase(b, strand == 1)
			own := 0
			for base := range 4 {
				own += int(counts[strand][base])
			}
			rates[0][strand] = model.confusion(k, to, int(counts[strand][b]), own)
			rates[1][strand] = model.confusion(k.with(to), from, 0, 0)
		}
		alt := string("ACGT"[b])
		out = append(out, candidate{
			pos: pos, ref: string("ACGT"[ref]), alt: alt,
			from: pos, to: pos + 1, seq: alt, start: pos, end: pos + 1, run: runBeside(r.contig.Seq, pos),
			prior: r.cfg.SNPRate / 3, rates: rates,
			sys: [2]systematic{confused(rates[0], follow), confused(rates[1], follow).plus(referenceBias)},
		})
	}
	return out
}

// runBeside is the length of the longest homopolymer that pos is in or next to.
func runBeside(ref []byte, pos int) int {
	n := runAround(ref, pos)
	if pos > 0 {
		n = max(n, runAround(ref, pos-1))
	}
	if pos+1 < len(ref) {
		n = max(n, runAround(ref, pos+1))
	}
	return n
}
