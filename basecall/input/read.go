package input

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Read is a called read, and what the file states about it. Texts that it doesn't state
// are empty, and numbers 0.
type Read struct {
	ID  string
	Run string // acquisition run
	// Sample is what the run is of, as entered at the sequencer.
	Sample string
	// Of is the sample of the read group (SM): of reads with a barcode, the barcode's.
	Of         string
	Experiment string
	FlowCell   string
	Position   string // of the sequencer
	RunStart   time.Time
	Model      string // basecalling model
	// Barcode is what was found on the read, such as barcode01, or Unclassified; empty if
	// none was searched for. Alias is what a sample sheet calls it.
	Barcode, Alias string

	Channel, Number uint32
	Start           time.Time // of the read
	// Sequence holds the letters as they were written, from the molecule's 5' end;
	// Qualities a Phred score for each, or is nil.
	Sequence, Qualities []byte
	// Dwells are the frames of Stride samples that each base lasts, saturating at 255; nil
	// without a move table that fits the bases.
	Dwells           []byte
	Stride           int
	Samples, Trimmed uint64 // of the read, and before the first frame
	Duration         float64
	MeanQuality      float64
	Parent           string // read that this one was split from
	ParentStart      uint64
	// Modified bases: SAM's tags MM, ML and MN.
	Modified              string
	ModifiedProbabilities []byte
	ModifiedLength        int
	// Failed says that the read fell through the basecaller's quality control (SAM's flag
	// 0x200).
	Failed bool
	// DuplexParent says that a duplex read was made of this one and its complement (SAM's tag dx is -1): that one
	// is in the file as well.
	DuplexParent bool
}

// Unclassified is the barcode of a read on which none was found.
const Unclassified = "unclassified"

// set takes one value that was given as key=value (a FASTQ title, or DS of a read group).
func (r *Read) set(key, value string) {
	switch key {
	case "runid", "run_id":
		r.Run = value
	case "sampleid", "sample_id":
		r.Sample = value
	case "protocol_group_id":
		r.Experiment = value
	case "flow_cell_id":
		r.FlowCell = value
	case "ch":
		r.Channel = number(value)
	case "read":
		r.Number = number(value)
	case "start_time":
		r.Start = instant(value)
	case "barcode":
		r.setBarcode(value)
	case "barcode_alias":
		r.Alias = value
	case "parent_read_id":
		if value != r.ID {
			r.Parent = value
		}
	case "basecall_model_version_id", "basecall_model":
		r.Model = value
	case "model_version_id":
		r.Model = cmp.Or(r.Model, value)
	}
}

func number(text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0
	}
	return uint32(n)
}

func instant(text string) time.Time {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return time.Time{}
	}
	return at
}

// setKeys takes a text of words of which some are key=value.
func (r *Read) setKeys(text string) {
	for word := range strings.FieldsSeq(text) {
		if key, value, ok := strings.Cut(word, "="); ok {
			r.set(key, value)
		}
	}
}

// tag is one of SAM's optional fields.
type tag struct {
	name  [2]byte
	kind  byte // as in BAM; of arrays that of the elements
	array bool
	text  []byte  // Z, H, A
	whole int64   // integers
	real  float64 // f
	data  []byte  // of an array of bytes, in place; nil for others
}

// number is the tag's value as a number.
func (t *tag) number() float64 {
	if t.kind == 'f' {
		return t.real
	}
	return float64(t.whole)
}

// count is the tag's value as a number from 0 on.
func (t *tag) count() uint64 { return uint64(max(0, t.whole)) }

// setTag takes one of SAM's tags. moves are kept for settle.
func (r *Read) setTag(t *tag, groups map[string]*group, moves *[]byte) {
	switch string(t.name[:]) {
	case "RG":
		r.setGroup(string(t.text), groups)
	case "DS": // what the read group states takes precedence, in whichever order they come
		run, model := r.Run, r.Model
		r.setKeys(string(t.text))
		r.Run, r.Model = cmp.Or(run, r.Run), cmp.Or(model, r.Model)
	case "BC":
		r.setBarcode(string(t.text))
	case "qs":
		r.MeanQuality = t.number()
	case "ch":
		r.Channel = uint32(t.count())
	case "rn":
		r.Number = uint32(t.count())
	case "st":
		r.Start = instant(string(t.text))
	case "du":
		r.Duration = t.number()
	case "ns":
		r.Samples = t.count()
	case "ts":
		r.Trimmed = t.count()
	case "pi":
		r.Parent = string(t.text)
	case "dx":
		r.DuplexParent = t.whole == -1
	case "sp":
		r.ParentStart = t.count()
	case "MM", "Mm":
		r.Modified = string(t.text)
	case "ML", "Ml":
		r.ModifiedProbabilities = slices.Clone(t.data)
	case "MN":
		r.ModifiedLength = int(t.count())
	case "mv":
		*moves = t.data
	}
}

// settle completes a read whose sequence is in the direction in which it was sequenced.
func (r *Read) settle(moves []byte) {
	if !(r.MeanQuality > 0 && r.MeanQuality < 1000) {
		r.MeanQuality = 0
	}
	if !(r.Duration >= 0) {
		r.Duration = 0
	}
	if len(moves) < 2 || moves[0] == 0 {
		return
	}
	dwells := make([]byte, 0, len(r.Sequence))
	for _, move := range moves[1:] {
		switch n := len(dwells); {
		case move == 1:
			dwells = append(dwells, 1)
		case n > 0 && dwells[n-1] < 255:
			dwells[n-1]++
		}
	}
	if len(dwells) != len(r.Sequence) {
		return // of other bases: something was cut off, and the moves were not
	}
	if strings.HasPrefix(r.Model, "rna") { // whose 3' end passes the pore first
		slices.Reverse(dwells)
	}
	r.Dwells, r.Stride = dwells, int(moves[0])
}

