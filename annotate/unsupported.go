package annotate

import "errors"

// Reason is why an alternate allele has no consequences of its own.
type Reason uint8

// The reasons.
const (
	AnotherRecord Reason = iota // "*": the deletion is described by another record
	AnyAllele                   // "<*>", "<NON_REF>": whatever other allele there may be
	UnknownType                 // symbolic, of a type that is not known
	NoExtent                    // neither END nor SVLEN
	BadExtent                   // ends before it begins, or outside the contig
	TooLong                     // longer than the limit for annotation
	NoAllele                    // neither bases nor symbolic
	reasonCount
)

// String says the reason in a few words.
func (r Reason) String() string {
	return [reasonCount]string{
		AnotherRecord: "described by another record (*)",
		AnyAllele:     "for any other allele (<*>, <NON_REF>)",
		UnknownType:   "of an unknown symbolic type",
		NoExtent:      "with neither END nor SVLEN",
		BadExtent:     "with an end before the start or outside the contig",
		TooLong:       "too long",
		NoAllele:      "neither bases nor symbolic",
	}[r]
}

// unsupportedError is the error for an alternate allele without consequences.
type unsupportedError struct {
	reason Reason
	detail string
}

func (e *unsupportedError) Error() string { return e.detail + ": " + ErrUnsupportedAllele.Error() }

// Unwrap makes the error one of ErrUnsupportedAllele.
func (e *unsupportedError) Unwrap() error { return ErrUnsupportedAllele }

// Those that are frequent in files.
var (
	errAnotherRecord = &unsupportedError{AnotherRecord, `"*" stands for a deletion that another record describes`}
	errAnyAllele     = &unsupportedError{AnyAllele, "it stands for any other allele"}
)

// reasonOf is the reason of an error that wraps ErrUnsupportedAllele.
func reasonOf(err error) Reason {
	if e, ok := errors.AsType[*unsupportedError](err); ok {
		return e.reason
	}
	return NoAllele
}

// Unsupported counts alternate alleles without consequences by reason.
type Unsupported [reasonCount]int

// Total is the number of all of them.
func (u Unsupported) Total() int {
	n := 0
	for _, k := range u {
		n += k
	}
	return n
}
