package demux

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/pelletier/go-toml/v2"
)

// Kit is a set of barcodes and how they sit in a read.
//
//	5' adapter Front.Outer BARCODE Front.Inner READ rc(Rear.Inner) rc(BARCODE) rc(Rear.Outer) 3'
//
// Where Inner is set, READ begins and ends with the barcodes of that kit: a sample has a pair
// of an outer and an inner one.
type Kit struct {
	// Name is what barcodes are called by: <Name>_barcode01.
	Name string
	// Front and Rear are the flanks at both ends of a molecule, each read from its
	// end inwards.
	Front, Rear Flanks
	// AtFront and AtRear say at which ends of a read a barcode is searched for.
	AtFront, AtRear bool
	Barcodes        []Barcode
	Scoring         Scoring
	Inner           *Kit
	pairs           []string // names of pairs that there are; nil: all
}

// Flanks are what stands on both sides of a barcode, from the end of a read inwards.
// Not both are empty.
type Flanks struct {
	Outer, Inner string
}

// Barcode is one barcode of a kit.
type Barcode struct {
	Name string // "barcode01"
	// Front and Rear are its sequences at both ends of a molecule, each read from
	// its end inwards.
	Front, Rear string
}

// Scoring says when a barcode counts as found. Names and meanings are those of the
// table [scoring] in a Dorado arrangement file; DefaultScoring has the defaults. A
// penalty is the edit distance of a barcode with some bases of its flanks; the score
// of a flank is 1 less its edit distance by its length.
type Scoring struct {
	MaxBarcodePenalty     int     `toml:"max_barcode_penalty"`      // of a barcode that is found
	MinBarcodePenaltyDist int     `toml:"min_barcode_penalty_dist"` // by which the second best is worse
	MinSeparationOnlyDist int     `toml:"min_separation_only_dist"` // the same where MaxBarcodePenalty is exceeded
	BarcodeEndProximity   int     `toml:"barcode_end_proximity"`    // bases before the flanks, at most
	FlankLeftPad          int     `toml:"flank_left_pad"`           // bases of the outer flank that count for the penalty
	FlankRightPad         int     `toml:"flank_right_pad"`          // and of the inner
	FrontBarcodeWindow    int     `toml:"front_barcode_window"`     // bases that are searched at the front
	RearBarcodeWindow     int     `toml:"rear_barcode_window"`      // and at the rear
	MinFlankScore         float64 `toml:"min_flank_score"`
	MidstrandFlankScore   float64 `toml:"midstrand_flank_score"` // from which flanks amid a read show that it is two
}

// DefaultScoring returns the scoring of kits that don't say otherwise.
func DefaultScoring() Scoring {
	return Scoring{
		MaxBarcodePenalty: 9, MinBarcodePenaltyDist: 3, MinSeparationOnlyDist: 6, BarcodeEndProximity: 75,
		FlankLeftPad: 5, FlankRightPad: 10, FrontBarcodeWindow: 175, RearBarcodeWindow: 175,
		MinFlankScore: 0.5, MidstrandFlankScore: 0.95,
	}
}

//go:embed kits.toml
var kitsFile []byte

// kitTable is what kits.toml holds.
type kitTable struct {
	Kits []struct {
		Names []string `toml:"names"`
		arrangement
		Scoring map[string]any `toml:"scoring"`
	} `toml:"kit"`
	Sequences map[string]string `toml:"sequences"`
}

// arrangement is the table [arrangement] of a Dorado arrangement file.
type arrangement struct {
	Name             string            `toml:"name"`
	Kit              string            `toml:"kit"`
	Mask1Front       string            `toml:"mask1_front"`
	Mask1Rear        string            `toml:"mask1_rear"`
	Mask2Front       string            `toml:"mask2_front"`
	Mask2Rear        string            `toml:"mask2_rear"`
	Barcode1Pattern  string            `toml:"barcode1_pattern"`
	Barcode2Pattern  string            `toml:"barcode2_pattern"`
	FirstIndex       int               `toml:"first_index"`
	LastIndex        int               `toml:"last_index"`
	RearOnlyBarcodes bool              `toml:"rear_only_barcodes"`
	Replace          map[string]string `toml:"replace"` // index to sequence name; not in Dorado
}

