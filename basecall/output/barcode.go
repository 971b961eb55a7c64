package output

import (
	"github.com/porestream/porestream/signal"
)

// Unclassified is the name of the barcode of reads for which none was found.
const Unclassified = "unclassified"

// Barcode is what is known of a read's barcode.
type Barcode struct {
	// Name is the tag BC, and what the read group ends with: the kit's name and the
	// barcode's, the sample's alias in its place, or Unclassified.
	Name string
	// Sample is the sample of the read group; empty for the run's.
	Sample string
	// Alias is what a sample sheet calls the sample; empty for none.
	Alias string
	// Info is the tag bi: the barcode's score, then for front and rear of the read
	// where flanks and barcode begin and end there, in bases, and the score of the
	// barcode; -1 for an end that wasn't searched. It belongs to a read alone.
	Info []float32
	// Reason says why none was found, as package demux calls it; empty for a barcode.
	Reason string
}

// readGroup returns the name of the read group of a run's reads with a barcode; nil for
// those of a run that isn't barcoded. Reads without a barcode have the run's own.
func readGroup(run *signal.Run, model string, barcode *Barcode) string {
	name := clean(run.ID) + "_" + clean(model)
	if barcode != nil && barcode.Name != Unclassified {
		name += "_" + clean(barcode.Name)
	}
	return name
}

// readGroups calls visit for each read group of a file, in order, each once: several
// files of one run have a Run each.
func (h *Header) readGroups(visit func(name string, run *signal.Run, barcode *Barcode) error) error {
	seen := make(map[string]bool)
	for _, run := range h.Runs {
		barcodes := []*Barcode{nil}
		if h.Barcodes != nil {
			for _, b := range h.Barcodes(run) {
				barcodes = append(barcodes, &b)
			}
		}
		for _, b := range barcodes {
			name := readGroup(run, h.Model.Manifest.Name, b)
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := visit(name, run, b); err != nil {
				return err
			}
		}
	}
	return nil
}
