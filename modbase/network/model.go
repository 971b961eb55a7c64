package network

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/text/encoding/charmap"
	"google.golang.org/protobuf/proto"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/onnxgraph"
	"github.com/porestream/porestream/basecall/onnxpb"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/textfile"
)

// Model is a network that calls modified bases, and what its metadata say of its use.
type Model struct {
	// Name is what the model is called in outputs.
	Name string
	// Chemistry is the pore that it is for, as [signal.Run.Chemistry] has it, and SampleRate in Hz.
	Chemistry  string
	SampleRate int
	// Basecaller is the basecalling model whose moves it was trained on, by the name that Dorado has for it, or several with
	// a comma and a space between them; empty for any of the pore.
	Basecaller string
	// Base is the base that it scores, and Codes the modifications that it distinguishes, in the order of its
	// scores behind that of the plain base. Names are Codes in words.
	Base  byte
	Codes []modbase.Code
	Names []string
	// Motifs are where that base is scored.
	Motifs []Motif
	// Size is that of the file, and SHA256 its checksum.
	Size   int
	SHA256 string

	form   form
	onnx   []byte // with one input
	output string // of the network, its scores
}

// row is how many numbers the network is asked with at a time.
func (m *Model) row() int {
	n := 0
	for _, e := range m.form.ends() {
		n += e.size()
	}
	return n
}

// outputShape is what the network makes of a row.
func (m *Model) outputShape() []int {
	if n := m.form.frames(); n > 1 {
		return []int{n, 1 + len(m.Codes)}
	}
	return []int{1 + len(m.Codes)}
}

// Motif is a sequence of IUPAC letters and the place in it of the base that is scored.
type Motif struct {
	Letters string
	Place   int

	sets []uint8 // of bases as bits
}

// String is the motif as people write it.
func (m Motif) String() string { return m.Letters + "," + strconv.Itoa(m.Place) }

// meets reports whether there are reads of which both motifs cover the same base.
func (m *Motif) meets(other *Motif) bool {
	for i, set := range m.sets {
		k := i - m.Place + other.Place
		if k >= 0 && k < len(other.sets) && set&other.sets[k] == 0 {
			return false
		}
	}
	return true
}

// Limits on what metadata may make us hold, far above any real model.
const (
	maxFile    = 256 << 20
	maxContext = 10_000 // samples
	maxBases   = 32     // on either side of a base
	maxKmer    = 10
	maxOffset  = 1000
	maxCodes   = 16
)

// remoraRate is the sample rate that a network was trained with whose name has none: that of all ONNX networks in
// Remora's package.
const remoraRate = 4000

// ErrNotRemora says that a file is another network than one of Remora's, or too large for one.
var ErrNotRemora = errors.New("it is no ONNX network of Remora's")

// OpenModel reads a model's file.
func OpenModel(path string) (*Model, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("opening modified-base model: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("opening modified-base model %s: %w: name the .onnx file, which has at most %d MB", path, ErrNotRemora, maxFile>>20)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("opening modified-base model: %w", err)
	}
	m, err := ParseModel(data, path)
	if err != nil {
		return nil, fmt.Errorf("opening modified-base model %s: %w", path, err)
	}
	return m, nil
}

// ParseModel reads a model from the bytes of its file. What it is called, and which pore it is for, is only in its path.
func ParseModel(data []byte, path string) (*Model, error) {
	var file onnxpb.ModelProto
	if err := proto.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("it is no ONNX file, or a part of one: get it again: %w", err)
	}
	meta := make(metadata)
	for _, p := range file.GetMetadataProps() {
		meta[p.GetKey()] = p.GetValue()
	}
	if _, ok := meta["mod_bases"]; !ok || file.GetGraph() == nil {
		return nil, fmt.Errorf("%w: its metadata have no mod_bases", ErrNotRemora)
	}
	sum := sha256.Sum256(data)
	m := &Model{Size: len(data), SHA256: hex.EncodeToString(sum[:])}
	var err error
	if _, converted := meta[chemistryKey]; converted {
		err = m.readConverted(meta)
	} else {
		m.Name, m.Chemistry, m.SampleRate, err = named(path)
	}
	if err != nil {
		return nil, err
	}
	if err := m.read(meta); err != nil {
		return nil, err
	}
	if m.onnx, err = oneInput(&file, m.form.ends()); err != nil {
		return nil, err
	}
	m.output = file.GetGraph().GetOutput()[0].GetName()
	return m, nil
}

