package score

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/porestream/porestream/modelfile/folder"
)

// FormatVersion is the version of the manifest that this package reads.
const FormatVersion = 1

// RuleName says how two outputs are combined.
type RuleName string

// The rules.
const (
	Splice          RuleName = "splice"           // SpliceAI's delta scores
	Difference      RuleName = "difference"       // of outputs, alternative less reference
	LogitDifference RuleName = "logit-difference" // of the logits of outputs, which are probabilities
)

// Strand says which strand a network reads.
type Strand string

// The strands.
const (
	GeneStrand    Strand = "gene"    // the gene's, whichever that is
	ForwardStrand Strand = "forward" // the reference's
	BothStrands   Strand = "both"    // both, and the outputs' mean
)

// Layouts of a network's ends: which axis is the batch (N), the length or the bins of a window (L), and the channels (C).
const (
	LengthFirst   = "NLC"
	ChannelsFirst = "NCL"
	NoBins        = "NC" // an output for the window as a whole
)

// Letters that a network doesn't know.
const (
	UnknownZero    = "zero"    // no channel is set
	UnknownQuarter = "quarter" // each channel is a quarter
)

// Limits on what a manifest may ask for.
const (
	maxLength   = 1 << 21
	maxOutputs  = 1 << 26
	maxNetworks = 64
	maxTracks   = 4096
	maxDistance = 4999 // SpliceAI's own
	maxText     = 1 << 16
)

// Manifest is the file beside networks that says how to use them.
type Manifest struct {
	Format      int      `toml:"format"` // FormatVersion
	Kind        string   `toml:"kind"`   // "sequence"
	Name        string   `toml:"name"`
	Version     string   `toml:"version"`
	Description string   `toml:"description,omitempty"`
	Rule        RuleName `toml:"rule"`
	// Info is the key of the scores in INFO of a VCF.
	Info string `toml:"info"`
	// Licence is the licence's name, and LicenceText the text shown to users.
	Licence     string         `toml:"licence"`
	LicenceText string         `toml:"licence_text"`
	Input       InputManifest  `toml:"input"`
	Output      OutputManifest `toml:"output"`
	Splice      SpliceManifest `toml:"splice"`
	Tracks      []Track        `toml:"tracks,omitempty"`
	// Networks are one file, or several whose outputs are averaged.
	Networks []NetworkFile `toml:"networks"`
}

// InputManifest describes the input: float32, a one for a base's channel, zeros else.
type InputManifest struct {
	Name     string `toml:"name"`
	Layout   string `toml:"layout"`   // LengthFirst or ChannelsFirst
	Channels string `toml:"channels"` // which base each channel is, such as "ACGT"
	Unknown  string `toml:"unknown"`  // UnknownZero or UnknownQuarter: N, and all other letters that are no base
	Strand   Strand `toml:"strand"`
	// Context is how many bases of a window, half on each side, a network by the rule splice has no output for.
	Context int `toml:"context,omitempty"`
	// Length is that of a window by the other rules.
	Length int `toml:"length,omitempty"`
}

// OutputManifest describes the output, float32.
type OutputManifest struct {
	Name   string `toml:"name"`
	Layout string `toml:"layout"` // LengthFirst, ChannelsFirst or NoBins
	// Channels are by the rule splice what they are probabilities of: some order of neither, acceptor and donor.
	Channels []string `toml:"channels,omitempty"`
	// Count is the number of channels by the other rules, and Bins how many stretches of the window have them.
	Count int `toml:"count,omitempty"`
	Bins  int `toml:"bins,omitempty"`
}

// SpliceManifest has what the rule splice leaves open.
type SpliceManifest struct {
	Distance int `toml:"distance,omitempty"` // bases on both sides of a variant that are scored; 0: 50
	// Mask takes gains at sites that are annotated, and losses at those that aren't, for nothing.
	Mask bool `toml:"mask,omitempty"`
}

// Track is a name for some outputs.
type Track struct {
	Name    string `toml:"name"`
	Outputs string `toml:"outputs"`           // channels from 0, such as "0-99,205"
	Bins    string `toml:"bins,omitempty"`    // likewise; all without it
	Combine string `toml:"combine,omitempty"` // "sum" (also "") or "mean" of the outputs' changes
}

// NetworkFile is an ONNX file.
type NetworkFile struct {
	File   string `toml:"file"` // relative to the manifest
	SHA256 string `toml:"sha256"`
}

// Distance is how many bases on both sides of a variant the rule splice scores.
func (m *Manifest) Distance() int {
	if m.Splice.Distance == 0 {
		return 50
	}
	return m.Splice.Distance
}

// WindowLength is the number of bases of a window.
func (m *Manifest) WindowLength() int {
	if m.Rule == Splice {
		return m.Input.Context + m.positions()
	}
	return m.Input.Length
}

// positions is the number of positions, or bins, that a window has outputs for.
func (m *Manifest) positions() int {
	if m.Rule == Splice {
		return 2*m.Distance() + 1
	}
	return m.Output.Bins
}

