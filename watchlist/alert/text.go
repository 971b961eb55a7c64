package alert

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/porestream/porestream/watchlist"
)

// Text is the alert on one line for people: state, sample, rule, and what speaks
// for it.
func Text(a *watchlist.Alert) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-12s %s  %s/%s", a.Answer(), a.Sample, a.Panel.ID, a.Rule)
	if v := a.Allele; v != nil {
		fmt.Fprintf(&b, "  %s:%d %s>%s", v.Contig, v.Pos, v.Ref, v.Alt)
	} else if a.Subject != "" {
		fmt.Fprintf(&b, "  %s", a.Subject)
	}
	if c := a.Consequence; c != nil {
		for _, t := range c.Terms[:min(1, len(c.Terms))] {
			fmt.Fprintf(&b, "  %s", t.Name)
		}
		if c.Gene != nil {
			fmt.Fprintf(&b, " %s", cmp.Or(c.Gene.Symbol, c.Gene.ID))
		}
		if _, p, ok := strings.Cut(c.HGVSp, ":"); ok {
			fmt.Fprintf(&b, " %s", p)
		}
	}
	if e := a.Evidence; e != nil {
		fmt.Fprintf(&b, "  %d/%d reads  QUAL %.1f", e.AltForward+e.AltReverse, e.Depth, e.Qual)
	}
	if m := a.Model; m != nil {
		fmt.Fprintf(&b, "  %s %s P=%.3f", m.Name, m.Output, m.Probability)
		for i, d := range m.Drivers[:min(3, len(m.Drivers))] {
			fmt.Fprintf(&b, "%s%s %+.2f", [...]string{"  by ", ", ", ", "}[i], d.Feature, d.Effect)
		}
	}
	if m := a.Methylation; m != nil {
		fmt.Fprintf(&b, "  %s:%d-%d %s?", m.Contig, m.Start, m.End, m.Asked)
	}
	if p := a.Probability.FalseAlarm; p != nil {
		fmt.Fprintf(&b, "  false alarm <= %.2g", *p)
	}
	if p := a.Probability.Miss; p != nil && a.State == watchlist.Negative {
		fmt.Fprintf(&b, "  miss <= %.2g", *p)
	}
	if a.Reason != "" {
		fmt.Fprintf(&b, "  (%s)", a.Reason)
	}
	fmt.Fprintf(&b, "  rev %d", a.Revision)
	return b.String()
}