var (
	poreName = regexp.MustCompile(`(?:^|[^a-z0-9])dna_(r9\.4\.1|r9\.4|r10\.4\.1|r10\.4|r10\.3)_`)
	rateName = regexp.MustCompile(`_([1-9])khz_`)
)

// packaged is what all networks in Remora's package are called, and packageDepth how many folders are between one and the
// folder that has the pore's name: size, version of the basecalling model, modifications, motif and version.
const (
	packaged     = "modbase_model.onnx"
	packageDepth = 5
)

// named is what a model's path says of it: its file's name, or for a file as it lies in Remora's package the names of its
// folders.
func named(path string) (name, chemistry string, rate int, err error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", "", 0, err
	}
	parts := strings.Split(filepath.ToSlash(abs), "/")
	file := parts[len(parts)-1]
	name = strings.TrimSuffix(file, ".onnx")
	says := name
	if first := len(parts) - 1 - packageDepth - 1; file == packaged && first >= 0 {
		name, says = strings.Join(parts[first:len(parts)-1], "_"), parts[first]
	}
	pore := poreName.FindStringSubmatch(says + "_")
	if pore == nil {
		return "", "", 0, fmt.Errorf("its name doesn't say which pore it is for: rename it as the folders of Remora's package, such as dna_r9.4.1_e8_hac_5mc_CG_v0.onnx, or leave %s in them", packaged)
	}
	if chemistry = pore[1]; chemistry == "r9.4.1" {
		chemistry = "r9.4"
	}
	rate = remoraRate
	if khz := rateName.FindStringSubmatch(says + "_"); khz != nil {
		rate = 1000 * int(khz[1][0]-'0')
	}
	return name, chemistry, rate, nil
}

// metadata are those of an ONNX file.
type metadata map[string]string

func (m metadata) number(key string, least, most int) (int, error) {
	text, ok := m[key]
	if !ok {
		return 0, fmt.Errorf("its metadata have no %s", key)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%s = %q in its metadata is no number from %d to %d", key, clip(text), least, most)
	}
	return n, nil
}

// flag reads a truth as Python or as numbers have it; one that isn't there is false.
func (m metadata) flag(key string) (bool, error) {
	switch text := m[key]; text {
	case "True", "1":
		return true, nil
	case "False", "0", "":
		return false, nil
	default:
		return false, fmt.Errorf("%s = %q in its metadata is neither True nor False", key, clip(text))
	}
}

func clip(s string) string { return textfile.Clip(s, 40) }

// read takes over what the metadata say.
func (m *Model) read(meta metadata) error {
	if of, err := meta.flag("base_pred"); err != nil || of {
		return orElse(err, "it was trained to call bases, not modifications (base_pred)")
	}
	for i, text := range splitCodes(meta["mod_bases"]) {
		code, err := modbase.ParseCode(text)
		if err != nil {
			return fmt.Errorf("mod_bases = %q in its metadata: %w", clip(meta["mod_bases"]), err)
		}
		if slices.Contains(m.Codes, code) {
			return fmt.Errorf("mod_bases = %q in its metadata has a code twice", clip(meta["mod_bases"]))
		}
		m.Codes = append(m.Codes, code)
		m.Names = append(m.Names, meta["mod_long_names_"+strconv.Itoa(i)])
	}
	if len(m.Codes) > maxCodes {
		return fmt.Errorf("mod_bases = %q in its metadata has more than %d codes", clip(meta["mod_bases"]), maxCodes)
	}
	if len(m.Codes) == 0 {
		return errors.New("its metadata name no modification (mod_bases)")
	}
	if err := m.readMotifs(meta); err != nil {
		return err
	}
	if meta[formKey] == formEvents {
		e := &events{}
		m.form = e
		var err error
		e.around, err = meta.number(aroundKey, 1, maxBases)
		return err
	}
	c := &contexts{}
	m.form = c
	if err := c.read(meta); err != nil {
		return err
	}
	if _, refined := meta["refine_kmer_levels"]; refined { // the first models had neither these settings nor what follows
		var err error
		if c.fromStart, err = meta.flag("base_start_justify"); err != nil {
			return err
		}
		if c.offset, err = meta.number("offset", -maxOffset, maxOffset); err != nil {
			return err
		}
		if c.levels, err = readLevels(meta); err != nil {
			return err
		}
	}
	if meta[formKey] == formChunks {
		return m.readChunks(meta, c)
	}
	return nil
}