// shippedTable parses kits.toml once.
var shippedTable = sync.OnceValue(func() kitTable {
	var table kitTable
	if err := toml.NewDecoder(bytes.NewReader(kitsFile)).DisallowUnknownFields().Decode(&table); err != nil {
		panic(fmt.Sprintf("demux: kits.toml: %v", err)) // a test reads it
	}
	return table
})

// KitNames lists the kits that OpenKit knows, in order.
func KitNames() []string {
	var names []string
	for _, k := range shippedTable().Kits {
		names = append(names, k.Names...)
	}
	slices.Sort(names)
	return names
}

// OpenKit returns a kit by its name, whose case and dots or dashes don't matter:
// SQK-RBK114.24 is SQK-RBK114-24.
func OpenKit(name string) (Kit, error) {
	wanted := kitKey(name)
	table := shippedTable()
	for _, k := range table.Kits {
		for _, known := range k.Names {
			if kitKey(known) != wanted {
				continue
			}
			scoring := DefaultScoring()
			if err := overlay(&scoring, k.Scoring); err != nil {
				return Kit{}, fmt.Errorf("kit %s: %w", known, err)
			}
			kit, err := k.arrangement.kit(known, table.Sequences, scoring)
			if err != nil {
				return Kit{}, fmt.Errorf("kit %s: %w", known, err)
			}
			return kit, nil
		}
	}
	return Kit{}, fmt.Errorf("kit %q is none of %s; for barcodes of your own describe them in a file", name, strings.Join(KitNames(), ", "))
}

func kitKey(name string) string {
	return strings.NewReplacer(".", "-", "_", "-").Replace(strings.ToUpper(strings.TrimSpace(name)))
}

// overlay sets what a table of TOML says.
func overlay(scoring *Scoring, table map[string]any) error {
	text, err := toml.Marshal(table)
	if err != nil {
		return err
	}
	return toml.Unmarshal(text, scoring)
}

// ParseKit reads a user's own arrangement: a Dorado arrangement file in TOML, with the
// tables [arrangement] and [scoring]. Sequences that are not the kits' own stand in the
// table [sequences], name = "ACGT" (Dorado takes them from a FASTA file besides).
func ParseKit(text []byte) (Kit, error) {
	file := struct {
		Arrangement arrangement       `toml:"arrangement"`
		Scoring     Scoring           `toml:"scoring"`
		Sequences   map[string]string `toml:"sequences"`
	}{Scoring: DefaultScoring()}
	if err := toml.NewDecoder(bytes.NewReader(text)).DisallowUnknownFields().Decode(&file); err != nil {
		return Kit{}, describeTOML(err)
	}
	known := shippedTable().Sequences
	sequences := maps.Clone(known)
	for name, sequence := range file.Sequences {
		if _, exists := known[name]; exists {
			return Kit{}, fmt.Errorf("[sequences] %s is the name of a barcode of the kits: choose another", name)
		}
		sequences[name] = strings.ToUpper(sequence)
	}
	a := file.Arrangement
	if a.Name == "" {
		return Kit{}, errors.New("[arrangement] name is missing")
	}
	return a.kit(a.Name, sequences, file.Scoring)
}

// describeTOML puts the place of a fault on one line.
func describeTOML(err error) error {
	if strict, ok := errors.AsType[*toml.StrictMissingError](err); ok && len(strict.Errors) > 0 {
		row, _ := strict.Errors[0].Position()
		return fmt.Errorf("line %d: unknown key %q", row, strings.Join(strict.Errors[0].Key(), "."))
	}
	if syntax, ok := errors.AsType[*toml.DecodeError](err); ok {
		row, column := syntax.Position()
		return fmt.Errorf("line %d, column %d: %s", row, column, strings.TrimPrefix(syntax.Error(), "toml: "))
	}
	return err
}

var (
	patternSyntax = regexp.MustCompile(`^[^%]*%0?([1-9])i[^%]*$`)
	nameSyntax    = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	basesSyntax   = regexp.MustCompile(`^[ACGT]*$`)
)

// maxIndex bounds the barcodes of an arrangement.
const maxIndex = 10_000

