package report

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/vcf"
)

// bins is how many columns the picture of a contig's depth has at most.
const bins = 240

// maxContigs bounds the pictures of a sample; the longest contigs have one.
const maxContigs = 24

// shallow is the depth below which positions are counted: the default of panels' depth and of callable regions.
const shallow = 10

// coverage is the depth of a sample over the reference.
type coverage struct{ contigs []*contigDepth }

// contigDepth is the depth over one contig.
type contigDepth struct {
	name     string
	length   int
	sums     [bins]float64 // of depths
	known    [bins]int     // positions with a record
	counts   []int         // positions by depth; the last counts what is deeper
	recorded int           // positions with a record
}

const deepest = 1 << 12

// readDepth reads the depth of a gVCF's blocks and calls.
func readDepth(path string) (*coverage, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading results: %w", err)
	}
	defer f.Close()
	c, err := depthOf(bufio.NewReaderSize(f, 1<<18))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func depthOf(from io.Reader) (*coverage, error) {
	r, err := vcf.NewReader(from)
	if err != nil {
		return nil, err
	}
	c := new(coverage)
	byName := make(map[string]*contigDepth)
	for _, contig := range r.Header().Contigs() {
		if contig.Length > 0 && byName[contig.Name] == nil {
			d := &contigDepth{name: contig.Name, length: contig.Length, counts: make([]int, deepest+1)}
			c.contigs, byName[contig.Name] = append(c.contigs, d), d
		}
	}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		d := byName[rec.Chrom]
		depth, ok := depthIn(rec)
		if d == nil || !ok {
			continue
		}
		end := rec.Pos + len(rec.Ref) - 1
		if text, has := rec.Info.Get("END"); has {
			if end, err = strconv.Atoi(text); err != nil {
				return nil, fmt.Errorf("line %d: END=%q is no position", rec.Line(), text)
			}
		}
		d.add(rec.Pos-1, min(end, d.length), depth)
	}
	slices.SortStableFunc(c.contigs, func(a, b *contigDepth) int { return b.length - a.length })
	return c, nil
}

// depthIn is the least depth that a record states.
func depthIn(rec *vcf.Record) (int, bool) {
	if len(rec.Samples) == 0 {
		return 0, false
	}
	for _, key := range []string{"MIN_DP", "DP"} {
		i := slices.Index(rec.Format, key)
		if i < 0 || i >= len(rec.Samples[0]) {
			continue
		}
		if n, err := strconv.Atoi(rec.Samples[0][i]); err == nil && n >= 0 {
			return n, true
		}
	}
	return 0, false
}

// bins is how many columns the picture has: none is less than a base.
func (d *contigDepth) bins() int { return max(1, min(bins, d.length)) }

func (d *contigDepth) add(start, end, depth int) {
	if start < 0 || end <= start {
		return
	}
	d.counts[min(depth, deepest)] += end - start
	d.recorded += end - start
	for at := start; at < end; {
		bin := at * d.bins() / d.length
		stop := min(end, ((bin+1)*d.length+d.bins()-1)/d.bins())
		d.sums[bin] += float64(depth) * float64(stop-at)
		d.known[bin] += stop - at
		at = stop
	}
}

// quantile is the depth that a share of the positions doesn't reach over.
func (d *contigDepth) quantile(q float64) int {
	if d.recorded == 0 {
		return 0
	}
	rest := int(q * float64(d.recorded))
	for depth, n := range d.counts {
		if rest < n {
			return depth
		}
		rest -= n
	}
	return deepest
}

// below is how many positions are less deep; positions without a record have no depth.
func (d *contigDepth) below(depth int) int {
	n := max(0, d.length-d.recorded)
	for _, c := range d.counts[:depth] {
		n += c
	}
	return n
}

// Size of a picture of depth, in its own units.
const (
	pictureWidth  = 720
	pictureHeight = 90
)

// path is the outline of the depth in a picture whose top is most.
func (d *contigDepth) path(most float64) string {
	var b strings.Builder
	b.WriteString("M0 " + strconv.Itoa(pictureHeight))
	for i := range d.bins() {
		mean := 0.0
		if d.known[i] > 0 {
			mean = d.sums[i] / float64(d.known[i])
		}
		y := strconv.FormatFloat(pictureHeight*(1-min(1, mean/most)), 'f', 1, 64)
		fmt.Fprintf(&b, "L%d %sL%d %s", i*pictureWidth/d.bins(), y, (i+1)*pictureWidth/d.bins(), y)
	}
	fmt.Fprintf(&b, "L%d %dZ", pictureWidth, pictureHeight)
	return b.String()
}

// top is the depth of the deepest column.
func (d *contigDepth) top() float64 {
	top := 1.0
	for i := range d.bins() {
		if d.known[i] > 0 {
			top = max(top, d.sums[i]/float64(d.known[i]))
		}
	}
	return top
}
