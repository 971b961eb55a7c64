package network

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/charmap"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/modbase"
)

// Keys of metadata that files have which were converted, beside those of Remora.
const (
	nameKey       = "porestream_name"
	chemistryKey  = "porestream_chemistry"
	rateKey       = "porestream_sample_rate"
	basecallerKey = "porestream_basecaller"
	formKey       = "porestream_form" // none: as Remora's
	lengthKey     = "porestream_chunk_samples"
	strideKey     = "porestream_stride"
	perBaseKey    = "porestream_samples_per_base_row"
	aroundKey     = "porestream_bases_around"
	levelBasesKey = "porestream_level_bases"

	formChunks = "chunks"
	formEvents = "events"
)

// Names of a network's inputs, which [Converted] must have: float32, by the axes that they have behind that of rows.
const (
	// SignalInput is the current, [1, samples], and SequenceInput what the bases around each sample are, [4 x bases,
	// samples], of each base in turn one for each of ACGT.
	SignalInput   = signalInput
	SequenceInput = sequenceInput
	// EventsInput is [bases, EventNumbers].
	EventsInput  = eventsInput
	EventNumbers = eventNumbers
)

// Converted is a network of another program and what it is used for.
type Converted struct {
	Name, Chemistry, Basecaller string
	SampleRate                  int
	Codes                       []modbase.Code
	Names                       []string
	Motif                       string
	Place                       int // in the motif

	// Before and After are samples around a base, BasesBefore and BasesAfter bases around a sample; FromStart says that
	// a base is where it starts, not in its middle.
	Before, After, BasesBefore, BasesAfter int
	FromStart                              bool
	// Levels are those of k-mers that the current is scaled by, with the base at LevelCentre in the pore's middle, from the
	// first LevelBases of a read; nil for the basecaller's scale.
	Levels                  []float32
	LevelCentre, LevelBases int
	// Chunk is how many samples the network is shown at a time, if not those around one base: it gives scores every Stride,
	// and bases are shown once for SamplesPerBases.
	Chunk, Stride, SamplesPerBases int
	// Around is how many bases on either side of one a network of events is shown; 0 for others.
	Around int

	// ONNX is the network; its output are scores before they become probabilities, of the plain base first.
	ONNX []byte
}

// File is the model as [ParseModel] reads it. It is the same for the same network.
func (c *Converted) File() ([]byte, error) {
	var codes []string
	meta := metadata{
		nameKey: c.Name, chemistryKey: c.Chemistry, rateKey: strconv.Itoa(c.SampleRate), basecallerKey: c.Basecaller,
		"motif": c.Motif, "motif_offset": strconv.Itoa(c.Place),
	}
	for i, code := range c.Codes {
		codes = append(codes, code.String())
		meta["mod_long_names_"+strconv.Itoa(i)] = c.Names[i]
	}
	meta["mod_bases"] = strings.Join(codes, ",")
	if c.Around > 0 {
		meta[formKey], meta[aroundKey] = formEvents, strconv.Itoa(c.Around)
	} else if err := c.putContext(meta); err != nil {
		return nil, err
	}
	var file onnxpb.ModelProto
	if err := proto.Unmarshal(c.ONNX, &file); err != nil {
		return nil, fmt.Errorf("reading the network: %w", err)
	}
	file.MetadataProps = nil
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		file.MetadataProps = append(file.MetadataProps, &onnxpb.StringStringEntryProto{Key: key, Value: meta[key]})
	}
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(&file)
	if err != nil {
		return nil, fmt.Errorf("writing the network: %w", err)
	}
	// What can't be read isn't written.
	if _, err := ParseModel(data, ""); err != nil {
		return nil, err
	}
	return data, nil
}

