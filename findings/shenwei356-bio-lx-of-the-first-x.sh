#!/usr/bin/env bash
# One would guess: LX(x) of LengthStats in the Go library shenwei356/bio, beside NX(x), is the number of the longest sequences that hold x
# per cent of all bases, for the x that is asked, and L50() that of the sequences that are there now, as N50() is.
# What happens: LX keeps the first number that it has found and gives it for any other x: L90 is L50, and so is L10, unless NX of that x was
# asked last, whose number it gives then. L50() after more sequences gives the old number if anything has put the lengths in order since,
# as Median(), Q1() or N90 do. NX, N50 and the median are right. No error. github.com/shenwei356/bio 0.15.2.
# Who is hurt: who reports assemblies or runs in Go with L50 and L90 beside N50 and N90, or as the run goes on: an assembly looks as if a
# third of its contigs held 90 per cent of it, and one that falls to pieces as if it had as few as before.
set -euo pipefail
command -v go >/dev/null || { echo "$0: go is missing (https://go.dev/dl)" >&2; exit 1; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
cat >try.go <<'GO'
package main

import (
	"fmt"
	"sort"

	"github.com/shenwei356/bio/util"
)

// byHand returns NX and LX: the length of the last of the longest sequences that hold x per cent of the bases, and their number.
func byHand(lengths []uint64, x float64) (uint64, int) {
	sorted := append([]uint64{}, lengths...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i] > sorted[j] })
	var all, held uint64
	for _, l := range sorted {
		all += l
	}
	for i, l := range sorted {
		held += l
		if float64(held) >= float64(all)*x/100 {
			return l, i + 1
		}
	}
	return 0, 0
}

func stats(lengths []uint64) *util.LengthStats {
	s := util.NewLengthStats()
	for _, l := range lengths {
		s.Add(l)
	}
	return s
}

func main() {
	var contigs []uint64
	for l := uint64(1); l <= 100; l++ {
		contigs = append(contigs, 1000*l)
	}
	one, nBefore, lAlone := stats(contigs), stats(contigs), stats(contigs)
	fmt.Println("x  by hand  a new LengthStats  NX before LX  LX alone  NX")
	for _, x := range []float64{50, 90, 10} {
		n, l := byHand(contigs, x)
		told := nBefore.NX(x)
		fmt.Println(x, l, stats(contigs).LX(x), nBefore.LX(x), lAlone.LX(x), told == n)
	}

	fmt.Println("L50 of 100 contigs:", one.L50())
	for range 100 {
		one.Add(30000)
		contigs = append(contigs, 30000)
	}
	_, l := byHand(contigs, 50)
	fmt.Printf("100 contigs more: median %v, L50 %d, by hand %d, of a new LengthStats %d\n", one.Median(), one.L50(), l, stats(contigs).L50())
	n, _ := byHand(contigs, 50)
	fmt.Printf("N50 %d, by hand %d, L50 after that %d\n", one.N50(), n, one.L50())
}
GO
cat >go.mod <<'MOD'
module finding

go 1.22

require github.com/shenwei356/bio v0.15.2
MOD
go build -mod=mod -o try . 2>build || { cat build >&2; exit 1; }
./try | tee seen
cat >expected <<'EXPECTED'
x  by hand  a new LengthStats  NX before LX  LX alone  NX
50 30 30 30 30 true
90 69 69 69 30 true
10 6 6 6 30 true
L50 of 100 contigs: 30
100 contigs more: median 30000, L50 30, by hand 56, of a new LengthStats 56
N50 45000, by hand 45000, L50 after that 56
EXPECTED
if ! diff expected seen; then
	echo "shenwei356/bio behaves otherwise by now" >&2
	exit 1
fi
