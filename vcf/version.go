package vcf

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Version is a version of VCF to write, such as "4.2"; "" is the least that the file needs. It is a flag's value.
type Version string

// versions are those that can be written, and leastVersion is what every reader takes: htsjdk (IGV, GATK, Picard) refuses
// 4.4 and 4.5 up to its version 4.3.0.
var versions = []Version{"4.2", "4.3", "4.4", "4.5"}

const leastVersion Version = "4.2"

// String is the version.
func (v *Version) String() string { return string(*v) }

// Type names the value in help.
func (v *Version) Type() string { return "version" }

// Set reads a version.
func (v *Version) Set(s string) error {
	if !slices.Contains(versions, Version(s)) {
		return fmt.Errorf("%q: want 4.2, 4.3, 4.4 or 4.5", s)
	}
	*v = Version(s)
	return nil
}

// neededBy are the least version that can hold the header, and what needs it; "" if every version can. Records that
// are made here need nothing more than their header does.
func (h *Header) neededBy() (Version, string) {
	ascii := func(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 }
	for _, s := range h.Samples {
		if !ascii(s) {
			return "4.3", fmt.Sprintf("the sample name %q is not ASCII", s)
		}
	}
	for _, s := range h.Meta {
		if !ascii(s) && !strings.HasPrefix(s, needed) {
			return "4.3", fmt.Sprintf("%q is not ASCII", clip(s))
		}
	}
	return leastVersion, ""
}

// SetVersion makes the header, which NewHeader made, one of version v, or of the least version that it needs if that is higher or v is "". A line
// of the header says what needs more than 4.2. An error says why it can't be v; the header is of the higher version then.
func (h *Header) SetVersion(v Version) error {
	least, why := h.neededBy()
	var err error
	switch {
	case v == "":
		v = least
	case v < least:
		err = fmt.Errorf("VCF %s can't be written: %s, which needs VCF %s", v, why, least)
		v = least
	}
	h.Meta = slices.DeleteFunc(h.Meta, func(line string) bool { return strings.HasPrefix(line, needed) })
	h.Meta[0] = "##fileformat=VCFv" + string(v)
	if why != "" {
		h.Meta = slices.Insert(h.Meta, 1, needed+why)
	}
	return err
}

// needed begins the line that says why a file is not of the least version.
const needed = "##fileformat_needed_by="
