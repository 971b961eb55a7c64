// Package modbasetest holds what tests of modified bases need alike: random tags whose meaning is
// known before they are written, and pysam's reading of a file.
package modbasetest

import (
	"bytes"
	_ "embed"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/testenv"
)

// Text is what a call is in tests: place in the read as sequenced, base, strand, code, probability.
func Text(c modbase.Call) string {
	strand, base := 0, c.Base
	if c.Opposite {
		strand = 1
	}
	if base == 'U' {
		base = 'T' // as which pysam knows it
	}
	return fmt.Sprintf("%d:%c:%d:%s:%d", c.At, base, strand, c.Code, c.Probability)
}

// Texts are calls as sorted texts, of those in [start, end) as places of a read that begins at start.
func Texts(calls []modbase.Call, start, end int) []string {
	out := []string{}
	for _, c := range calls {
		if c.At >= start && c.At < end {
			c.At -= start
			out = append(out, Text(c))
		}
	}
	slices.Sort(out)
	return out
}

// Read is a random read and what its tags say.
type Read struct {
	Bases []byte // as sequenced
	MM    string
	ML    []byte // nil: none
	Calls []modbase.Call
}

// Random makes a read of n bases, some of them N, with tags as Tagged makes them.
func Random(rng *rand.Rand, n int) Read {
	bases := make([]byte, n)
	for i := range bases {
		if bases[i] = "ACGT"[rng.IntN(4)]; rng.IntN(60) == 0 {
			bases[i] = 'N'
		}
	}
	return Tagged(rng, bases)
}

// Tagged gives a read tags of up to four lists. They are written here from places that were
// chosen, not by the package that is tested.
func Tagged(rng *rand.Rand, bases []byte) Read {
	r := Read{Bases: bases}
	letters := []string{"m", "h", "f", "a", "g", "x", "mh", "hm", "afc", "76792", "21839", "C", "o"}
	var mm strings.Builder
	used := make(map[string]bool)
	withML := rng.IntN(8) > 0
	if withML {
		r.ML = []byte{}
	}
	for range rng.IntN(5) {
		base, strand, codes := "ACGTUN"[rng.IntN(6)], rng.IntN(2), letters[rng.IntN(len(letters))]
		split := strings.Split(codes, "")
		if codes[0] <= '9' {
			if !withML {
				continue // htslib 1.24 refuses an empty list of a number in a reversed record without ML
			}
			split = []string{codes}
		}
		in := base
		if in == 'U' {
			in = 'T'
		}
		taken := false
		for _, code := range split {
			taken = taken || used[fmt.Sprint(in, strand, code)]
		}
		if taken {
			continue
		}
		share, skipped := rng.IntN(5), 0
		var list strings.Builder
		fmt.Fprintf(&list, "%c%c%s%s", base, "+-"[strand], codes, []string{"", ".", "?"}[rng.IntN(3)])
		for at, b := range r.Bases {
			if b != in && in != 'N' {
				continue
			}
			if rng.IntN(4) >= share {
				skipped++
				continue
			}
			fmt.Fprintf(&list, ",%d", skipped)
			skipped = 0
			for _, code := range split {
				call := modbase.Call{At: at, Base: base, Opposite: strand == 1, Probability: -1}
				if number, err := strconv.Atoi(code); err == nil {
					call.Code = modbase.Code(-number)
				} else {
					call.Code = modbase.Code(code[0])
				}
				if withML {
					call.Probability = rng.IntN(256)
					r.ML = append(r.ML, byte(call.Probability))
				}
				r.Calls = append(r.Calls, call)
			}
		}
		for _, code := range split {
			used[fmt.Sprint(in, strand, code)] = true
		}
		mm.WriteString(list.String() + ";")
	}
	r.MM = mm.String()
	return r
}

// Tags are the read's tags as text of SAM, separated by tabs. MN is that of n bases; 0: there is none.
func (r *Read) Tags(n int) string {
	text := "MM:Z:" + r.MM
	if r.ML != nil {
		text += "\tML:B:C"
		for _, p := range r.ML {
			text += "," + strconv.Itoa(int(p))
		}
	}
	if n > 0 {
		text += "\tMN:i:" + strconv.Itoa(n)
	}
	return text
}

//go:embed modified.py
var script string

// Record is what pysam reads of a record.
type Record struct {
	Forward   []string // sorted texts of the calls, places in the read as sequenced
	Reference []string // sorted texts of those that are opposite a base of the reference, places there
}

// Pysam are the records of a SAM or BAM file by name, read by pysam.
func Pysam(tb testing.TB, path string) map[string]Record {
	tb.Helper()
	python := testenv.Python(tb, "PORESTREAM_SIGNAL_PYTHON", "pysam", "pysam")
	cmd := exec.CommandContext(tb.Context(), python, "-c", script, path)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		tb.Fatalf("pysam: %v\n%s", err, said.Bytes())
	}
	all := make(map[string]Record)
	for line := range strings.Lines(string(out)) {
		columns := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if _, twice := all[columns[0]]; twice {
			tb.Fatalf("pysam read %s twice", columns[0])
		}
		all[columns[0]] = Record{texts(columns[1]), texts(columns[2])}
	}
	return all
}

func texts(column string) []string {
	list := strings.Fields(column)
	slices.Sort(list)
	return append([]string{}, list...)
}
