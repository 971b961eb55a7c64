package variant

import "math"

// kmer is five bases of the strand that went through the pore, two bits each,
// the first highest; the third is the base in question. R9 pores sense about five.
type kmer uint16

const (
	kmerReach = 2
	kmerCount = 1 << (2 * (2*kmerReach + 1))
	kmerShift = 2 * 2 * kmerReach // of the base that enters or leaves
)

// kmerAt is the kmer around reference position pos for a read on the given
// strand; bases beyond the contig, and ambiguous ones, count as A.
func kmerAt(ref []byte, pos int, reverse bool) kmer {
	k := kmer(0)
	for p := pos - kmerReach; p <= pos+kmerReach; p++ {
		k = k.push(ref, p, reverse)
	}
	return k
}

// next is the kmer around pos, given that of pos-1.
func (k kmer) next(ref []byte, pos int, reverse bool) kmer {
	return k.push(ref, pos+kmerReach, reverse)
}

func (k kmer) push(ref []byte, pos int, reverse bool) kmer {
	b := kmer(0)
	if uint(pos) < uint(len(ref)) {
		b = kmer(baseCode[ref[pos]] & 3)
	}
	if reverse {
		return k>>2 | (3-b)<<kmerShift
	}
	return (k<<2 | b) & (kmerCount - 1)
}

// with is k with another middle base.
func (k kmer) with(b byte) kmer {
	const shift = 2 * kmerReach
	return k&^(3<<shift) | kmer(b)<<shift
}

// middle is the base in question.
func (k kmer) middle() byte { return byte(k >> (2 * kmerReach) & 3) }

// contextWeight is how many observations the strength of the prior is worth in a
// context's rate.
const contextWeight = 50

// confusion is how often reads show base b where the pore saw k, leaving out n
// of total observations: those of the site that is being evaluated.
func (m *errorModel) confusion(k kmer, b byte, n, total int) float64 {
	return m.confusionOfUsed(k, b, n, total, 1)
}

// confusionOfUsed is confusion where a share of the reads is used at the site, and its observations are of these. All reads have been
// counted, so each of those that are used stands for some. Where the site is most of what is known of the context, chance would be most of
// what is left of it: then the rate is that of all contexts.
func (m *errorModel) confusionOfUsed(k kmer, b byte, n, total int, used float64) float64 {
	prior := m.mismatch * m.swap[k.middle()][b]
	seen, all := 0, 0
	for i, c := range &m.counts.contexts[k] {
		all += int(c)
		if byte(i) == b {
			seen = int(c)
		}
	}
	if used < 1 {
		seen, all = int(math.Round(float64(seen)*used)), int(math.Round(float64(all)*used))
		if all < 2*total {
			return prior
		}
	}
	seen, all = max(0, seen-n), max(0, all-total)
	return (float64(seen) + float64(prior*contextWeight)) / (float64(max(all, seen)) + contextWeight)
}

// Shares of one strand's reads that show the same wrong base, in contexts where
// reference reads show it at the rate worstConfusion, and how fast they fall with
// the rate. Measured over every 5-mer and wrong base in 70x of lambda, without the
// site itself; two networks, with 3.9 and 5.3 % mismatches, agree within 1.5 times.
// With a rate of 0.14, 15 % of the strands show it in a quarter of the reads, 6 % in
// 0.35, 1.6 % in half, 0.25 % in 0.65, 0.02 % in 0.8; with a rate of 0.0175, 0.15 %,
// 0.04 %, 0.01 %, 0.004 % and none. Methylated motifs (CCWGG in E. coli and its
// phages) stand out as contexts of rates up to 0.18.
const worstConfusion = 0.14

var (
	confusedShare = [len(shares)]float64{0.12, 5e-2, 8e-3, 1.5e-3, 5e-5}
	confusedPower = [len(shares)]float64{2.2, 2.4, 2.3, 2.0, 1.5}
)

// correlation is how often the second strand follows the first into the same
// error, over what two independent strands do. On the lambda sites, both strands
// have 0.3 or 0.4 of their reads wrong at 13 sites where 5 are expected: an excess
// of 0.03 to 0.06 of what the rarer strand does, all of it in palindromes, where
// the strands are the same sequence.
const (
	correlation           = 0.04
	correlationPalindrome = 0.3
)

// inPalindrome reports whether pos is in four bases that equal their reverse
// complement.
func inPalindrome(ref []byte, pos int) bool {
	for i := max(0, pos-3); i <= min(pos, len(ref)-4); i++ {
		if baseCode[ref[i]]+baseCode[ref[i+3]] == 3 && baseCode[ref[i+1]]+baseCode[ref[i+2]] == 3 {
			return true
		}
	}
	return false
}

// strandFloor is what remains in contexts that are hardly ever wrong: a strand alone
// never has more than 44 dB to say, which against the prior of an SNP leaves 9, less
// than MinQual.
var strandFloor = [len(shares)]float64{1e-3, 3e-4, 1e-4, 6e-5, 4e-5}

// confused is how likely strands are to be systematically wrong, given the rates of
// confusion of the forward and the reverse strand, and their correlation.
func confused(rates [2]float64, correlation float64) systematic {
	var s systematic
	for i := range shares {
		for strand, rate := range rates {
			s.strand[strand][i] = min(0.2, confusedShare[i]*math.Pow(rate/worstConfusion, confusedPower[i]))
		}
		s.both[i] = correlation * min(s.strand[0][i], s.strand[1][i])
		s.strand[0][i] = max(s.strand[0][i], strandFloor[i])
		s.strand[1][i] = max(s.strand[1][i], strandFloor[i])
	}
	return s
}