// kit makes a kit of an arrangement.
func (a arrangement) kit(name string, sequences map[string]string, scoring Scoring) (Kit, error) {
	if !nameSyntax.MatchString(name) {
		return Kit{}, fmt.Errorf("name = %q is not letters, digits, dots, dashes and underscores, 64 at most", name)
	}
	if a.FirstIndex < 0 || a.LastIndex < a.FirstIndex || a.LastIndex > maxIndex {
		return Kit{}, fmt.Errorf("first_index = %d and last_index = %d are not 0 <= first <= last <= %d", a.FirstIndex, a.LastIndex, maxIndex)
	}
	double := a.Barcode2Pattern != ""
	if double && a.RearOnlyBarcodes {
		return Kit{}, errors.New("rear_only_barcodes and barcode2_pattern exclude each other")
	}
	k := Kit{
		Name: name, Scoring: scoring,
		Front:   Flanks{strings.ToUpper(a.Mask1Front), strings.ToUpper(a.Mask1Rear)},
		Rear:    Flanks{strings.ToUpper(a.Mask2Front), strings.ToUpper(a.Mask2Rear)},
		AtFront: !a.RearOnlyBarcodes, AtRear: double || a.RearOnlyBarcodes,
	}
	switch {
	case a.RearOnlyBarcodes:
		// The masks are written as the read runs, towards its end.
		k.Rear = Flanks{reverseComplement(k.Front.Inner), reverseComplement(k.Front.Outer)}
	case k.Rear == (Flanks{}):
		k.Rear = k.Front
	case !double:
		return Kit{}, errors.New("mask2_front and mask2_rear are for a barcode at the rear: barcode2_pattern is missing")
	}
	for i := a.FirstIndex; i <= a.LastIndex; i++ {
		front, err := a.sequence(a.Barcode1Pattern, "barcode1_pattern", i, sequences)
		if err != nil {
			return Kit{}, err
		}
		rear := front
		switch {
		case double:
			if rear, err = a.sequence(a.Barcode2Pattern, "barcode2_pattern", i, sequences); err != nil {
				return Kit{}, err
			}
		case a.RearOnlyBarcodes:
			rear = reverseComplement(front)
		}
		k.Barcodes = append(k.Barcodes, Barcode{Name: fmt.Sprintf("barcode%02d", i), Front: front, Rear: rear})
	}
	return k, k.validate()
}

// sequence returns the sequence of barcode i.
func (a arrangement) sequence(pattern, key string, i int, sequences map[string]string) (string, error) {
	digits := patternSyntax.FindStringSubmatch(pattern)
	if digits == nil {
		return "", fmt.Errorf("%s = %q is no name with a place for the index, such as BC%%02i", key, pattern)
	}
	width, _ := strconv.Atoi(digits[1])
	at := strings.IndexByte(pattern, '%')
	end := at + strings.IndexByte(pattern[at:], 'i') + 1
	name := pattern[:at] + fmt.Sprintf("%0*d", width, i) + pattern[end:]
	if other, ok := a.Replace[strconv.Itoa(i)]; ok {
		name = other
	}
	sequence, ok := sequences[name]
	if !ok {
		return "", fmt.Errorf("%s = %q asks for the sequence %s, which is neither a kit's nor in [sequences]", key, pattern, name)
	}
	return sequence, nil
}

// validate checks what a search relies on and reports all that is wrong on one line.
func (k *Kit) validate() error {
	var faults []string
	check := func(ok bool, format string, args ...any) {
		if !ok && len(faults) < 5 {
			faults = append(faults, fmt.Sprintf(format, args...))
		}
	}
	for _, f := range []struct {
		name   string
		flanks Flanks
	}{{"mask1", k.Front}, {"mask2", k.Rear}} {
		check(f.flanks != (Flanks{}), "%s_front and %s_rear are both empty", f.name, f.name)
		check(basesSyntax.MatchString(f.flanks.Outer+f.flanks.Inner), "%s_front or %s_rear is not only A, C, G and T", f.name, f.name)
	}
	longest := 0
	for _, b := range k.Barcodes {
		check(b.Front != "" && b.Rear != "" && basesSyntax.MatchString(b.Front+b.Rear), "the sequence of %s is not one or more of A, C, G and T", b.Name)
		check(len(b.Front) == len(k.Barcodes[0].Front) && len(b.Rear) == len(k.Barcodes[0].Rear),
			"the sequence of %s is not as long as that of %s", b.Name, k.Barcodes[0].Name)
		longest = max(longest, len(b.Front), len(b.Rear))
	}
	construct := longest + max(len(k.Front.Outer)+len(k.Front.Inner), len(k.Rear.Outer)+len(k.Rear.Inner))
	check(construct <= maxPattern, "barcode and flanks have %d bases, more than %d", construct, maxPattern)
	s := k.Scoring
	for _, n := range []struct {
		name  string
		value int
	}{
		{"max_barcode_penalty", s.MaxBarcodePenalty}, {"min_barcode_penalty_dist", s.MinBarcodePenaltyDist},
		{"min_separation_only_dist", s.MinSeparationOnlyDist}, {"barcode_end_proximity", s.BarcodeEndProximity},
		{"flank_left_pad", s.FlankLeftPad}, {"flank_right_pad", s.FlankRightPad},
		{"front_barcode_window", s.FrontBarcodeWindow}, {"rear_barcode_window", s.RearBarcodeWindow},
	} {
		check(n.value >= 0 && n.value <= 100_000, "%s = %d is not between 0 and 100000", n.name, n.value)
	}
	check(s.MinFlankScore >= 0 && s.MinFlankScore <= 1, "min_flank_score = %v is not between 0 and 1", s.MinFlankScore)
	check(s.MidstrandFlankScore >= 0 && s.MidstrandFlankScore <= 1, "midstrand_flank_score = %v is not between 0 and 1", s.MidstrandFlankScore)
	if len(faults) > 0 {
		return errors.New(strings.Join(faults, "; "))
	}
	return nil
}

