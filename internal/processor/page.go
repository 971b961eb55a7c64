package processor

import (
	"context"

	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/monitor/page"
	variantstage "github.com/porestream/porestream/variant/stage"
)

// What a pileup on the page has of a place.
const (
	pileupFlank = 40
	pileupRows  = 100
)

// reads answers for the regions of this process.
type reads struct{ regions *variantstage.Regions }

// ReadsOf answers the live page from the regions that a process holds.
func ReadsOf(regions *variantstage.Regions) page.Reads { return reads{regions} }

func (r reads) Pileup(_ context.Context, at page.Place) (*monitor.Pileup, error) {
	p, here := r.regions.Pileup(at.Sample, at.Contig, int(at.Pos-1), pileupFlank, pileupRows)
	if !here {
		return nil, page.ErrNotHere
	}
	out := &monitor.Pileup{Contig: at.Contig, From: int64(p.Start) + 1, Reference: p.Reference, Rows: make([]monitor.PileupRow, len(p.Rows)), LeftOut: p.LeftOut}
	for i := range p.Rows {
		w := &p.Rows[i]
		row := monitor.PileupRow{Read: w.Name, Strand: "+", Start: w.Start, Bases: w.Bases, Quals: w.Quals, MapQ: w.MappingQuality}
		if w.Reverse {
			row.Strand = "-"
		}
		for _, in := range w.Insertions {
			row.Insertions = append(row.Insertions, monitor.PileupInsertion{Column: in.Column, Bases: in.Bases})
		}
		out.Rows[i] = row
	}
	return out, nil
}