// splitCodes takes codes apart: letters one behind the other, or with commas between them, as numbers need.
func splitCodes(text string) []string {
	if strings.Contains(text, ",") || text != "" && text[0] >= '0' && text[0] <= '9' {
		return strings.Split(text, ",")
	}
	return strings.Split(text, "")
}

// read takes over what a network sees of a read around a base.
func (c *chunking) read(meta metadata) error {
	for _, field := range []struct {
		key  string
		into *int
		most int
	}{
		{"chunk_context_0", &c.before, maxContext},
		{"chunk_context_1", &c.after, maxContext},
		{"kmer_context_bases_0", &c.basesBefore, maxBases},
		{"kmer_context_bases_1", &c.basesAfter, maxBases},
	} {
		var err error
		if *field.into, err = meta.number(field.key, 0, field.most); err != nil {
			return err
		}
	}
	if c.before+c.after == 0 {
		return errors.New("its metadata give it no samples (chunk_context_0, chunk_context_1)")
	}
	return nil
}

// orElse is an error, or if there is none another one.
func orElse(err error, otherwise string) error {
	if err != nil {
		return err
	}
	return errors.New(otherwise)
}

func (m *Model) readMotifs(meta metadata) error {
	keys := [][2]string{{"motif", "motif_offset"}}
	if _, several := meta["num_motifs"]; several {
		n, err := meta.number("num_motifs", 1, 64)
		if err != nil {
			return err
		}
		keys = nil
		for i := range n {
			keys = append(keys, [2]string{fmt.Sprintf("motif_%d", i), fmt.Sprintf("motif_offset_%d", i)})
		}
	}
	for _, key := range keys {
		motif := Motif{Letters: meta[key[0]]}
		for i := range len(motif.Letters) {
			motif.sets = append(motif.sets, genome.BaseSet(motif.Letters[i]))
		}
		if len(motif.sets) == 0 || len(motif.sets) > maxBases || slices.Contains(motif.sets, 0) {
			return fmt.Errorf("%s = %q in its metadata is no motif", key[0], clip(motif.Letters))
		}
		var err error
		if motif.Place, err = meta.number(key[1], 0, len(motif.sets)-1); err != nil {
			return err
		}
		base := motif.Letters[motif.Place]
		if strings.IndexByte("ACGT", base) < 0 || m.Base != 0 && m.Base != base {
			return fmt.Errorf("motif %s in its metadata: models score one base, the same in all of their motifs", motif)
		}
		m.Base = base
		m.Motifs = append(m.Motifs, motif)
	}
	return nil
}

