package monitor

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/porestream/porestream/stream/streampb"
)

// contigKey is a contig in a sample.
type contigKey struct{ sample, contig string }

// contigDepth is what is known of the depth along a contig.
type contigDepth struct {
	order, length int
	regions       map[uint32]*regionDepth
}

// regionDepth is the newest report about a region.
type regionDepth struct {
	instance   string
	sequence   uint64
	at         int64 // Unix milliseconds
	start, end int
	bin        int
	depths     []uint16 // tenths
	models     []*streampb.ModelReads
}

func (v *View) addDepth(m *streampb.Status, d *streampb.DepthReport) {
	key := contigKey{d.GetSample(), d.GetContig()}
	c := v.contigs[key]
	if c == nil {
		c = &contigDepth{regions: make(map[uint32]*regionDepth)}
	}
	known := c.regions[d.GetRegion()]
	if known != nil && cmp.Or(cmp.Compare(known.at, m.GetTimeMs()), cmp.Compare(known.instance, m.GetInstance()), cmp.Compare(known.sequence, m.GetSequence())) >= 0 {
		return
	}
	grown := len(d.GetDepths())
	if known != nil {
		grown -= len(known.depths)
	}
	if v.bins+grown > v.limits.DepthBins {
		v.leftOut["depth"]++
		return
	}
	v.bins += grown
	r := &regionDepth{
		instance: m.GetInstance(), sequence: m.GetSequence(), at: m.GetTimeMs(),
		start: int(d.GetStart()), end: int(d.GetEnd()), bin: int(d.GetBin()), depths: make([]uint16, len(d.GetDepths())), models: d.GetModels(),
	}
	for i, x := range d.GetDepths() {
		r.depths[i] = uint16(min(x, 1<<16-1))
	}
	c.order, c.length = int(d.GetContigOrder()), int(d.GetContigLength())
	c.regions[d.GetRegion()] = r
	v.contigs[key] = c
	if known == nil || !slices.Equal(known.depths, r.depths) {
		v.unsent.depth[key] = true
	}
}

// overviewBins is at how many bins a contig is shown as a whole.
const overviewBins = 2000

// MaxZoomBins bounds the bins of a [DepthZoom].
const MaxZoomBins = 4000

// bins is the mean depth of [from, to) in n bins at most, none finer than what is
// known.
func (c *contigDepth) bins(from, to, n int) DepthBins {
	width := max(1, (to-from+n-1)/n)
	for _, r := range c.regions {
		if r.start < to && from < r.end {
			width = max(width, r.bin)
		}
	}
	out := DepthBins{From: from, Bin: width, Depths: make([]float64, (to-from+width-1)/width)}
	for _, r := range c.regions {
		first, last := max(r.start, from), min(r.end, to)
		for at := first; at < last; {
			i, b := (at-r.start)/r.bin, (at-from)/width
			end := min(last, r.start+(i+1)*r.bin, from+(b+1)*width)
			out.Depths[b] += float64(int(r.depths[i])*(end-at)) / 10
			at = end
		}
	}
	for b := range out.Depths {
		size := min(to, from+(b+1)*width) - (from + b*width)
		// Two decimals do for a picture, and keep the JSON short.
		out.Depths[b] = float64(int(out.Depths[b]/float64(size)*100+0.5)) / 100
	}
	return out
}

func (c *contigDepth) view(key contigKey) ContigDepth {
	view := ContigDepth{Sample: key.sample, Name: key.contig, Length: c.length, Order: c.order, DepthBins: c.bins(0, c.length, overviewBins)}
	covered := 0
	for i, d := range view.Depths {
		size := min(c.length, (i+1)*view.Bin) - i*view.Bin
		view.Mean += d * float64(size) / float64(c.length)
		if d > 0 {
			covered++
		}
	}
	if n := len(view.Depths); n > 0 {
		view.Covered = float64(covered) / float64(n)
	}
	return view
}

// Errors of questions about what is not there.
var (
	ErrNoContig  = errors.New("nothing is known of that contig in that sample")
	ErrNoVariant = errors.New("no variant with that id is shown")
)

// Zoom is the depth of positions [from, to) of a contig in n bins at most; to is cut
// to the contig's length, and 0 means that.
func (v *View) Zoom(sample, contig string, from, to, n int) (DepthZoom, error) {
	c := v.contigs[contigKey{sample, contig}]
	if c == nil {
		return DepthZoom{}, ErrNoContig
	}
	if to == 0 || to > c.length {
		to = c.length
	}
	from = min(max(from, 0), to-1)
	n = min(max(n, 1), MaxZoomBins)
	return DepthZoom{Sample: sample, Contig: contig, To: to, DepthBins: c.bins(from, to, n)}, nil
}

// Owner is the process that holds the reads over a position, 1-based, and where it
// can be asked for them.
type Owner struct {
	Instance string
	Address  string
	Host     string
	// Silent is the time since the last report of the process.
	Silent time.Duration
}

// OwnerOf is the owner of a position; false if it is not known.
func (v *View) OwnerOf(sample, contig string, pos int64, now time.Time) (Owner, bool) {
	c := v.contigs[contigKey{sample, contig}]
	if c == nil {
		return Owner{}, false
	}
	for _, r := range c.regions {
		if int64(r.start) < pos && pos <= int64(r.end) {
			o := Owner{Instance: r.instance}
			if p := v.processes[r.instance]; p != nil {
				o.Address, o.Host, o.Silent = p.report.GetAddress(), p.report.GetHost(), now.Sub(p.last())
			}
			return o, true
		}
	}
	return Owner{}, false
}
