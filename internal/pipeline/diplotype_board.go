package pipeline

import (
	"slices"

	"github.com/porestream/porestream/annotate/diplotype"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/internal/processor"
	"github.com/porestream/porestream/monitor"
	"github.com/porestream/porestream/stream"
)

// mostNamedSamples is how many samples a board names alleles of.
const mostNamedSamples = 384

// DiplotypeBoard names the alleles of many samples for the live page.
//
// Problem: naming a gene takes all that is known of its surroundings, and records come faster than anybody reads what follows from them; who follows the topics
// must not be held up.
//
// Strategy: a record is filed with those of its sample, and the genes that it touches are named later, a few at a time ([DiplotypeBoard.Changed]).
//
// Consequences: what is shown may be behind by as long as all changed genes take; whichever changed first is named first, so that nobody waits for samples whose reads keep
// coming. Each sample's records are kept by themselves, so that naming doesn't take longer the more
// samples there are.
type DiplotypeBoard struct {
	namer   *Namer
	folds   map[string]*Fold
	changed map[geneOf]*diplotype.Definitions
	waiting []geneOf // the keys of changed, the first to change first
	said    map[geneOf]string
	left    map[string]bool // samples that are beyond the limit
}

type geneOf struct{ sample, gene string }

// NewDiplotypeBoard begins with an empty topic.
func NewDiplotypeBoard(namer *Namer) *DiplotypeBoard {
	return &DiplotypeBoard{
		namer: namer, folds: make(map[string]*Fold), changed: make(map[geneOf]*diplotype.Definitions), said: make(map[geneOf]string), left: make(map[string]bool),
	}
}

// NamerOf makes boards by the definitions of engines; nil without any.
func NamerOf(engines *processor.Engines) func() monitor.Namer {
	if len(engines.Definitions) == 0 {
		return nil
	}
	return func() monitor.Namer { return NewDiplotypeBoard(NewNamer(engines.Genome, engines.Definitions)) }
}

// Add files a record of the topic of variants.
func (b *DiplotypeBoard) Add(rec stream.Record) error {
	ref, err := event.DecodeReference(rec)
	if err != nil {
		return err
	}
	var v *event.Variant
	if ref == nil {
		if v, _, err = event.Decode(rec); err != nil {
			return err
		}
	}
	sample, touched, kept := b.namer.touched(v, ref)
	if !kept {
		return nil
	}
	fold := b.folds[sample]
	if fold == nil {
		if len(b.folds) >= mostNamedSamples {
			b.left[sample] = true
			return nil
		}
		fold = NewFold(1)
		b.folds[sample] = fold
	}
	if ref != nil {
		fold.references.put(ref, rec, false)
	} else if _, err := fold.Add(rec); err != nil {
		return err
	}
	for _, d := range touched {
		key := geneOf{sample, d.Gene}
		if b.changed[key] == nil {
			b.waiting = append(b.waiting, key)
		}
		b.changed[key] = d
	}
	return nil
}

// Changed names genes of samples that records have touched, so many at most, and returns those of which something else is said now.
func (b *DiplotypeBoard) Changed(most int) []monitor.Diplotype {
	var out []monitor.Diplotype
	now := b.waiting[:min(len(b.waiting), most)]
	b.waiting = slices.Clone(b.waiting[len(now):])
	for _, key := range now {
		d := b.changed[key]
		delete(b.changed, key)
		row := monitor.Diplotype{ID: key.sample + "/" + key.gene, Sample: key.sample, Gene: key.gene}
		named, err := b.namer.name(b.folds[key.sample], key.sample, d)
		if err != nil { // a damaged record; the others go on
			row.Reason = err.Error()
		} else {
			row.Status, row.Diplotypes, row.AlsoPossible, row.Unexamined = named.Status, named.Diplotypes, named.AlsoPossible, named.Unexamined
			row.Missing, row.UnknownBases, row.Reason, row.Definitions = named.Missing, named.UnknownBases, named.Reason, named.Definitions
			row.Positions = len(d.Positions)
		}
		for _, list := range []*[]string{&row.Diplotypes, &row.AlsoPossible, &row.Unexamined, &row.Missing, &row.UnknownBases} {
			if *list == nil {
				*list = []string{} // null is not a list to who reads JSON
			}
		}
		if text := row.Text(); b.said[key] != text {
			b.said[key] = text
			out = append(out, row)
		}
	}
	return out
}

// LeftOut is how many samples aren't named, as there is a limit.
func (b *DiplotypeBoard) LeftOut() int { return len(b.left) }
