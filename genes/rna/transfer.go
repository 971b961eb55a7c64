package rna

// The cloverleaf is scored as log odds against bases that are independent. Numbers of positions are the usual ones of transfer RNA: the acceptor stem is 1-7 with
// 66-72, the D stem 10-13 with 22-25, the anticodon stem 27-31 with 39-43, the T stem 49-53 with 61-65.
const (
	pairGC    = 1.5
	pairAU    = 1.0
	pairGU    = -.7
	pairNot   = -2.75
	lastOfD   = .4 // weight of 13 with 22, which often don't pair
	withCCA   = 2.5
	withNoCCA = -.5

	// leastT and leastAnticodon are what the T arm and the anticodon arm must have for the rest to be searched.
	leastT, leastAnticodon = 5, 2
	// leastTransfer is the score from which a cloverleaf is a transfer RNA.
	leastTransfer = 23
)

// The variable loop, 44-48, is short, or long in leucine, serine and tyrosine. The D loop, 14-21, has no length that most have.
const (
	shortestVariable          = 3
	shortestLong, longestLong = 9, 24
	shortestD, longestD       = 6, 12
)

// variable is the log share of a length of the variable loop; false if none has it.
func variable(length int) (float64, bool) {
	switch {
	case length >= shortestLong:
		return -4.5, true
	case length > 6:
		return 0, false
	}
	return [...]float64{-4, -1.3, -.5, -3.5}[length-shortestVariable], true
}

// loopD is the log share of a length of the D loop.
func loopD(length int) float64 {
	return [...]float64{-4, -2.3, -1.2, -1.2, -1.6, -2.3, -4}[length-shortestD]
}

func pair(a, b byte) float64 {
	switch {
	case a == unknown || b == unknown:
		return 0
	case a+b == 3 && (a == 1 || a == 2):
		return pairGC
	case a+b == 3:
		return pairAU
	case a+b == 5: // G and T
		return pairGU
	}
	return pairNot
}

func one(is bool, yes, no float64) float64 {
	if is {
		return yes
	}
	return no
}

// transfer finds the transfer RNA of a strand.
func transfer(s []byte, amino func(codon string) byte) []Gene {
	const a, c, g, t = 0, 1, 2, 3
	const shortest, behind = 49, 23 // bases before position 54 in the shortest transfer RNA, and from it on to CCA
	var out []Gene
	for at := shortest; at+behind <= len(s); at++ {
		if s[at+1] != t || s[at+2] != c || s[at+4] != a {
			continue
		}
		arm := 4.05 + one(s[at] == t, 1.3, -2.5) + one(s[at+3] == a || s[at+3] == g, .65, -2) + one(s[at-1] == g && s[at+7] == c, 1.3, -2.5) +
			one(s[at+6] == t || s[at+6] == c, .4, -.5) + one(s[at-6] == t || s[at-6] == c, .5, -.8)
		for i := range 5 {
			arm += pair(s[at-5+i], s[at+11-i])
		}
		if arm < leastT {
			continue
		}
		end := at + 20
		if s[end] == c && s[end+1] == c && s[end+2] == a {
			arm += withCCA
			end += 3
		} else {
			arm += withNoCCA
		}
		best := Gene{Score: leastTransfer, Transfer: true}
		for v := shortestVariable; v <= longestLong; v++ {
			share, ok := variable(v)
			if !ok {
				continue
			}
			stem := at - 5 - v - 17 // position 27
			if stem < 0 {
				break
			}
			anticodon := one(s[stem+6] == t, 1.35, -3) + one(s[stem+5] == t || s[stem+5] == c, .5, -1) + one(s[stem+10] == a || s[stem+10] == g, .6, -1.5)
			for i := range 5 {
				anticodon += pair(s[stem+i], s[stem+16-i])
			}
			if anticodon < leastAnticodon {
				continue
			}
			for l := shortestD; l <= longestD; l++ {
				d := stem - 1 - 4 - l - 4 // position 10
				if d < 9 {
					break
				}
				score := arm + share + anticodon + loopD(l) + one(s[d-2] == t, 1.3, -2.5) + one(s[d+4] == a, 1.3, -2.5) + one(s[d+3+l] == a, 1, -1.5)
				glycine := false
				for i := d + 7; i <= d+9 && i+1 < d+4+l; i++ {
					glycine = glycine || s[i] == g && s[i+1] == g
				}
				score += one(glycine, 1.2, -2.5)
				for i := range 4 {
					p := pair(s[d+i], s[d+7+l-i])
					if i == 3 {
						p *= lastOfD
					}
					score += p
				}
				for i := range 7 {
					score += pair(s[d-9+i], s[at+18-i])
				}
				if score > best.Score {
					best.Start, best.End, best.Score = d-9, end, score
					best.Product, best.Anticodon = named(s[stem+7:stem+10], amino)
				}
			}
		}
		if best.End > 0 && best.Product != "" {
			out = append(out, best)
		}
	}
	return apart(out)
}

// threeLetters are the names of the amino acids.
var threeLetters = map[byte]string{
	'A': "Ala", 'C': "Cys", 'D': "Asp", 'E': "Glu", 'F': "Phe", 'G': "Gly", 'H': "His", 'I': "Ile", 'K': "Lys", 'L': "Leu",
	'M': "Met", 'N': "Asn", 'P': "Pro", 'Q': "Gln", 'R': "Arg", 'S': "Ser", 'T': "Thr", 'V': "Val", 'W': "Trp", 'Y': "Tyr",
}

// named is the product by the codon that the anticodon pairs with. That of a stop codon has none.
func named(bases []byte, amino func(codon string) byte) (product, anticodon string) {
	letters, codon := make([]byte, 3), make([]byte, 3)
	for i, b := range bases {
		if b == unknown {
			return "", ""
		}
		letters[i], codon[2-i] = "ACGT"[b], "ACGT"[3-b]
	}
	name, ok := threeLetters[amino(string(codon))]
	if !ok {
		return "", ""
	}
	return "tRNA-" + name, string(letters)
}
