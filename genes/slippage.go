package genes

import (
	"bytes"

	"github.com/porestream/porestream/genes/rna"
)

// Viruses of eukaryotes have part of their ribosomes slip back by one base, on seven bases that pair as well one base before. What follows is read in
// another frame, and one long protein has the beginning of one frame and the end of another.
//
// These are the sites whose use is well known: of coronaviruses and other nidoviruses, of lentiviruses, and of astroviruses and some retroviruses. The last
// three bases are a codon of the frame that is left.
var slippery = [][]byte{encode([]byte("TTTAAAC")), encode([]byte("TTTTTTA")), encode([]byte("AAAAAAC"))}

const (
	// slipReach is how many bases before the stop of the first frame the site lies at most.
	slipReach = 300
	// slipLength is the least length of both frames: these proteins are polyproteins.
	slipLength = 600
)

// slip joins a gene to the one before it where the ribosome can slip from one into the other. Genes are in the order of their places.
func (f *finder) slip(list []Gene, of map[int]*piece) {
	for i := range list {
		for j := max(0, i-1); j < min(len(list), i+2); j++ {
			a, b := &list[i], &list[j]
			if i == j || a.Contig != b.Contig || a.Reverse != b.Reverse || a.Slips || b.Slips {
				continue
			}
			if min(a.End-a.Start, b.End-b.Start) < slipLength {
				continue
			}
			if p := of[a.Contig]; p != nil && !p.circular {
				f.join(p, a, b)
			}
		}
	}
}

// join makes b the protein that begins as a does, if there is a site in a from which b's frame is open to its stop.
func (f *finder) join(p *piece, a, b *Gene) {
	s := p.forward
	if p.flipped {
		s = p.reverse
	}
	// Both genes on their strand.
	n, strand := len(s), s
	start, stop, end := a.Start-p.offset, a.End-p.offset, b.End-p.offset
	if a.Reverse {
		strand = rna.Complemented(s)
		start, stop, end = n-a.End+p.offset, n-a.Start+p.offset, n-b.Start+p.offset
	}
	if end <= stop {
		return
	}
	for at := max(start+3, stop-3-slipReach); at+7 <= stop-3; at++ {
		joint := at + 6 // the base that is read twice
		if (joint+1-start)%3 != 0 || (end-joint)%3 != 0 || !isSlippery(strand[at:at+7]) || !f.open(strand[joint:end-3]) {
			continue
		}
		b.Slips, b.Joint = true, joint+p.offset
		b.StartCodon, b.Site, b.StartPosterior = a.StartCodon, a.Site, a.StartPosterior
		if a.Reverse {
			b.Joint = n - 1 - joint + p.offset
			b.End = a.End
			b.OpenHigh = a.OpenHigh
		} else {
			b.Start = a.Start
			b.OpenLow = a.OpenLow
		}
		return
	}
}

func isSlippery(s []byte) bool {
	for _, site := range slippery {
		if bytes.Equal(site, s) {
			return true
		}
	}
	return false
}

// open reports whether no codon of a stretch is a stop.
func (f *finder) open(s []byte) bool {
	_, stops := f.code.ends(s, 0)
	return !stops
}