// channels is the number of outputs of a position.
func (m *Manifest) channels() int {
	if m.Rule == Splice {
		return len(m.Output.Channels)
	}
	return m.Output.Count
}

// OutputLength is the number of outputs of a window.
func (m *Manifest) OutputLength() int { return m.positions() * m.channels() }

// InputShape is the shape of the input behind the batch.
func (m *Manifest) InputShape() []int { return shape(m.Input.Layout, m.WindowLength(), 4) }

// OutputShape is the shape of the output behind the batch.
func (m *Manifest) OutputShape() []int {
	return shape(m.Output.Layout, m.positions(), m.channels())
}

func shape(layout string, length, channels int) []int {
	switch layout {
	case ChannelsFirst:
		return []int{channels, length}
	case NoBins:
		return []int{channels}
	}
	return []int{length, channels}
}

// LoadManifest reads the manifest of the networks at the root of a file system.
func LoadManifest(fsys fs.FS) (Manifest, error) {
	text, err := folder.ReadManifest(fsys)
	if err != nil {
		return Manifest{}, err
	}
	m, err := ParseManifest(text)
	if err != nil {
		return Manifest{}, fmt.Errorf("%s: %w", folder.Manifest, err)
	}
	return m, nil
}

// ParseManifest parses a manifest. The error of one that makes no sense lists everything that is wrong with it.
func ParseManifest(text []byte) (Manifest, error) {
	var m Manifest
	if err := folder.Decode(text, folder.Sequence, &m); err != nil {
		return Manifest{}, err
	}
	if err := m.validate(); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

var (
	infoKey   = regexp.MustCompile(`^[A-Za-z_][0-9A-Za-z_.]*$`)
	plainName = regexp.MustCompile(`^[0-9A-Za-z][0-9A-Za-z_.+-]*$`)
	// takenKeys are those of INFO that the VCF specification reserves for other types, and that annotations are written under.
	takenKeys = []string{
		"AA", "AC", "AD", "ADF", "ADR", "AF", "AN", "BQ", "CIGAR", "DB", "DP", "END", "H2", "H3", "MQ", "MQ0", "NS", "SB", "SOMATIC", "VALIDATED", "1000G",
		"IMPRECISE", "NOVEL", "SVTYPE", "SVLEN", "CIPOS", "CIEND", "HOMLEN", "HOMSEQ", "BKPTID", "MEINFO", "METRANS", "DGVID", "DBVARID", "DBRIPID", "MATEID",
		"PARID", "EVENT", "CILEN", "DPADJ", "CN", "CNADJ", "CICN", "CICNADJ", "CSQ", "ANN", "BCSQ",
	}
	spliceKeys = []string{"neither", "acceptor", "donor"}
)

func (m *Manifest) validate() error {
	if m.Format != FormatVersion {
		return fmt.Errorf("format = %d is not one that this version reads (%d)", m.Format, FormatVersion)
	}
	var faults folder.Faults
	faults.Check(plainName.MatchString(m.Name) && len(m.Name) <= 128, "name = %q is no word of letters, digits, dots and dashes", m.Name)
	faults.Check(infoKey.MatchString(m.Info) && len(m.Info) <= 128, "info = %q is no key of INFO, such as SpliceAI", m.Info)
	faults.Check(!slices.Contains(takenKeys, m.Info), "info = %q is a key that VCF or annotations have: take another, such as SpliceAI", m.Info)
	faults.Check(m.Licence != "", "licence is missing: what may others do with the network?")
	faults.Check(len(m.LicenceText) <= maxText, "licence_text has %d bytes, more than %d", len(m.LicenceText), maxText)
	faults.Check(m.Input.Name != "", "input.name is missing")
	faults.Check(m.Output.Name != "", "output.name is missing")
	faults.Check(m.Input.Layout == LengthFirst || m.Input.Layout == ChannelsFirst, "input.layout = %q is neither NLC nor NCL", m.Input.Layout)
	channels := []byte(m.Input.Channels)
	slices.Sort(channels)
	faults.Check(string(channels) == "ACGT", "input.channels = %q is no order of A, C, G, T", m.Input.Channels)
	faults.Check(m.Input.Unknown == UnknownZero || m.Input.Unknown == UnknownQuarter, "input.unknown = %q is neither zero nor quarter", m.Input.Unknown)
	switch m.Rule {
	case Splice:
		m.validateSplice(&faults)
	case Difference, LogitDifference:
		m.validateTracks(&faults)
	default:
		faults.Check(false, "rule = %q is none of %s, %s and %s", m.Rule, Splice, Difference, LogitDifference)
	}
	faults.Check(len(m.Networks) > 0 && len(m.Networks) <= maxNetworks, "there are %d [[networks]]: want 1 to %d", len(m.Networks), maxNetworks)
	for i, n := range m.Networks {
		faults.CheckFile(fmt.Sprintf("networks[%d].file", i), n.File, fmt.Sprintf("networks[%d].sha256", i), n.SHA256)
	}
	return faults.Err()
}

func (m *Manifest) validateSplice(faults *folder.Faults) {
	faults.Check(m.Input.Strand == GeneStrand, "input.strand = %q: the rule splice reads the strand of the gene", m.Input.Strand)
	faults.Check(m.Input.Context >= 0 && m.Input.Context%2 == 0 && m.Input.Context <= maxLength, "input.context = %d is no even number of bases up to %d", m.Input.Context, maxLength)
	faults.Check(m.Input.Length == 0, "input.length has no meaning by the rule splice: a window has context and twice the distance")
	faults.Check(m.Output.Layout == LengthFirst || m.Output.Layout == ChannelsFirst, "output.layout = %q is neither NLC nor NCL", m.Output.Layout)
	have, want := slices.Sorted(slices.Values(m.Output.Channels)), slices.Sorted(slices.Values(spliceKeys))
	faults.Check(slices.Equal(have, want), "output.channels = %q is no order of neither, acceptor, donor", m.Output.Channels)
	faults.Check(m.Splice.Distance >= 0 && m.Splice.Distance <= maxDistance, "splice.distance = %d is not between 1 and %d", m.Splice.Distance, maxDistance)
	faults.Check(len(m.Tracks) == 0, "[[tracks]] have no meaning by the rule splice")
	faults.Check(m.Output.Count == 0 && m.Output.Bins == 0, "output.count and output.bins have no meaning by the rule splice")
}

func (m *Manifest) validateTracks(faults *folder.Faults) {
	faults.Check(m.Input.Strand == ForwardStrand || m.Input.Strand == BothStrands, "input.strand = %q is neither forward nor both", m.Input.Strand)
	faults.Check(m.Input.Length > 0 && m.Input.Length <= maxLength, "input.length = %d is not between 1 and %d", m.Input.Length, maxLength)
	faults.Check(m.Input.Context == 0, "input.context has meaning by the rule splice alone")
	faults.Check(m.Splice == SpliceManifest{}, "[splice] has meaning by the rule splice alone")
	faults.Check(len(m.Output.Channels) == 0, "output.channels has meaning by the rule splice alone: give output.count and [[tracks]]")
	o := &m.Output
	if o.Layout == NoBins && o.Bins == 0 {
		o.Bins = 1
	}
	faults.Check(slices.Contains([]string{LengthFirst, ChannelsFirst, NoBins}, o.Layout), "output.layout = %q is none of NLC, NCL and NC", o.Layout)
	faults.Check(o.Layout != NoBins || o.Bins == 1, "output.bins = %d, but the layout NC has none", o.Bins)
	sizes := o.Count > 0 && o.Bins > 0 && o.Count <= maxOutputs && o.Bins <= maxOutputs/o.Count
	faults.Check(sizes, "output.count = %d and output.bins = %d are not positive with a product up to %d", o.Count, o.Bins, maxOutputs)
	faults.Check(len(m.Tracks) > 0 && len(m.Tracks) <= maxTracks, "there are %d [[tracks]]: want 1 to %d", len(m.Tracks), maxTracks)
	if !sizes {
		return
	}
	seen := make(map[string]bool)
	for i := range m.Tracks {
		t := &m.Tracks[i]
		faults.Check(plainName.MatchString(t.Name), "tracks[%d].name = %q is no word of letters, digits, dots and dashes", i, t.Name)
		faults.Check(!seen[t.Name], "tracks[%d].name = %q comes twice", i, t.Name)
		seen[t.Name] = true
		faults.Check(t.Combine == "" || t.Combine == "sum" || t.Combine == "mean", "tracks[%d].combine = %q is neither sum nor mean", i, t.Combine)
		if _, err := numbers(t.Outputs, o.Count); err != nil {
			faults.Check(false, "tracks[%d].outputs: %v", i, err)
		}
		if _, err := numbers(t.Bins, o.Bins); t.Bins != "" && err != nil {
			faults.Check(false, "tracks[%d].bins: %v", i, err)
		}
	}
}

// numbers reads a list such as "0-99,205" of numbers below n, which is in order and has none twice.
func numbers(list string, n int) ([]int, error) {
	var all []int
	for part := range strings.SplitSeq(list, ",") {
		first, last, isRange := strings.Cut(strings.TrimSpace(part), "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		switch {
		case err1 != nil || err2 != nil || from < 0 || to < from:
			return nil, fmt.Errorf("%q is no number or range such as 0-99", part)
		case to >= n:
			return nil, fmt.Errorf("%q goes beyond the last, %d", part, n-1)
		case len(all) > 0 && from <= all[len(all)-1]:
			return nil, fmt.Errorf("%q is not behind the one before", part)
		}
		for i := from; i <= to; i++ {
			all = append(all, i)
		}
	}
	return all, nil
}

// Fingerprint distinguishes networks that score differently, whatever they are called: a hash of the networks and of how
// they are used.
func (m *Manifest) Fingerprint() string {
	h := sha256.New()
	fmt.Fprintf(h, "rule %s input %+v output %+v splice %d %v tracks %+v\n", m.Rule, m.Input, m.Output, m.Distance(), m.Splice.Mask, m.Tracks)
	for _, n := range m.Networks {
		fmt.Fprintf(h, "network %s\n", strings.ToLower(n.SHA256))
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}
