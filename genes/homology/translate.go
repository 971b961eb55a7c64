package homology

import (
	"fmt"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/genome"
)

// Code translates codons.
type Code struct {
	table  int
	amino  [64]byte // by bases T, C, A, G
	starts map[string]bool
}

// NewCode is NCBI's genetic code of that number.
func NewCode(table int) (*Code, error) {
	aminos, starts, ok := annotate.GeneticCode(table)
	if !ok {
		return nil, fmt.Errorf("genetic code %d is not one of NCBI's", table)
	}
	c := &Code{table: table, starts: make(map[string]bool, len(starts))}
	copy(c.amino[:], aminos)
	for _, s := range starts {
		c.starts[s] = true
	}
	return c, nil
}

// Translate is the protein of a coding sequence, in letters, without its stop; other stops are '*', and codons with unknown bases X. The first
// codon is read as methionine if begins is set and it may initiate.
func (c *Code) Translate(coding []byte, begins bool) []byte {
	out := make([]byte, 0, len(coding)/3)
	for i := 0; i+3 <= len(coding); i += 3 {
		codon := coding[i : i+3]
		if i == 0 && begins && c.starts[strings.ToUpper(string(codon))] {
			out = append(out, 'M')
			continue
		}
		out = append(out, c.residue(codon))
	}
	if n := len(out); n > 0 && out[n-1] == '*' {
		out = out[:n-1]
	}
	return out
}

func (c *Code) residue(codon []byte) byte {
	n := 0
	for _, b := range codon {
		i := strings.IndexByte("TCAG", upperBase(b))
		if i < 0 {
			return 'X'
		}
		n = n<<2 | i
	}
	return c.amino[n]
}

func upperBase(b byte) byte {
	if b &^= 0x20; b == 'U' {
		return 'T'
	}
	return b
}

// stretch is a part of a sequence, 0-based and half open.
type stretch struct{ start, end int }

// join is the coding sequence of parts in the order of the genome. A part may go on behind the end of a circular sequence, once; another is refused.
func join(seq []byte, parts []stretch, reverse bool) ([]byte, error) {
	var out []byte
	n := len(seq)
	for _, p := range parts {
		switch {
		case p.start < 0 || p.start >= n || p.end > 2*n || p.end <= p.start:
			return nil, fmt.Errorf("bases %d to %d are not in its sequence of %d", p.start+1, p.end, n)
		case p.end <= n:
			out = append(out, seq[p.start:p.end]...)
		default:
			out = append(append(out, seq[p.start:]...), seq[:p.end-n]...)
		}
	}
	if reverse {
		genome.ReverseComplement(out)
	}
	return out, nil
}
