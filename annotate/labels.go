package annotate

import (
	"strconv"
	"strings"
)

// labels are the annotation's own ranking of a transcript, by which one of several is preferred.
type labels struct {
	appris string // P1 to P5 for principal isoforms, A1 and A2 for alternative ones; "" if unknown
	tsl    int    // Ensembl's transcript support level, 1 (best) to 5; 0 if unknown
	ccds   string // accession in the Consensus CDS set

	basic, primary bool // GENCODE's sets of these names
	seleno         bool // the protein has selenocysteine at the stop codons inside its coding sequence
}

// add notes a tag of Ensembl, GENCODE or NCBI.
func (l *labels) add(tag string) {
	switch tag {
	case "basic", "gencode_basic":
		l.basic = true
	case "gencode_primary", "GENCODE_Primary", "gencode primary":
		l.primary = true
	case "seleno":
		l.seleno = true
	}
	if rest, ok := strings.CutPrefix(tag, "appris_"); ok {
		l.appris = apprisClass(rest)
	}
}

// apprisClass is VEP's short name of an APPRIS annotation such as principal_1.
func apprisClass(s string) string {
	for _, class := range []struct{ name, short string }{{"principal", "P"}, {"alternative", "A"}} {
		if rank, ok := strings.CutPrefix(s, class.name); ok {
			rank = strings.TrimPrefix(rank, "_")
			if rank == "" {
				rank = "1"
			}
			return class.short + rank
		}
	}
	return ""
}

// supportLevel is the number of a transcript support level, which may have a remark behind it: "1 (assigned to
// previous version 5)". Zero is unknown, as "NA" is.
func supportLevel(s string) int {
	if s == "" {
		return 0
	}
	first, _, _ := strings.Cut(s, " ")
	n, err := strconv.Atoi(first)
	if err != nil || n < 1 || n > 5 {
		return 0
	}
	return n
}
