package pileup

import "strconv"

// AppendBED appends a row as a line of bedMethyl (18 columns, as modkit writes it). Where there are several
// motifs, the name of the modification has the row's behind it.
func AppendBED(b []byte, contig string, r *Row, motifs []Motif) []byte {
	number := func(n int) { b = append(strconv.AppendInt(b, int64(n), 10), '\t') }
	b = append(append(b, contig...), '\t')
	first := len(b)
	number(r.Pos)
	number(r.Pos + 1)
	behind := len(b)
	b = append(b, r.Code.String()...)
	if len(motifs) > 1 {
		b = append(append(b, ','), motifs[r.Motif].String()...)
	}
	b = append(b, '\t')
	number(r.Valid())
	b = append(b, byte(r.Strand), '\t')
	b = append(b, b[first:behind]...) // where it is, once more
	b = append(b, "255,0,0\t"...)
	number(r.Valid())
	b = append(appendPercent(b, r), '\t')
	for _, n := range [...]int{r.Modified, r.Canonical, r.Other, r.Deleted, r.Failed, r.Different} {
		number(n)
	}
	return append(strconv.AppendInt(b, int64(r.Uncalled), 10), '\n')
}

// appendPercent appends how many of the calls are of the modification, in single precision as modkit has it.
func appendPercent(b []byte, r *Row) []byte {
	share := float32(r.Modified) / float32(r.Valid()) * 100
	return strconv.AppendFloat(b, float64(share), 'f', 2, 32)
}

// AppendBedGraph appends a row as a line of bedGraph, of which the value is the percentage of calls that are of
// the modification.
func AppendBedGraph(b []byte, contig string, r *Row) []byte {
	b = append(append(b, contig...), '\t')
	b = append(strconv.AppendInt(b, int64(r.Pos), 10), '\t')
	b = append(strconv.AppendInt(b, int64(r.Pos+1), 10), '\t')
	return append(appendPercent(b, r), '\n')
}