// Only returns the kit with no other barcodes than those named; of a kit with an inner one
// pairs, as barcode07_02.
func (k Kit) Only(names []string) (Kit, error) {
	if k.Inner == nil {
		return k.only(names)
	}
	var outer, inner []string
	for _, name := range names {
		first, second, ok := splitPair(name)
		if !ok {
			return Kit{}, fmt.Errorf("%s is not a pair of an outer barcode of kit %s and an inner one of kit %s, as barcode07_02", name, k.Name, k.Inner.Name)
		}
		outer, inner = append(outer, first), append(inner, second)
	}
	only, err := k.only(outer)
	if err != nil {
		return Kit{}, err
	}
	within, err := k.Inner.only(inner)
	if err != nil {
		return Kit{}, err
	}
	only.Inner, only.pairs = &within, slices.Compact(slices.Sorted(slices.Values(names)))
	return only, nil
}

func (k Kit) only(names []string) (Kit, error) {
	var kept []Barcode
	for _, name := range names {
		i := slices.IndexFunc(k.Barcodes, func(b Barcode) bool { return b.Name == name })
		switch _, _, pair := splitPair(name); {
		case i < 0 && pair:
			return Kit{}, fmt.Errorf("%s is a pair of barcodes, of which kit %s has the outer one: the kit of the inner one is missing", name, k.Name)
		case i < 0:
			return Kit{}, fmt.Errorf("%s is not a barcode of kit %s, which has %s to %s", name, k.Name, k.Barcodes[0].Name, k.Barcodes[len(k.Barcodes)-1].Name)
		}
		kept = append(kept, k.Barcodes[i])
	}
	slices.SortFunc(kept, func(a, b Barcode) int { return strings.Compare(a.Name, b.Name) })
	k.Barcodes = slices.Compact(kept)
	return k, nil
}

// names are those of the barcodes, or of the pairs of outer and inner ones, in order.
func (k *Kit) names() []string {
	if k.pairs != nil {
		return k.pairs
	}
	var names []string
	for _, b := range k.Barcodes {
		if k.Inner == nil {
			names = append(names, b.Name)
			continue
		}
		for _, inner := range k.Inner.Barcodes {
			names = append(names, pairName(b.Name, inner.Name))
		}
	}
	return names
}

// pair returns the numbers of the outer and the inner barcode of a name that names gives.
func (k *Kit) pair(name string) [2]int {
	outer, inner, _ := splitPair(name)
	named := func(name string) func(Barcode) bool { return func(b Barcode) bool { return b.Name == name } }
	return [2]int{slices.IndexFunc(k.Barcodes, named(outer)), slices.IndexFunc(k.Inner.Barcodes, named(inner))}
}

// pairName is what an outer and an inner barcode are called together: barcode07_02.
func pairName(outer, inner string) string { return outer + "_" + strings.TrimPrefix(inner, "barcode") }

// splitPair takes the name of a pair apart.
func splitPair(name string) (outer, inner string, ok bool) {
	outer, inner, ok = strings.Cut(name, "_")
	return outer, "barcode" + inner, ok
}
