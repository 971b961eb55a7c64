package phase

import (
	"cmp"
	"slices"
)

// graph is sites tied together by reads, and the sites' orientations.
type graph struct {
	sites []int  // which sites these are, ascending
	turn  []int8 // per site: 1, haplotype 1 carries the second allele; -1, the first
	reads []read // by first site, then by what they show
}

// read is a read of a graph.
type read struct {
	entries []entry // by site
	sum     int64   // of turn * llr: positive, the read is of haplotype 1
}

// entry is what a read shows at a site of its graph.
type entry struct {
	site int // index in graph.sites
	llr  int64
}

func (r *read) first() int { return r.entries[0].site }
func (r *read) last() int  { return r.entries[len(r.entries)-1].site }

// newGraph is all sites and reads, not oriented yet and perhaps not connected.
func newGraph(sites int, reads []Read) *graph {
	g := &graph{sites: make([]int, sites), turn: make([]int8, sites), reads: make([]read, len(reads))}
	for i := range sites {
		g.sites[i], g.turn[i] = i, -1
	}
	for i, r := range reads {
		for _, o := range r {
			g.reads[i].entries = append(g.reads[i].entries, entry{o.Site, int64(o.LLR)})
		}
	}
	return g
}

// dropped is the part of a site that no graph gets.
const dropped = -1

// divide gives the connected graphs of two and more sites that remain when only
// sites of the same part are tied, by first site.
func (g *graph) divide(part []int) []*graph {
	parent := make([]int, len(g.sites))
	for i := range parent {
		parent[i] = i
	}
	find := func(s int) int {
		for parent[s] != s {
			parent[s] = parent[parent[s]]
			s = parent[s]
		}
		return s
	}
	var pieces [][]entry // of reads, each of one part
	for i := range g.reads {
		rest := slices.DeleteFunc(slices.Clone(g.reads[i].entries), func(e entry) bool { return part[e.site] == dropped })
		for len(rest) > 0 {
			n := 1
			for n < len(rest) && part[rest[n].site] == part[rest[0].site] {
				n++
			}
			if n > 1 {
				pieces = append(pieces, rest[:n])
			}
			rest = rest[n:]
		}
	}
	for _, p := range pieces {
		root := find(p[0].site)
		for _, e := range p[1:] {
			s := find(e.site)
			root, s = min(root, s), max(root, s)
			parent[s] = root // the first site is the root
		}
	}

	var out []*graph
	home := make([]*graph, len(g.sites)) // by root
	local := make([]int, len(g.sites))
	size := make([]int, len(g.sites))
	for i := range g.sites {
		size[find(i)]++
	}
	for i := range g.sites {
		root := find(i)
		if size[root] < 2 {
			continue
		}
		if home[root] == nil {
			home[root] = &graph{}
			out = append(out, home[root])
		}
		h := home[root]
		local[i] = len(h.sites)
		h.sites = append(h.sites, g.sites[i])
		h.turn = append(h.turn, g.turn[i])
	}
	for _, p := range pieces {
		h := home[find(p[0].site)]
		entries := make([]entry, len(p))
		for i, e := range p {
			entries[i] = entry{local[e.site], e.llr}
		}
		h.reads = append(h.reads, read{entries: entries})
	}
	for _, h := range out {
		slices.SortStableFunc(h.reads, func(a, b read) int { return cmp.Compare(a.first(), b.first()) })
	}
	return out
}
