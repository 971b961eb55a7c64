package carryover

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// Filter is the filter of alleles that can't be distinguished from carry-over.
const Filter = "CarryOver"

// The fields of INFO, one value for each ALT.
const (
	infoShare   = "CO_SHARE"
	infoBasis   = "CO_BASIS"
	infoControl = "CO_CONTROL"
	infoAlt     = "CO_AD"
	infoDepth   = "CO_DP"
)

// Declare adds the filter and the fields to a header.
func Declare(h *vcf.Header) {
	h.AddFilter(Filter, fmt.Sprintf("Reads of other samples of the run, or of a negative control, explain the allele: of alleles that are carried over at most %g %% lack it", 100*Alpha))
	h.AddInfo(infoShare, "A", "Float", "Share of the allele's reads that carry-over explains at most; missing where no control bounds it")
	h.AddInfo(infoBasis, "A", "String", "What CO_SHARE goes by: hopping (reads of other samples), contamination (reads of controls), no_source, not_covered (no control has reads), not_counted (the sample's reads can't be counted), own_allele (controls have it themselves), silent_control (the control has no read at any allele)")
	h.AddInfo(infoControl, "A", "String", "Control that shows the allele most")
	h.AddInfo(infoAlt, "A", "Integer", "Reads of CO_CONTROL that show the allele")
	h.AddInfo(infoDepth, "A", "Integer", "Reads of CO_CONTROL that show whether they have the allele; 0: it is not covered there")
}

// escaped writes a name as an element of a list in INFO.
var escaped = vcf.NewEscaper("%:;=, ")

// Mark writes assessments into a record: of returns that of an ALT, nil for one that wasn't assessed. As
// with other filters, a record has the filter if one of its alleles does. Marks that it has from before go.
func Mark(rec *vcf.Record, of func(alt int) *Assessment) {
	var fields [5][]string
	assessed, explained := false, false
	for alt := range rec.Alt {
		j := of(alt)
		if j == nil {
			for i := range fields {
				fields[i] = append(fields[i], ".")
			}
			continue
		}
		assessed, explained = true, explained || j.Explained
		share := "."
		if j.Bounded() {
			share = strconv.FormatFloat(j.Share, 'f', 3, 64)
		}
		for i, text := range []string{share, string(j.Basis), escaped.Escape(j.Control), strconv.Itoa(j.Alt), strconv.Itoa(j.Depth)} {
			fields[i] = append(fields[i], text)
		}
	}
	if !assessed {
		return
	}
	for i, key := range []string{infoShare, infoBasis, infoControl, infoAlt, infoDepth} {
		rec.Info.Set(key, strings.Join(fields[i], ","))
	}
	marked := slices.Contains(rec.Filter, Filter)
	if !explained && !marked {
		return
	}
	rec.Filter = slices.DeleteFunc(slices.Clone(rec.Filter), func(f string) bool { return f == "PASS" || f == Filter })
	switch {
	case explained:
		rec.Filter = append(rec.Filter, Filter)
	case len(rec.Filter) == 0:
		rec.Filter = []string{"PASS"}
	}
}