func (c *Converted) putContext(meta metadata) error {
	meta["chunk_context_0"], meta["chunk_context_1"] = strconv.Itoa(c.Before), strconv.Itoa(c.After)
	meta["kmer_context_bases_0"], meta["kmer_context_bases_1"] = strconv.Itoa(c.BasesBefore), strconv.Itoa(c.BasesAfter)
	if c.Chunk > 0 {
		meta[formKey], meta[lengthKey], meta[strideKey], meta[perBaseKey] = formChunks, strconv.Itoa(c.Chunk), strconv.Itoa(c.Stride), strconv.Itoa(c.SamplesPerBases)
	}
	if len(c.Levels) > 1<<(2*maxKmer) {
		return fmt.Errorf("%d levels are more than those of %d-mers", len(c.Levels), maxKmer)
	}
	table := make([]byte, 0, 4*len(c.Levels))
	for _, level := range c.Levels {
		table = binary.LittleEndian.AppendUint32(table, math.Float32bits(level))
	}
	text, err := charmap.CodePage437.NewDecoder().Bytes(table)
	if err != nil {
		return fmt.Errorf("writing levels: %w", err)
	}
	flag := map[bool]string{true: "1", false: "0"}
	meta["refine_kmer_levels"], meta["refine_do_rough_rescale"] = string(text), flag[c.Levels != nil]
	meta["refine_kmer_center_idx"], meta["refine_scale_iters"], meta["offset"] = strconv.Itoa(c.LevelCentre), "-1", "0"
	meta["base_start_justify"], meta[levelBasesKey] = flag[c.FromStart], strconv.Itoa(c.LevelBases)
	return nil
}

// readConverted takes over what a converted model's file says beside what those of Remora do.
func (m *Model) readConverted(meta metadata) (err error) {
	m.Name, m.Chemistry, m.Basecaller = meta[nameKey], meta[chemistryKey], meta[basecallerKey]
	if m.Name == "" || m.Chemistry == "" {
		return errors.New("its metadata have no name, or no chemistry: convert it again")
	}
	if form := meta[formKey]; form != "" && form != formChunks && form != formEvents {
		return fmt.Errorf("its metadata say that it is of the form %q, which this version doesn't know", clip(form))
	}
	m.SampleRate, err = meta.number(rateKey, 1, maxRate)
	return err
}

// readChunks takes over how a network sees stretches of current, beside what is read already.
func (m *Model) readChunks(meta metadata, of *contexts) (err error) {
	c := &chunks{chunking: of.chunking, levels: of.levels}
	if c.length, err = meta.number(lengthKey, 1, maxChunk); err != nil {
		return err
	}
	if c.stride, err = meta.number(strideKey, 1, c.length); err != nil {
		return err
	}
	if c.perBase, err = meta.number(perBaseKey, 1, c.length); err != nil {
		return err
	}
	switch {
	case c.length%c.stride != 0 || c.length%c.perBase != 0:
		return fmt.Errorf("its metadata say that it sees %d samples at a time, which are no whole frames of %d", c.length, max(c.stride, c.perBase))
	case c.before+c.after > c.length || c.after == 0:
		return fmt.Errorf("its metadata say that a base needs %d and %d samples around it of the %d that it sees at a time", c.before, c.after, c.length)
	}
	m.form = c
	return nil
}

const (
	maxRate  = 1_000_000
	maxChunk = 10_000 // samples
)

// fits refuses basecalling models with frames of so many samples that a form can't follow.
func (c *contexts) fits(int) error { return nil }

func (c *chunks) fits(stride int) error {
	if stride%c.stride != 0 || stride%c.perBase != 0 {
		return fmt.Errorf("it has frames of %d samples, that model of %d, which must be a multiple", max(c.stride, c.perBase), stride)
	}
	return nil
}

func (e *events) fits(stride int) error {
	if stride < quarters {
		return fmt.Errorf("it takes the quarters of a base's samples, of which there may be %d", stride)
	}
	return nil
}

func (l *levels) String() string {
	if l == nil {
		return "the basecaller's shift and scale"
	}
	return fmt.Sprintf("levels of %d-mers", l.k)
}

func (c *contexts) scaling() string { return c.levels.String() }
func (c *chunks) scaling() string   { return c.levels.String() }
func (e *events) scaling() string   { return "median and median absolute deviation of the read" }
