package methylation

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/modbase/pileup"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

var docs = filepath.Join("..", "..", "..", "docs", "consume")

func sample() *Stretch {
	s := &Stretch{
		SchemaVersion: SchemaVersion, Run: "run/1", Sample: "s", Revision: 3, Status: Final, Stretch: event.Stretch{Contig: "chr1", Pos: 4097, End: 8192},
		Code: "76792", Thresholds: map[string]float64{"C": 0.75}, LeftOut: 2, Sites: NewSites(),
	}
	s.Sites.Add(&pileup.Row{Pos: 4096, Strand: pileup.Plus, Modified: 1, Other: 2, Canonical: 3, Deleted: 4, Failed: 5, Different: 6, Uncalled: 7})
	s.Sites.Add(&pileup.Row{Pos: 8191, Strand: pileup.Minus, Canonical: 1})
	return s
}

// ofHaplotype is the same of a haplotype's reads.
func ofHaplotype() *Stretch {
	s := sample()
	s.Haplotype, s.PhaseSets = 2, []int64{17, 8000}
	return s
}

func record(t *testing.T, o stream.Out) stream.Record {
	t.Helper()
	return stream.Record{Topic: o.Topic, Key: o.Key, Value: o.Value, Headers: o.Headers}
}

// TestContract: documents are read as they were written, fit the schema, and have the headers that AsyncAPI describes.
func TestContract(t *testing.T) {
	compiler := jsonschema.NewCompiler()
	for name, file := range map[string]string{"methylation.v1.json": "methylation.schema.json", "variants.v1.json": "variants.schema.json"} {
		text, err := os.ReadFile(filepath.Join(docs, file))
		require.NoError(t, err)
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
		require.NoError(t, err)
		require.NoError(t, compiler.AddResource("https://porestream.github.io/schemas/"+name, doc))
	}
	schema, err := compiler.Compile("https://porestream.github.io/schemas/methylation.v1.json")
	require.NoError(t, err)
	validate := func(value []byte) error {
		doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(value))
		require.NoError(t, err)
		return schema.Validate(doc)
	}
	s := sample()
	o, err := s.Record("methylation")
	require.NoError(t, err)
	require.Equal(t, "s/chr1/4096/76792", string(o.Key))
	require.NoError(t, validate(o.Value))
	got, end, err := Decode(record(t, o))
	require.NoError(t, err)
	require.Nil(t, end)
	require.Equal(t, s, got)
	require.Equal(t, pileup.Row{Pos: 4096, Strand: pileup.Plus, Code: -76792, Motif: -1, Modified: 1, Other: 2, Canonical: 3, Deleted: 4, Failed: 5, Different: 6, Uncalled: 7}, got.Sites.Row(0, -76792))

	tagged := ofHaplotype()
	o3, err := tagged.Record("methylation")
	require.NoError(t, err)
	require.Equal(t, "s/chr1/4096/76792/HP2", string(o3.Key))
	require.NoError(t, validate(o3.Value))
	got, _, err = Decode(record(t, o3))
	require.NoError(t, err)
	require.Equal(t, tagged, got)
	tagged.Status = Provisional
	wrong, err := tagged.JSON()
	require.NoError(t, err)
	require.Error(t, validate(wrong), "counts by haplotype are final")

	empty := &Stretch{SchemaVersion: 1, Run: "r", Sample: "s", Revision: 1, Status: Provisional, Stretch: event.Stretch{Contig: "c", Pos: 1, End: 4}, Code: "m", Sites: NewSites()}
	o2, err := empty.Record("methylation")
	require.NoError(t, err)
	require.NoError(t, validate(o2.Value))
	ends, err := event.RunEndRecords("methylation", 1, &streampb.Marker{Run: &streampb.Run{Id: "r", Sample: "s"}, Sources: 1})
	require.NoError(t, err)
	require.NoError(t, validate(ends[0].Value))
	_, end, err = Decode(record(t, ends[0]))
	require.NoError(t, err)
	require.Equal(t, "r", end.Run)

	text, err := os.ReadFile(filepath.Join(docs, "asyncapi.yaml"))
	require.NoError(t, err)
	var doc struct {
		Channels map[string]struct {
			Address  string
			Messages map[string]any
		}
		Components struct {
			Messages map[string]struct {
				Name    string
				Headers struct {
					AllOf []struct {
						Required   []string
						Properties map[string]any
					} `yaml:"allOf"`
				}
			}
			Schemas map[string]struct{ Properties map[string]any }
		}
	}
	require.NoError(t, yaml.Unmarshal(text, &doc))
	require.Equal(t, "{prefix}"+stream.NewTopics("").Methylation, doc.Channels["methylation"].Address)
	for name, of := range map[string]stream.Out{"methylationRevised": o, "haplotypeMethylationRevised": o3} {
		message := doc.Components.Messages[name]
		require.Equal(t, event.TypeOf(record(t, of)), message.Name)
		require.Contains(t, doc.Channels["methylation"].Messages, name)
		for _, h := range of.Headers {
			own, common := message.Headers.AllOf[1].Properties[h.Key], doc.Components.Schemas["cloudEventHeaders"].Properties[h.Key]
			require.True(t, own != nil || common != nil, "header %s is not described", h.Key)
		}
	}
}

