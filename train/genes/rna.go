package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
)

// geneOfRNA is a row of rRNA or tRNA.
type geneOfRNA struct {
	contig, kind, product string
	reverse               bool
	low, high             int
}

// loadRNA reads the genes of ribosomal and transfer RNA of GFF3.
func loadRNA(path string) ([]geneOfRNA, error) {
	var list []geneOfRNA
	err := eachRow(path, func(column []string) (err error) {
		if column[2] != "rRNA" && column[2] != "tRNA" {
			return nil
		}
		g := geneOfRNA{contig: column[0], kind: column[2], reverse: column[6] == "-"}
		if g.low, err = strconv.Atoi(column[3]); err != nil {
			return err
		}
		if g.high, err = strconv.Atoi(column[4]); err != nil {
			return err
		}
		for _, a := range strings.Split(column[8], ";") {
			if value, ok := strings.CutPrefix(a, "product="); ok {
				g.product = value
			}
		}
		if g.product == "" && g.kind == "rRNA" {
			g.product = ribosomalByLength(g.high - g.low + 1)
		}
		list = append(list, g)
		return nil
	})
	return list, err
}

// ribosomalByLength is what ribosomal RNA is where the annotation doesn't say: Ensembl Bacteria has no products.
func ribosomalByLength(n int) string {
	switch {
	case n > 2000:
		return "23S ribosomal RNA"
	case n > 1000:
		return "16S ribosomal RNA"
	}
	return "5S ribosomal RNA"
}

// nearEnds is how many bases both ends of an RNA gene may be off to count as right.
const nearEnds = 5

// compareRNA counts for each kind the genes of the truth, those found, those of them that share most of their bases with one of the truth, with the same
// product (where both name one), and with both ends within five bases.
func compareRNA(truthPath, foundPath string, out io.Writer) error {
	truth, found, err := both(loadRNA, truthPath, foundPath)
	if err != nil {
		return err
	}
	for _, kind := range []string{"rRNA", "tRNA"} {
		var known, calls, hits, named, ends int
		for _, g := range truth {
			if g.kind == kind {
				known++
			}
		}
		for _, g := range found {
			if g.kind != kind {
				continue
			}
			calls++
			for _, t := range truth {
				shared := min(g.high, t.high) - max(g.low, t.low) + 1
				if t.kind != kind || t.contig != g.contig || t.reverse != g.reverse || 5*shared < 4*max(g.high-g.low+1, t.high-t.low+1) {
					continue
				}
				hits++
				if t.product == g.product {
					named++
				}
				if max(g.low-t.low, t.low-g.low) <= nearEnds && max(g.high-t.high, t.high-g.high) <= nearEnds {
					ends++
				}
				break
			}
		}
		if _, err := fmt.Fprintf(out, "%s\t%d\t%d\t%d\t%d\t%d\n", kind, known, calls, hits, named, ends); err != nil {
			return err
		}
	}
	return nil
}
