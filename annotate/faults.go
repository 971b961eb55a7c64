package annotate

import "fmt"

// FaultKind is a kind of fault in a gene model that is left out or repaired;
// docs/files/annotation.md describes the remedy for each. A fault that makes the
// whole model doubtful is an error of reading it instead.
type FaultKind uint8

// The kinds of faults.
const (
	UnknownContig FaultKind = iota
	MissingParent
	MissingGene
	DuplicateID
	NoStrand
	MixedStrands
	TransSplicing
	OverlappingExons
	OutsideExons
	OverlappingCDS
	WrongPhase
	CutCodon
	InnerStop
	UnknownException
	AddedStop
	NamedCode
	ExtraColumns
	faultKinds
)

// faultNames describe each fault and its remedy.
var faultNames = [faultKinds][2]string{
	UnknownContig:    {"a row on a contig that the reference does not have", "left out"},
	MissingParent:    {"an exon or CDS whose parent no row describes", "the row is left out"},
	MissingGene:      {"a transcript whose gene no row describes", "the transcript is its own gene"},
	DuplicateID:      {"an ID described twice", "the second row is left out, its parts go to the first"},
	NoStrand:         {"a transcript without a strand", "the transcript is left out"},
	MixedStrands:     {"parts of a transcript on both strands", "the transcript is left out"},
	TransSplicing:    {"trans-splicing, which is not supported", "the transcript is left out"},
	OverlappingExons: {"exons of a transcript that overlap", "the transcript is left out"},
	OutsideExons:     {"a CDS outside the exons of its transcript", "the transcript is left out"},
	OverlappingCDS:   {"CDS parts that overlap by more than three bases without ribosomal slippage", "the transcript is left out"},
	WrongPhase:       {"a CDS phase that does not fit the bases before it or the reading frame", "the bases are followed, the phase is not"},
	CutCodon:         {"a CDS that is not a multiple of three long and is not marked as incomplete", "kept; its last codon is incomplete"},
	InnerStop:        {"a stop codon inside a CDS", "kept; it reads as a stop"},
	UnknownException: {"a translation exception that is not understood", "the exception is left out"},
	AddedStop:        {"GTF without stop_codon rows", "a stop codon that follows the CDS in the transcript is added to it"},
	ExtraColumns:     {"a row of more than nine columns", "what is behind the ninth is left out"},
	NamedCode:        {"a mitochondrion or plastid without transl_table", "the genetic code that goes with the contig's name"},
}

// String describes the fault.
func (k FaultKind) String() string { return faultNames[k][0] }

// Remedy describes how the fault is handled.
func (k FaultKind) Remedy() string { return faultNames[k][1] }

// Fault counts the faults of one kind in a gene model.
type Fault struct {
	Kind  FaultKind
	Count int
	// Examples describe the first few, with the line of the file.
	Examples []string
}

// maxExamples bounds Fault.Examples.
const maxExamples = 3

// faults collects faults.
type faults [faultKinds]Fault

// note counts a fault and keeps its description if it is among the first of its kind.
func (f *faults) note(kind FaultKind, line int, format string, args ...any) {
	f.noteMany(kind, 1, line, format, args...)
}

// noteMany is note for n faults, one of them described; line 0 is none.
func (f *faults) noteMany(kind FaultKind, n, line int, format string, args ...any) {
	e := &f[kind]
	e.Kind = kind
	e.Count += n
	if len(e.Examples) == maxExamples {
		return
	}
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	e.Examples = append(e.Examples, text)
}

// list are the kinds that occurred.
func (f *faults) list() []Fault {
	var out []Fault
	for _, e := range f {
		if e.Count > 0 {
			out = append(out, e)
		}
	}
	return out
}

// Warnings describe all faults in a few lines for each kind.
func (m *Model) Warnings() []string {
	var out []string
	for _, f := range m.Faults {
		out = append(out, f.Examples...)
		if f.Count > len(f.Examples) {
			out = append(out, fmt.Sprintf("%d in all: %s (%s)", f.Count, f.Kind, f.Kind.Remedy()))
		}
	}
	return out
}
