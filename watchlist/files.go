package watchlist

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// place is an interval as written, to be checked against the reference: 0-based, half open. end 0 is the whole
// contig.
type place struct {
	contig     string
	start, end int
	origin     string // where it was written: "panel.yaml:7" or "targets.bed:3"
}

// vcfAllele is an allele as written.
type vcfAllele struct {
	contig   string
	pos      int // 1-based
	ref, alt string
	origin   string
}

// cutRange splits "a-b".
func cutRange(s string) (a, b string, ok bool) {
	a, b, ok = strings.Cut(s, "-")
	return strings.TrimSpace(a), strings.TrimSpace(b), ok
}

// parseRegion reads contig:start-end (1-based, closed), contig:position or contig. A contig's name may hold colons.
func parseRegion(s string) (place, error) {
	i := strings.LastIndexByte(s, ':')
	if i < 0 {
		return place{contig: s}, nil
	}
	p := place{contig: s[:i]}
	a, b, isRange := cutRange(strings.ReplaceAll(s[i+1:], ",", ""))
	from, err := strconv.Atoi(a)
	to := from
	if err == nil && isRange {
		to, err = strconv.Atoi(b)
	}
	if err != nil || from < 1 || to < from || p.contig == "" {
		return place{}, fmt.Errorf("region %q: want contig:start-end, counted from 1", clip(s))
	}
	p.start, p.end = from-1, to
	return p, nil
}

// parseVCFAllele reads contig:position:ref:alt, or the same with hyphens. A contig's name may hold either.
func parseVCFAllele(s string) (vcfAllele, error) {
	for _, sep := range []string{":", "-"} {
		parts := strings.Split(s, sep)
		n := len(parts)
		if n < 4 {
			continue
		}
		pos, err := strconv.Atoi(parts[n-3])
		a := vcfAllele{contig: strings.Join(parts[:n-3], sep), pos: pos, ref: parts[n-2], alt: parts[n-1]}
		if err != nil || pos < 1 || a.contig == "" {
			break
		}
		if !isSequence(a.ref) || !isSequence(a.alt) {
			break
		}
		a.ref, a.alt = strings.ToUpper(a.ref), strings.ToUpper(a.alt)
		return a, nil
	}
	return vcfAllele{}, fmt.Errorf("vcf %q: want contig:position:ref:alt with bases as in a VCF, such as chr7:140753336:A:T", clip(s))
}

// isSequence reports whether s is made of A, C, G, T and N.
func isSequence(s string) bool { return s != "" && strings.Trim(s, "ACGTNacgtn") == "" }

// readBED reads the intervals of a BED file: the first three columns.
func (p *reader) readBED(name string, line int, text []byte) []place {
	var places []place
	n := 0
	for row := range bytes.Lines(text) {
		n++
		s := strings.TrimRight(string(row), "\r\n")
		if s == "" || s[0] == '#' || strings.HasPrefix(s, "track") || strings.HasPrefix(s, "browser") {
			continue
		}
		columns := strings.SplitN(s, "\t", 4)
		if len(columns) < 3 {
			columns = strings.Fields(s)
		}
		var start, end int
		err := errors.New("want contig, start and end, separated by tabs")
		if len(columns) >= 3 {
			if start, err = strconv.Atoi(columns[1]); err == nil {
				end, err = strconv.Atoi(columns[2])
			}
			if err == nil && (start < 0 || end <= start) {
				err = fmt.Errorf("the interval %d to %d is empty or negative", start, end)
			}
		}
		if err != nil {
			p.add(line, "bed: %s:%d: %w", name, n, err)
			return nil
		}
		if len(places) == maxItems {
			p.add(line, "bed: %s has more than %d intervals", name, maxItems)
			return nil
		}
		places = append(places, place{contig: columns[0], start: start, end: end, origin: fmt.Sprintf("%s:%d", name, n)})
	}
	if len(places) == 0 {
		p.add(line, "bed: %s holds no interval", name)
	}
	return places
}

// readVCF reads the alleles of a VCF file.
func (p *reader) readVCF(name string, line int, text []byte) []vcfAllele {
	rd, err := vcf.NewReader(bytes.NewReader(text))
	if err != nil {
		p.add(line, "positions: %s: %w", name, err)
		return nil
	}
	var alleles []vcfAllele
	for {
		rec, err := rd.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			p.add(line, "positions: %s: %w", name, err)
			return nil
		}
		for _, alt := range rec.Alt {
			if !isSequence(rec.Ref) || !isSequence(alt) {
				p.add(line, "positions: %s:%d: %s>%s is not a change of bases: leave it out", name, rd.Line(), clip(rec.Ref), clip(alt))
				return nil
			}
			if len(alleles) == maxItems {
				p.add(line, "positions: %s has more than %d alleles", name, maxItems)
				return nil
			}
			alleles = append(alleles, vcfAllele{
				contig: rec.Chrom, pos: rec.Pos, ref: strings.ToUpper(rec.Ref), alt: strings.ToUpper(alt),
				origin: fmt.Sprintf("%s:%d", name, rd.Line()),
			})
		}
	}
	if len(alleles) == 0 {
		p.add(line, "positions: %s holds no allele", name)
	}
	return alleles
}
