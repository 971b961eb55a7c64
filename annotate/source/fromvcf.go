package source

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/vcf"
)

// filterField is what the FILTER column is named among fields.
const filterField = "FILTER"

// infoField is a field that is taken from a VCF.
type infoField struct {
	annotate.SourceField
	number  int // of the field in records
	perAlt  bool
	perAny  bool // R: one for the reference, too
	perGeno bool
}

// readVCF adds the records of a VCF.
func (c *compiler) readVCF(in *input) error {
	r, err := vcf.NewReader(in.br)
	if err != nil {
		return fmt.Errorf("reading VCF: %w", err)
	}
	fields, err := c.infoFields(r.Header())
	if err != nil {
		return err
	}
	if c.meta.Date == "" {
		c.meta.Date = fileDate(r.Header())
	}
	list := make([]annotate.SourceField, len(fields))
	for i := range fields {
		list[i] = fields[i].SourceField
	}
	if err := c.begin(list, annotate.MatchExact); err != nil {
		return err
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("reading VCF: %w", err)
		}
		c.meta.Counts.Records++
		if err := c.addRecord(r.Line(), rec, fields); err != nil {
			return err
		}
	}
}

// infoFields are the fields to take: those that are named, or all.
func (c *compiler) infoFields(h *vcf.Header) ([]infoField, error) {
	declared, names := map[string]annotate.SourceField{}, []string(nil)
	for _, d := range h.Infos() {
		typ := annotate.ValueType(d.Type)
		if typ == "Character" {
			typ = annotate.String
		}
		if typ == annotate.Flag {
			d.Number = "0"
		}
		if _, twice := declared[d.ID]; twice {
			continue
		}
		declared[d.ID] = annotate.SourceField{Name: d.ID, Number: d.Number, Type: typ, Description: d.Description}
		names = append(names, d.ID)
	}
	declared[filterField] = annotate.SourceField{Name: filterField, Number: "1", Type: annotate.String, Description: "Filters that the record did not pass, or PASS"}
	if len(c.cfg.Fields) > 0 {
		names = c.cfg.Fields
	}
	fields := make([]infoField, len(names))
	for i, name := range names {
		f, ok := declared[name]
		if !ok {
			return nil, fmt.Errorf("the header declares no INFO field %q; it has %s", name, strings.Join(first(infoNames(h), 20), ", "))
		}
		fields[i] = infoField{
			SourceField: f, number: i + ownFields,
			perAlt: f.Number == "A", perAny: f.Number == "R", perGeno: f.Number == "G",
		}
	}
	return fields, nil
}

func infoNames(h *vcf.Header) []string {
	var names []string
	for _, d := range h.Infos() {
		names = append(names, d.ID)
	}
	return names
}

// fileDate is the date that the header gives, or "".
func fileDate(h *vcf.Header) string {
	for _, m := range h.Meta {
		v, ok := strings.CutPrefix(m, "##fileDate=")
		if !ok {
			continue
		}
		if len(v) == 8 && strings.Trim(v, "0123456789") == "" {
			v = v[:4] + "-" + v[4:6] + "-" + v[6:]
		}
		if dateForm.MatchString(v) {
			return v
		}
	}
	return ""
}

// addRecord adds the alleles of a record.
func (c *compiler) addRecord(line int, rec *vcf.Record, fields []infoField) error {
	contig := c.contig(line, rec.Chrom)
	if contig < 0 {
		return nil
	}
	if len(rec.Alt) == 0 {
		c.skip(line, skipNoAllele, rec.ID)
	}
	for i, alt := range rec.Alt {
		switch {
		case alt == "*" || alt == "." || alt == "<*>" || alt == "<NON_REF>":
			c.skip(line, skipNoAllele, alt)
			continue
		case strings.ContainsAny(alt, "[]"):
			c.skip(line, skipBreakend, alt)
			continue
		}
		c.values = c.values[:0]
		for k := range fields {
			c.appendInfo(line, rec, &fields[k], i)
		}
		var err error
		if alt[0] == '<' {
			err = c.addSymbolic(line, contig, rec, alt, i)
		} else {
			err = c.addAllele(line, contig, rec.Pos-1, rec.Ref, alt, rec.ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addSymbolic adds an allele without sequence: it changes the bases behind POS up to END.
func (c *compiler) addSymbolic(line, contig int, rec *vcf.Record, alt string, i int) error {
	end := 0
	if s, ok := rec.Info.Get("END"); ok {
		end, _ = strconv.Atoi(s)
	} else if s, ok := rec.Info.Get("SVLEN"); ok {
		lengths := strings.Split(s, ",")
		n, err := strconv.Atoi(lengths[min(i, len(lengths)-1)])
		if err == nil && !strings.HasPrefix(alt, "<INS") {
			end = rec.Pos + max(n, -n)
		} else if err == nil {
			end = rec.Pos
		}
	}
	if end < rec.Pos {
		c.skip(line, skipSymbolic, alt)
		return nil
	}
	return c.addInterval(line, contig, rec.Pos, end, alt, rec.ID)
}

// appendInfo appends what a record says about its allele i.
func (c *compiler) appendInfo(line int, rec *vcf.Record, f *infoField, i int) {
	if f.Name == filterField {
		if len(rec.Filter) > 0 {
			c.values = c.dict.appendField(c.values, f.number, annotate.String, annotate.EscapeValue(strings.Join(rec.Filter, ";")))
		}
		return
	}
	text, ok := rec.Info.Get(f.Name)
	switch {
	case !ok:
		return
	case f.Type == annotate.Flag:
	case text == "" || text == ".":
		return
	case f.perAlt || f.perAny || f.perGeno:
		part, ok := forAllele(f, text, i, len(rec.Alt))
		if !ok {
			c.drop(line, f.Name, fmt.Sprintf("%d values for %d alternate alleles", 1+strings.Count(text, ","), len(rec.Alt)))
			return
		}
		if part == "." || strings.Trim(part, ".,") == "" {
			return
		}
		text = part
	}
	if len(text) > maxText {
		c.drop(line, f.Name, fmt.Sprintf("value of %d bytes", len(text)))
		return
	}
	c.values = c.dict.appendField(c.values, f.number, f.Type, annotate.EscapeSpace(text))
}

// forAllele are the values that concern alternate allele i of n: of a list per alternate allele its own, of one per
// allele the reference's and its own, of one per genotype those of reference and allele alone.
func forAllele(f *infoField, text string, i, n int) (string, bool) {
	if n == 1 && f.perAlt {
		return text, !strings.Contains(text, ",")
	}
	v := strings.Split(text, ",")
	switch {
	case f.perAlt && len(v) == n:
		return v[i], true
	case f.perAny && len(v) == n+1:
		return v[0] + "," + v[i+1], true
	case f.perGeno && len(v) == n+1: // haploid
		return v[0] + "," + v[i+1], true
	case f.perGeno && len(v) == (n+1)*(n+2)/2:
		a := i + 1 // genotype j/k with j <= k is number k(k+1)/2+j
		return v[0] + "," + v[a*(a+1)/2] + "," + v[a*(a+1)/2+a], true
	}
	return "", false
}