// barcodeName is how ONT's programs call a barcode, alone or behind its kit, and ours a pair
// of an outer and an inner one.
var barcodeName = regexp.MustCompile(`^(?:.*_)?(barcode\d{2,3}(?:[A-Za-z]|_\d{2,4})?|unclassified)$`)

// setBarcode takes what a read's barcode was called. SAM's tag BC may as well be a
// barcode's bases, which are not its name.
func (r *Read) setBarcode(name string) {
	switch found := barcodeName.FindStringSubmatch(name); {
	case found != nil:
		r.Barcode = found[1]
	case strings.Trim(name, "ACGTN-+") == "" || name == "none":
	default:
		r.Barcode, r.Alias = name, name
	}
}

// group is a read group of a header.
type group struct {
	read Read // what it says of its reads
}

// parseGroup reads a line @RG of a header.
func parseGroup(line string) (id string, g *group) {
	g = new(group)
	var library, sample string
	for field := range strings.SplitSeq(line, "\t") {
		name, value, ok := strings.Cut(field, ":")
		if !ok {
			continue
		}
		switch name {
		case "ID":
			id = value
		case "DS":
			g.read.setKeys(value)
		case "LB":
			library = value
		case "SM":
			sample = value
		case "PU":
			g.read.FlowCell = value
		case "PM":
			g.read.Position = value
		case "DT":
			g.read.RunStart = instant(value)
		case "al":
			g.read.Alias = value
		}
	}
	named := namedGroup(id)
	g.read.Run = cmp.Or(g.read.Run, named.Run)
	g.read.Model = cmp.Or(g.read.Model, named.Model)
	g.read.Barcode = named.Barcode
	// Of a barcode's reads SM is the barcode's sample, and LB the run's.
	g.read.Sample, g.read.Of = cmp.Or(library, sample), sample
	return id, g
}

// GroupModel is the basecalling model that a line @RG of a header names, or the name of the
// group in Dorado's form; empty if neither does.
func GroupModel(line string) (id, model string) {
	id, g := parseGroup(line)
	return id, g.read.Model
}

// ModelTag is the text of a record's tag DS that names its basecalling model.
func ModelTag(model string) string { return "basecall_model=" + model }

// TaggedModel is the basecalling model that the text of a record's tag DS names.
func TaggedModel(text string) string {
	var r Read
	r.setKeys(text)
	return r.Model
}

// NamedModel is the basecalling model in the name of a read group of which there is no line.
func NamedModel(group string) string { return namedGroup(group).Model }

// GroupRun returns the name of a read group and the run that it is of, from a line @RG of a
// header: what its description says, or its name as Dorado makes it; empty if neither does.
func GroupRun(line string) (id, run string) {
	id, g := parseGroup(line)
	return id, g.read.Run
}

// NamedRun is the run in the name of a read group of which there is no line.
func NamedRun(group string) string { return namedGroup(group).Run }

// RunIn is the run that a text of words key=value names, as a title or a description has it; empty
// if it names none.
func RunIn(text string) string {
	var r Read
	r.setKeys(text)
	return r.Run
}

// runName is how MinKNOW calls acquisition runs: a SHA-1, or a UUID.
var runName = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})(?:_(.*))?$`)

// kitName is that of a barcoding kit, or of two, at the end of a text.
var kitName = regexp.MustCompile(`(?:_[A-Z]{3}-[A-Z0-9]+(?:-[A-Z0-9]+)*){1,2}$`)

// namedGroup is what the name of a read group states in Dorado's form: run, model, kit
// and barcode, with a _ between them.
func namedGroup(id string) (r Read) {
	found := runName.FindStringSubmatch(id)
	if found == nil {
		return r
	}
	r.Run = found[1]
	rest := found[2]
	if b := barcodeName.FindStringSubmatch(rest); b != nil {
		r.Barcode = b[1]
		rest = kitName.ReplaceAllString(strings.TrimSuffix(strings.TrimSuffix(rest, b[1]), "_"), "")
	}
	r.Model = rest
	return r
}

// setGroup takes what a read's group states, and what the group's name states if there is no
// header.
func (r *Read) setGroup(id string, groups map[string]*group) {
	from := namedGroup(id)
	if g := groups[id]; g != nil {
		from = g.read
	}
	r.Run, r.Sample = cmp.Or(from.Run, r.Run), cmp.Or(from.Sample, r.Sample)
	r.FlowCell, r.Position = cmp.Or(from.FlowCell, r.FlowCell), cmp.Or(from.Position, r.Position)
	r.Model, r.Barcode = cmp.Or(from.Model, r.Model), cmp.Or(r.Barcode, from.Barcode)
	r.Alias, r.Of = cmp.Or(r.Alias, from.Alias), from.Of
	if !from.RunStart.IsZero() {
		r.RunStart = from.RunStart
	}
}

// namedFile is how Dorado and MinKNOW name a barcode in the name of a file, behind the kit or between other words.
var namedFile = regexp.MustCompile(`(?:^|_)(barcode\d{2,3}[A-Za-z]?|unclassified)(?:_|\.|$)`)

// BarcodeOf is the barcode that the path of a file names: its folder, as MinKNOW lays folders out, or else the file
// itself; empty if neither does.
func BarcodeOf(path string) string {
	if found := barcodeName.FindStringSubmatch(filepath.Base(filepath.Dir(path))); found != nil && found[0] == found[1] {
		return found[1]
	}
	if found := namedFile.FindStringSubmatch(filepath.Base(path)); found != nil {
		return found[1]
	}
	return ""
}
