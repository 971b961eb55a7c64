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
		out = append(out, r.substitution(m, model, col, b))
	}
	return out
}

// substitution is the allele that has base b, a code, in a column.
func (r *Region) substitution(m *matrix, model *errorModel, col int, b byte) candidate {
	pos := m.lo + col
	alt := string("ACGT"[b])
	c := candidate{
		pos: pos, ref: string("ACGT"[baseCode[r.contig.Seq[pos]]]), alt: alt,
		from: pos, to: pos + 1, seq: alt, start: pos, end: pos + 1,
		prior: r.cfg.SNPRate / 3,
	}
	c.confuse(model, r.contig.Seq, pos, &r.work.counts[col], r.used(m, col))
	return c
}

// used is the share of the reads at a column that the cap on depth leaves, where they are a mixture: as in all of its tile, for others may
// have been let go of.
func (r *Region) used(m *matrix, col int) float64 {
	if r.cfg.Ploidy != Mixture {
		return 1
	}
	reads := int32(0)
	for _, strand := range r.work.counts[col] {
		for _, n := range strand {
			reads += n
		}
	}
	if int(reads) < r.cfg.MaxDepth {
		return 1
	}
	return min(1, float64(len(m.rows))/float64(max(1, r.tiles[r.tileAt((m.lo+m.hi)/2)].reads)))
}

// confuse sets how often reads take c, a substitution, for what seq has at a position, and
// the other way round. seen is what the reads show there if seq is the reference, whose
// errors they have been counted among, and used the share of the reads that this is of; else nil.
func (c *candidate) confuse(model *errorModel, seq []byte, at int, seen *[2][codes]int32, used float64) {
	follow := correlation
	if inPalindrome(seq, at) {
		follow = correlationPalindrome
	}
	ref, alt := baseCode[seq[at]], baseCode[c.seq[0]]
	for strand := range 2 {
		k := kmerAt(seq, at, strand == 1)
		from, to := strandBase(ref, strand == 1), strandBase(alt, strand == 1)
		n, own := 0, 0
		if seen != nil {
			n = int(seen[strand][alt])
			for base := range 4 {
				own += int(seen[strand][base])
			}
		}
		c.rates[0][strand] = model.confusionOfUsed(k, to, n, own, used)
		c.rates[1][strand] = model.confusion(k.with(to), from, 0, 0)
	}
	c.run = runBeside(seq, at)
	c.sys = [2]systematic{confused(c.rates[0], follow), confused(c.rates[1], follow).plus(referenceBias)}
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
