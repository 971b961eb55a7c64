package aligned

import (
	"fmt"

	"github.com/biogo/hts/bgzf"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/align/hts"
)

// seekTo makes a read only what may overlap the regions of the plan, with the help
// of the index.
func (a *Alignments) seekTo(p *plan) error {
	var all []bgzf.Chunk
	for _, ref := range a.header.Refs() {
		contig := a.contigs[ref.ID()]
		if contig == nil {
			continue
		}
		for _, region := range p.regionsOf(contig) {
			start, end := align.RegionBounds(region, len(contig.Seq))
			chunks, err := a.index.Chunks(ref, max(0, start-align.RegionHalo), min(end+align.RegionHalo, len(contig.Seq)))
			if err != nil {
				return err
			}
			all = append(all, chunks...)
		}
	}
	apart := hts.Apart(all)
	a.total = 0
	for _, c := range apart {
		a.total += c.End.File - c.Begin.File
	}
	if err := a.records.Limit(apart); err != nil {
		return fmt.Errorf("going to the first alignment by %s: %w", a.index.Path, err)
	}
	return nil
}
