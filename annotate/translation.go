package annotate

import (
	"fmt"
	"sort"
	"strconv"
	"strings"
)

// codingRegion sets what concerns translation.
func (b *builder) codingRegion(t *transcript, n *node) error {
	for _, r := range n.cds {
		t.cds = append(t.cds, segment{start: r.start, end: r.end})
	}
	bases := t.layOut(t.cds)
	rows := append([]*row(nil), n.cds...)
	sort.Slice(rows, func(i, j int) bool {
		return (rows[i].start < rows[j].start) == t.forward && rows[i].start != rows[j].start
	})
	first := rows[0]
	if first.phase > 0 {
		t.pad = 3 - int(first.phase)
		t.startNF = true
	}
	t.cdsLen = t.pad + bases
	for i := range t.cds {
		t.cds[i].offset += t.pad
		want := int8((3 - t.cds[i].offset%3) % 3)
		if p := rows[i].phase; p >= 0 && p != want {
			b.warn(rows[i], "CDS of transcript %q has phase %d where the bases before it give %d: the bases are followed", t.id, p, want)
		}
	}
	t.cdsStart, t.cdsEnd = t.cds[0].start, t.cds[len(t.cds)-1].end
	if !t.forward {
		t.cdsStart, t.cdsEnd = t.cds[len(t.cds)-1].start, t.cds[0].end
	}

	t.protein = accession(first.first("protein_id", "ID"))
	if t.protein == "" {
		t.protein = t.id
	}
	t.tags(first)
	t.partial(first)
	table := b.table
	if s := first.get("transl_table"); s != "" {
		var err error
		if table, err = strconv.Atoi(s); err != nil {
			return fmt.Errorf("line %d: transl_table %q is not a number", first.line, s)
		}
	}
	if t.code = codeOf(table); t.code == nil {
		return fmt.Errorf("line %d: transl_table %d is not one of NCBI's genetic codes", first.line, table)
	}
	atEnd := t.cdsEnd == t.end
	if !t.forward {
		atEnd = t.cdsStart == t.start
	}
	t.readsOn = atEnd && len(t.exons) == 1 && !t.endNF
	return b.translationExceptions(t, rows)
}

// partial reads NCBI's marks of a coding sequence that is cut: start_range and end_range with an open side.
func (t *transcript) partial(r *row) {
	if r.get("partial") != "true" {
		return
	}
	openStart := strings.HasPrefix(r.get("start_range"), ".")
	openEnd := strings.HasSuffix(r.get("end_range"), ".")
	if !t.forward {
		openStart, openEnd = openEnd, openStart
	}
	t.startNF = t.startNF || openStart
	t.endNF = t.endNF || openEnd
}

// translationExceptions reads NCBI's transl_except: (pos:123..125,aa:Sec), or pos:complement(…).
func (b *builder) translationExceptions(t *transcript, rows []*row) error {
	seen := map[string]bool{}
	for _, r := range rows {
		value := r.get("transl_except")
		if value == "" || seen[value] {
			continue
		}
		seen[value] = true
		for _, item := range strings.Split(value, "),(") {
			at, name, ok := strings.Cut(strings.Trim(item, "()"), ",aa:")
			at = strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(at, "pos:"), "complement("), ")")
			from, to, isRange := strings.Cut(at, "..")
			if !isRange {
				to = from
			}
			s, err1 := strconv.Atoi(from)
			e, err2 := strconv.Atoi(to)
			amino := oneLetter(strings.TrimRight(name, ")"))
			if !ok || err1 != nil || err2 != nil || amino == 0 {
				b.warn(r, "transl_except %q is not understood: it is left out", value)
				continue
			}
			first := s - 1
			if !t.forward {
				first = e - 1
			}
			if offset := t.locate(t.cds, first); offset >= 0 {
				t.exceptions = append(t.exceptions, exception{codon: offset / 3, amino: amino})
			}
		}
	}
	return nil
}

// oneLetter is the symbol of a three-letter amino acid name, '*' for TERM, and 0 for what is neither.
func oneLetter(name string) byte {
	if name == "TERM" {
		return '*'
	}
	for symbol, n := range threeLetter {
		if n != "" && n == name {
			return byte(symbol)
		}
	}
	return 0
}
