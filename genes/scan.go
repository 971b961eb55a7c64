package genes

import "math"

// start is a place where a gene may begin.
type start struct {
	at   int32 // on the strand
	kind int8
	// The log odds of the codons behind it: by the genome's own genes, by genes of its GC content, and by which amino acids are near each
	// other in proteins.
	own, foreign, pairs float32
}

// frame is an open reading frame with all its starts: they share the stop.
type frame struct {
	stop   int32 // behind the stop codon, on the strand
	open   bool  // no stop: the frame leaves the sequence
	starts []start
}

// shortest is the least length of a gene in bases with its stop codon.
const shortest = 60

// compositions is the number of classes of GC content that genes which aren't like the genome's own are read by.
const compositions = 24

// tables hold the log odds of codons, between being in a gene and not.
type tables struct {
	// own is of a codon behind another in the genome's own genes, the first times 64 plus the second.
	own [codons * codons]float32
	// plain is of a codon behind another in the whole genome, against what is between its genes. Bases of other genes' other frames resemble
	// the genome.
	plain [codons * codons]float32
	// foreign is of codons as genes of a GC content have them, against bases of that content without order.
	// To the genome's own model, genes that came from elsewhere resemble the sequence between genes; to this
	// one they resemble genes.
	foreign [compositions][codons]float32
	// pairs is of an amino acid behind another at a distance, whatever the genome.
	pairs [separations][codons * codons]float32
	loose float32 // the least score of a frame that is considered
}

// separations is how far amino acids know of each other: the turns of helices and strands are within four.
const separations = 4

func compositionOf(gc float64) int { return min(int(gc*compositions), compositions-1) }

func (t *tables) foreigners(p *Prior, code *geneticCode) {
	for k := range t.foreign {
		gc := (float64(k) + .5) / compositions
		usage := p.usage(gc, code)
		plain := [4]float64{(1 - gc) / 2, gc / 2, gc / 2, (1 - gc) / 2}
		for i, share := range usage {
			if share == 0 {
				t.foreign[k][i] = -50
				continue
			}
			t.foreign[k][i] = float32(math.Log(share / (plain[i>>4] * plain[i>>2&3] * plain[i&3])))
		}
	}
}

// scanner finds the frames of a strand.
type scanner struct {
	s        []byte
	circular bool
	code     *geneticCode
	tables   *tables
	starts   []start // of the frame at hand; own is the sum up to there
	arena    []start
	frames   []frame
}

// scan finds the frames of one strand that are likelier in a gene than not, from one of their starts on.
func scan(s []byte, circular bool, code *geneticCode, t *tables) []frame {
	c := &scanner{s: s, circular: circular, code: code, tables: t}
	for phase := range 3 {
		c.phase(phase)
	}
	return c.frames
}

func (c *scanner) phase(phase int) {
	var sum float32
	last := -1
	c.starts = c.starts[:0]
	if !c.circular {
		c.starts = append(c.starts, start{at: int32(phase), kind: startOpen})
	}
	i := phase
	for ; i+3 <= len(c.s); i += 3 {
		codon := codonAt(c.s, i)
		if codon < 0 {
			last = -1
			continue
		}
		if c.code.stops(codon) {
			c.end(i+3, i, sum, false)
			c.starts, sum, last = c.starts[:0], 0, -1
			continue
		}
		if last >= 0 {
			sum += c.tables.own[last<<6|codon]
		}
		if kind := c.code.start[codon]; kind >= 0 {
			c.starts = append(c.starts, start{at: int32(i), kind: kind, own: sum})
		}
		last = codon
	}
	if !c.circular {
		c.end(i, i, sum, true)
	}
}

// end takes the frame that ends before stop, its codons before end.
func (c *scanner) end(stop, end int, sum float32, open bool) {
	n := 0
	for n < len(c.starts) && stop-int(c.starts[n].at) >= shortest {
		n++
	}
	if n == 0 {
		return
	}
	from := len(c.arena)
	c.arena = append(c.arena, c.starts[:n]...)
	kept := c.arena[from:len(c.arena):len(c.arena)]
	c.foreign(kept, end)
	best := float32(-1000)
	for k := range kept {
		kept[k].own = sum - kept[k].own
		best = max(best, kept[k].own, kept[k].foreign)
	}
	if best < c.tables.loose {
		c.arena = c.arena[:from]
		return
	}
	c.frames = append(c.frames, frame{stop: int32(stop), open: open, starts: kept})
}

// foreign sets the log odds of a frame's starts that don't depend on the genome.
func (c *scanner) foreign(starts []start, end int) {
	begin := int(starts[0].at)
	strong, known := 0, 1
	for _, b := range c.s[begin:end] {
		if b != unknown {
			known++
		}
		if b == 1 || b == 2 {
			strong++
		}
	}
	table := &c.tables.foreign[compositionOf(float64(strong)/float64(known))]
	var sum, pairs float32
	var behind [separations]int // codons behind the one at hand, the nearest first
	seen := 0
	k := len(starts) - 1
	for i := end - 3; i >= begin; i -= 3 {
		if codon := codonAt(c.s, i); codon >= 0 {
			sum += table[codon]
			for d := range min(seen, separations) {
				pairs += c.tables.pairs[d][codon<<6|behind[d]]
			}
			copy(behind[1:], behind[:])
			behind[0] = codon
			seen++
		} else {
			seen = 0
		}
		for k >= 0 && int(starts[k].at) == i {
			starts[k].foreign, starts[k].pairs = sum, pairs
			k--
		}
	}
}
