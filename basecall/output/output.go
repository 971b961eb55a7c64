package output

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/porestream/porestream/align"
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/signal"
)

// Format is a file format.
type Format uint8

// The formats.
const (
	FASTQ Format = iota
	SAM
	BAM
)

// ParseFormat returns the format that a user named.
func ParseFormat(name string) (Format, error) {
	for f, known := range []string{FASTQ: "fastq", SAM: "sam", BAM: "bam"} {
		if name == known {
			return Format(f), nil
		}
	}
	return 0, fmt.Errorf("format %q is none of fastq, sam, bam", name)
}

// Header describes what a file holds.
type Header struct {
	Model      *basecall.Model
	Runs       []*signal.Run // every run that has reads in the file
	Program    Program       // what basecalled the reads
	Device     string        // on which, see basecall.Caller.Device
	Aligner    *Program      // what aligned them; nil if nothing did
	References []Reference   // sequences they were aligned to
	// Barcodes lists the barcodes that reads of a run may have; nil if reads have none.
	Barcodes func(*signal.Run) []Barcode
	// ModifiedModels are the models that called modified bases; none: nobody has.
	ModifiedModels []string
	// NoMoves leaves out the tag mv, which says where in the signal each base is.
	NoMoves bool
}

// Program is one program of the chain that made a file.
type Program struct {
	Name, Version, CommandLine string
}

// Reference is a sequence that reads are aligned to.
type Reference struct {
	Name   string
	Length int
}

// Record is one basecalled read.
type Record struct {
	Read   *signal.Read // its samples aren't used
	Called basecall.Called
	File   string // name of the file that the signal came from; may be empty
	// Alignments holds the primary alignment first; empty for an unaligned read.
	Alignments []align.Alignment
	// Barcode is the read's barcode; nil if none was searched for.
	Barcode *Barcode
	// Parent is the id of the read that this one is a part of, empty for a whole read,
	// and ParentStart the sample of that read at which it begins.
	Parent      string
	ParentStart int
	// Modified is what is said of modified bases; nil: nothing.
	Modified *modbase.Tags
}

// Writer writes records. It is not safe for concurrent use.
type Writer interface {
	// Write writes one read.
	Write(Record) error
	// Close completes the file. It doesn't close what lies below.
	Close() error
}

// NewWriter returns a writer of the given format.
func NewWriter(w io.Writer, format Format, header Header) (Writer, error) {
	switch format {
	case FASTQ:
		return newFASTQWriter(w, header)
	case SAM, BAM:
		return newHTSWriter(w, format, header)
	default:
		return nil, fmt.Errorf("format %d is unknown", format)
	}
}

// clean replaces what would break a line of tab-separated fields.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, text)
}

// timestamp formats an instant as the tag st has it; empty for none.
func timestamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
