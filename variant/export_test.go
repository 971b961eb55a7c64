package variant

import (
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/variant/varianttest"
)

// SetLimits makes batches of reads smaller than any test could fill, and has
// reads let go of from the first cull on.
func (r *Region) SetLimits(n, cull int) { r.reads.limit, r.reads.cull = n, cull }

// SetLimits does so for the region that is restored.
func (x *Restorer) SetLimits(n, cull int) { x.region.SetLimits(n, cull) }

// Dropped counts the reads of which only the key is left.
func (r *Region) Dropped() int {
	n := 0
	for i := range r.reads.table {
		if !r.reads.table[i].is(readKept | readUncertain) {
			n++
		}
	}
	return n
}

// LoadAll loads every tile as Finalize does, and calls nothing.
func (r *Region) LoadAll() {
	for t := range r.tiles {
		r.work.scratch.load(r, t)
	}
}

// HG002 is the segments of the HG002 slice, and its reference.
var HG002 = hg002

// DoseNetwork goes by doses. It knows the layout by numbers of its own, which are those of this package.
type DoseNetwork = varianttest.DoseNetwork

var _ = map[bool]bool{false: true, varianttest.Example == ExampleSize && varianttest.Doses == ExamplePlanes*ExampleColumns+scalarDoses &&
	varianttest.Copies == ScoreLength && varianttest.Scores == Scores: true}

// PackedBits is the size of the reads' bytes.
func (r *Region) PackedBits() (n int) {
	for i := range r.reads.batches {
		n += 8 * len(r.reads.batches[i].data)
	}
	return n
}

// Density is what is known of how dense the calls of a tile are.
type Density struct {
	Calls [2]int
	Bases int
}

// Dense is dense.
func Dense(around []Density) [2]float64 {
	var in []density
	for _, d := range around {
		in = append(in, density{d.Calls, d.Bases})
	}
	return dense(in)
}

// IsIndelExample reports whether an example is of an insertion or a deletion.
func IsIndelExample(example []float32) bool {
	return example[ExamplePlanes*ExampleColumns+scalarUnit] > 0
}

// SetMotifs makes r know motifs.
func (r *Region) SetMotifs(list ...*streampb.MotifError) {
	r.motifs.at = r.reads.kept
	for _, e := range list {
		m, err := motifOf(e)
		if err != nil {
			panic(err)
		}
		r.motifs.list = append(r.motifs.list, m)
	}
}

// FindMotifs searches for motifs, and returns how many there are.
func (r *Region) FindMotifs() int { return len(r.findMotifs().list) }
