package watchlist

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// proteinChange is a change of a protein as the annotation spells it, without the accession: "Glu118Lys".
type proteinChange struct {
	name     string
	from, to int  // residues, from 1
	first    byte // what the description says residue from is
	last     byte // and residue to
}

// aminoNames are the three-letter names of amino acids by symbol.
var aminoNames = map[byte]string{
	'A': "Ala", 'R': "Arg", 'N': "Asn", 'D': "Asp", 'C': "Cys", 'Q': "Gln", 'E': "Glu", 'G': "Gly", 'H': "His",
	'I': "Ile", 'L': "Leu", 'K': "Lys", 'M': "Met", 'F': "Phe", 'P': "Pro", 'S': "Ser", 'T': "Thr", 'W': "Trp",
	'Y': "Tyr", 'V': "Val", 'U': "Sec", 'O': "Pyl", '*': "Ter", 'X': "Xaa",
}

// aminoSymbols is the inverse of aminoNames.
var aminoSymbols = func() map[string]byte {
	m := make(map[string]byte, len(aminoNames))
	for c, name := range aminoNames {
		m[name] = c
	}
	return m
}()

// amino is the pattern of an amino acid's three-letter name.
const amino = `(?:Ala|Arg|Asn|Asp|Cys|Gln|Glu|Gly|His|Ile|Leu|Lys|Met|Phe|Pro|Ser|Thr|Trp|Tyr|Val|Sec|Pyl|Ter|Xaa)`

// proteinForm is what stands behind "p.", with three-letter names.
var proteinForm = regexp.MustCompile(`^(` + amino + `)([1-9][0-9]{0,6})(?:_(` + amino + `)([1-9][0-9]{0,6}))?` +
	`(?:=|\?|` + amino + `|` + amino + `?fs(?:Ter(?:[0-9]+|\?))?|del|dup|(?:del)?ins` + amino + `+|` + amino + `?ext(?:Ter)?-?(?:[0-9]+|\?))$`)

// parseProtein reads what stands behind "p." in an HGVS description, in one- or three-letter symbols, with or without
// the parentheses of a prediction.
func parseProtein(s string) (proteinChange, error) {
	inner := s
	if strings.HasPrefix(inner, "(") && strings.HasSuffix(inner, ")") {
		inner = inner[1 : len(inner)-1]
	}
	name := longSymbols(inner)
	m := proteinForm.FindStringSubmatch(name)
	if m == nil {
		return proteinChange{}, fmt.Errorf("p.%s is not a change of a protein that can be watched for: want one such as p.Glu118Lys, p.W56*, p.Lys23fs or p.Glu746_Ala750del", clip(s))
	}
	c := proteinChange{name: name, first: aminoSymbols[m[1]]}
	c.from, _ = strconv.Atoi(m[2]) // digits, by the pattern
	c.to, c.last = c.from, c.first
	if m[3] != "" {
		c.to, _ = strconv.Atoi(m[4])
		c.last = aminoSymbols[m[3]]
	}
	if c.to < c.from {
		return proteinChange{}, fmt.Errorf("p.%s: the range ends before it begins: turn it round", clip(s))
	}
	return c, nil
}

// replacement is the symbol of the residue that p puts in place of one other; 0 for every other change.
func (p *proteinChange) replacement() byte {
	if p.from != p.to || len(p.name) < 7 {
		return 0
	}
	prefix := aminoNames[p.first] + strconv.Itoa(p.from)
	now := aminoSymbols[strings.TrimPrefix(p.name, prefix)]
	if now == 'X' || now == p.first {
		return 0
	}
	return now
}

// longSymbols replaces one-letter symbols by three-letter names.
func longSymbols(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		isLong := i+2 < len(s) && s[i+1] >= 'a' && s[i+1] <= 'z' && aminoSymbols[s[i:i+3]] != 0
		name, known := aminoNames[c]
		switch {
		case isLong:
			b.WriteString(s[i : i+3])
			i += 2
		case known:
			b.WriteString(name)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// proteinKey finds the watched changes of a transcript's protein.
type proteinKey struct{ transcript, change string }

// changeOf is what an HGVS description of a protein says without accession and parentheses, with Ter for a stop; "" if it says nothing.
func changeOf(hgvsp string) string {
	_, change, _ := strings.Cut(hgvsp, ":p.")
	return strings.ReplaceAll(strings.Trim(change, "()"), "*", "Ter")
}

// shorterFrameshifts are the shorter ways to name a change of the frame: without the new stop, and without the new
// residue.
func shorterFrameshifts(change string) []string {
	i := strings.Index(change, "fs")
	if i < 0 {
		return nil
	}
	names := []string{change[:i+2]}
	if j := i - 3; j > 3 && change[j-1] >= '0' && change[j-1] <= '9' {
		names = append(names, change[:j]+"fs")
	}
	return names
}

// singleResidues names the replaced residues of a change of several, "Arg203Lys" and "Gly204Arg" for residues "203-204" that
// are "RG/KR"; none for other changes.
func singleResidues(residues, amino string) []string {
	first, last, isRange := strings.Cut(residues, "-")
	before, after, _ := strings.Cut(amino, "/")
	from, err := strconv.Atoi(first)
	to, err2 := strconv.Atoi(last)
	if !isRange || err != nil || err2 != nil || len(before) != len(after) || len(before) != to-from+1 {
		return nil
	}
	var names []string
	for i := range before {
		if old, now := aminoNames[before[i]], aminoNames[after[i]]; old != now && old != "" && now != "" {
			names = append(names, old+strconv.Itoa(from+i)+now)
		}
	}
	return names
}