// readLevels takes over the levels by which the current is scaled, if it is.
func readLevels(meta metadata) (*levels, error) {
	iterations, err := meta.number("refine_scale_iters", -1, math.MaxInt32)
	if err != nil {
		return nil, err
	}
	if iterations >= 0 {
		return nil, fmt.Errorf("its metadata ask for the moves to be refined (refine_scale_iters = %d), which isn't done here", iterations)
	}
	rescale, err := meta.flag("refine_do_rough_rescale")
	if err != nil || !rescale {
		return nil, err
	}
	// Python keeps the table's bytes as letters of an old code page.
	raw, err := charmap.CodePage437.NewEncoder().String(meta["refine_kmer_levels"])
	if err != nil {
		return nil, fmt.Errorf("refine_kmer_levels in its metadata: %w", err)
	}
	l := &levels{}
	for l.k = 1; l.k <= maxKmer && 4<<(2*l.k) != len(raw); l.k++ {
	}
	if l.k > maxKmer {
		return nil, fmt.Errorf("refine_kmer_levels in its metadata has %d bytes, which is no table of levels", len(raw))
	}
	if l.centre, err = meta.number("refine_kmer_center_idx", 0, l.k-1); err != nil {
		return nil, err
	}
	l.table = make([]float32, len(raw)/4)
	for i := range l.table {
		if l.table[i] = math.Float32frombits(binary.LittleEndian.Uint32([]byte(raw[4*i:]))); l.table[i] != l.table[i] || math.IsInf(float64(l.table[i]), 0) {
			return nil, fmt.Errorf("refine_kmer_levels in its metadata: level %d is no number", i)
		}
	}
	if _, some := meta[levelBasesKey]; some {
		if l.most, err = meta.number(levelBasesKey, 0, math.MaxInt32); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// Fits returns an error of one line if the model isn't for what a basecalling model calls.
func (m *Model) Fits(b *basecall.Manifest) error {
	switch {
	case b.RNA():
		return fmt.Errorf("modified-base model %s is for DNA, and basecalling model %s for RNA", m.Name, b.Name)
	case b.Chemistry != m.Chemistry:
		return fmt.Errorf("modified-base model %s is for %s, and basecalling model %s for %s: choose two for one pore", m.Name, m.Chemistry, b.Name, b.Chemistry)
	case !slices.Contains(b.SampleRates, m.SampleRate):
		return fmt.Errorf("modified-base model %s is for %d Hz, and basecalling model %s for %v Hz", m.Name, m.SampleRate, b.Name, b.SampleRates)
	case m.Basecaller != "" && !m.follows(b.Name) && !m.follows(b.ConvertedFrom):
		return fmt.Errorf("modified-base model %s is for reads that %s calls, and basecalling model %s is another: call with that, or convert the modified-base model with --basecaller any",
			m.Name, m.Basecaller, b.Name)
	}
	if err := m.form.fits(b.Network.Stride); err != nil {
		return fmt.Errorf("modified-base model %s can't follow basecalling model %s: %w", m.Name, b.Name, err)
	}
	return nil
}

// follows reports whether a basecalling model is one that the network was trained on.
func (m *Model) follows(basecaller string) bool {
	return slices.Contains(strings.Split(m.Basecaller, ", "), basecaller)
}

// Scaling says how the current is scaled, for people.
func (m *Model) Scaling() string { return m.form.scaling() }

// Names of a network's ends as Remora exports them, and of the one input that takes the place of two.
const (
	signalInput   = "sig"
	sequenceInput = "seq"
	input         = "porestream_rows"
)

// leastOpset is the first version of ONNX's operators in which Slice has its bounds as inputs.
const leastOpset = 10

// oneInput puts all inputs, the current and the bases, into one tensor, which is taken apart again within the network: rows of a
// batch are then of one piece, as package infer has them. What the metadata hold is left out.
func oneInput(file *onnxpb.ModelProto, ends []end) ([]byte, error) {
	for _, set := range file.GetOpsetImport() {
		if set.GetDomain() == "" && set.GetVersion() < leastOpset {
			return nil, fmt.Errorf("its operators are of version %d of ONNX's, before %d", set.GetVersion(), leastOpset)
		}
	}
	graph := file.GetGraph()
	isEnd := func(v *onnxpb.ValueInfoProto) bool {
		return slices.ContainsFunc(ends, func(e end) bool { return e.name == v.GetName() })
	}
	found := 0
	for _, v := range graph.GetInput() {
		if isEnd(v) {
			found++
		}
	}
	if found != len(ends) || len(graph.GetOutput()) != 1 {
		var names []string
		for _, e := range ends {
			names = append(names, e.name)
		}
		return nil, fmt.Errorf("%w: want the inputs %s, and one output", ErrNotRemora, strings.Join(names, " and "))
	}
	numbers := func(name string, values ...int) string {
		t := &onnxpb.TensorProto{Name: "porestream_" + name, DataType: int32(onnxpb.TensorProto_INT64), Dims: []int64{int64(len(values))}}
		for _, v := range values {
			t.RawData = binary.LittleEndian.AppendUint64(t.RawData, uint64(v))
		}
		graph.Initializer = append(graph.Initializer, t)
		return t.Name
	}
	axis, at := numbers("axis", 1), 0
	bound := numbers("0", 0)
	var nodes []*onnxpb.NodeProto
	for _, e := range ends {
		from := bound
		at += e.size()
		bound = numbers(strconv.Itoa(at), at)
		flat := "porestream_flat_" + e.name
		nodes = append(nodes,
			&onnxpb.NodeProto{OpType: "Slice", Name: flat, Input: []string{input, from, bound, axis}, Output: []string{flat}},
			&onnxpb.NodeProto{OpType: "Reshape", Name: "porestream_" + e.name, Input: []string{flat, numbers("shape_"+e.name, append([]int{-1}, e.shape...)...)}, Output: []string{e.name}})
	}
	graph.Input = slices.DeleteFunc(graph.Input, isEnd)
	graph.Input = append(graph.Input, onnxgraph.End(input, onnxpb.TensorProto_FLOAT, "porestream_n", at))
	graph.Node = append(nodes, graph.Node...)
	file.MetadataProps = nil
	onnx, err := proto.MarshalOptions{Deterministic: true}.Marshal(file)
	if err != nil {
		return nil, fmt.Errorf("writing its network anew: %w", err)
	}
	return onnx, nil
}