// TestDecode: what contradicts itself is an error that names the record.
func TestDecode(t *testing.T) {
	for says, spoil := range map[string]func(map[string]any){
		"needs sample":         func(m map[string]any) { delete(m, "sample") },
		"want a letter":        func(m map[string]any) { m["code"] = "?" },
		"a column of 1":        func(m map[string]any) { m["sites"].(map[string]any)["failed"] = []int{1} },
		"is not one of chr1:":  func(m map[string]any) { m["sites"].(map[string]any)["pos"] = []int{1, 2} },
		"than a contig can be": func(m map[string]any) { m["stretch"] = map[string]any{"contig": "chr1", "pos": 1, "end": 1 << 31} },
		"a count below 0":      func(m map[string]any) { m["sites"].(map[string]any)["modified"] = []int{1, -1} },
		`strand '.'`:           func(m map[string]any) { m["sites"].(map[string]any)["strands"] = "+." },
		"cannot unmarshal":     func(m map[string]any) { m["revision"] = "x" },
		"haplotype 3: want":    func(m map[string]any) { m["haplotype"] = 3 },
		"type " + Type + " is": func(m map[string]any) { m["haplotype"] = 2 },
	} {
		o, err := sample().Record("methylation")
		require.NoError(t, err)
		var m map[string]any
		require.NoError(t, json.Unmarshal(o.Value, &m))
		spoil(m)
		o.Value, err = json.Marshal(m)
		require.NoError(t, err)
		_, _, err = Decode(record(t, o))
		require.ErrorContains(t, err, says)
		require.ErrorContains(t, err, "record 0 of methylation/0")
	}
	require.Contains(t, ofHaplotype().Text(), "s chr1:4097-8192 76792 of haplotype 2: 2 positions")
	require.True(t, strings.HasPrefix(sample().Text(), "FINAL       s chr1:4097-8192 76792: 2 positions, 14.3 % of 7 calls"), sample().Text())
}

// TestEncoding: documents are the bytes that encoding/json makes of them, whatever is in them.
func TestEncoding(t *testing.T) {
	rng := rand.New(rand.NewPCG(44, 2))
	texts := []string{"", "s", "a b/c", `quote " and \`, "<&>", "\x01\x7f", "µ\u2028", "bad \xff"}
	numbers := []int{0, 1, 9, 10, 99, 1234567890, -1, math.MaxInt}
	text := func() string { return texts[rng.IntN(len(texts))] }
	var encoder Encoder
	for range 2000 {
		s := &Stretch{
			SchemaVersion: rng.IntN(3), Run: text(), Sample: text(), Revision: rng.Uint64() >> rng.IntN(64), Status: text(), Code: text(), LeftOut: numbers[rng.IntN(len(numbers))],
			Stretch: event.Stretch{Contig: text(), Pos: rng.Int64(), End: -rng.Int64()}, Haplotype: rng.IntN(3),
		}
		for range rng.IntN(3) {
			s.PhaseSets = append(s.PhaseSets, rng.Int64())
		}
		if rng.IntN(3) > 0 {
			s.Sites = NewSites()
		}
		for range rng.IntN(4) {
			n := func() int { return numbers[rng.IntN(len(numbers))] }
			s.Sites.Add(&pileup.Row{Pos: rng.IntN(1 << 30), Strand: []pileup.Strand{pileup.Plus, pileup.Minus}[rng.IntN(2)], Modified: n(), Canonical: n(), Other: n(), Deleted: n(), Failed: n(), Different: n(), Uncalled: n()})
		}
		if rng.IntN(2) == 0 {
			s.Thresholds = make(map[string]float64)
			for _, base := range []string{"A", "C", "G", "T", text()}[rng.IntN(6):] {
				s.Thresholds[base] = []float64{0, 1, 0.5, 401.0 / 512, 1e-7, 1e22, rng.Float64()}[rng.IntN(7)]
			}
		}
		want, err := json.Marshal(s)
		require.NoError(t, err)
		got, err := s.AppendJSON([]byte("before"))
		require.NoError(t, err)
		require.Equal(t, "before"+string(want), string(got))
		bare := *s
		bare.Run, bare.Revision = "", 0
		content, err := json.Marshal(bare)
		require.NoError(t, err)
		digest, err := encoder.Digest(s)
		require.NoError(t, err)
		require.Equal(t, sha256.Sum256(content), digest)
		o, err := s.Record("topic")
		require.NoError(t, err)
		require.Equal(t, o, encoder.Record(s, "topic"))
	}
	_, err := (&Stretch{Thresholds: map[string]float64{"C": math.NaN()}}).AppendJSON(nil)
	require.ErrorContains(t, err, "encoding the threshold of C")
}
