package torch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const golden = "../testdata/golden"

// entry is a file in an archive.
type entry struct{ name, content string }

// archiveOf returns a ZIP archive.
func archiveOf(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, e := range entries {
		w, err := z.CreateHeader(&zip.FileHeader{Name: e.name})
		require.NoError(t, err)
		_, err = w.Write([]byte(e.content))
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	return b.Bytes()
}

func read(data []byte) (map[string]Tensor, error) {
	return Read(bytes.NewReader(data), int64(len(data)))
}

// Parts of pickles, spelt as PyTorch does.
const (
	begin  = "\x80\x02"
	odict  = "ccollections\nOrderedDict\n)R"
	args   = "ctorch._utils\n_rebuild_tensor_v2\n("
	end    = "\x89" + odict + "tR"
	matrix = "K\x00K\x02K\x03\x86K\x03K\x01\x86" // offset 0, shape (2, 3), strides (3, 1)
)

// storage spells a persistent id.
func storage(kind string, values byte) string {
	return "(" + str("storage") + "ctorch\n" + kind + "\n" + str("0") + str("cpu") + "K" + string([]byte{values}) + "tQ"
}

func str(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// dictOf spells a state dict with one entry.
func dictOf(name, value string) string { return begin + odict + str(name) + value + "s." }

func float32s(values ...float32) string {
	var b []byte
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return string(b)
}

func TestTypesAndStrides(t *testing.T) {
	six := float32s(1, 2, 3, 4, 5, 6)
	for _, test := range []struct {
		name, kind, data, shape string
		values                  byte
		want                    Tensor
	}{
		{"float", "FloatStorage", six, matrix, 6, Tensor{[]int{2, 3}, []float32{1, 2, 3, 4, 5, 6}}},
		{"transposed", "FloatStorage", six, "K\x00K\x03K\x02\x86K\x01K\x03\x86", 6, Tensor{[]int{3, 2}, []float32{1, 4, 2, 5, 3, 6}}},
		{"slice", "FloatStorage", six, "K\x04K\x02\x85K\x01\x85", 6, Tensor{[]int{2}, []float32{5, 6}}},
		{"scalar", "FloatStorage", six, "K\x05))", 6, Tensor{[]int{}, []float32{6}}},
		{"empty", "FloatStorage", six, "K\x00K\x00\x85K\x01\x85", 6, Tensor{[]int{0}, []float32{}}},
		{"half", "HalfStorage", "\x00\x3c\x00\xc0\x01\x00\x00\x7c", "K\x00K\x04\x85K\x01\x85", 4, Tensor{[]int{4}, []float32{1, -2, 0x1p-24, float32(math.Inf(1))}}},
		{"bfloat16", "BFloat16Storage", "\x80\x3f\x00\xc0", "K\x00K\x02\x85K\x01\x85", 2, Tensor{[]int{2}, []float32{1, -2}}},
		{"double", "DoubleStorage", string(binary.LittleEndian.AppendUint64(nil, math.Float64bits(1.5))), "K\x00))", 1, Tensor{[]int{}, []float32{1.5}}},
		{"long", "LongStorage", "\xfe\xff\xff\xff\xff\xff\xff\xff", "K\x00))", 1, Tensor{[]int{}, []float32{-2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			pickle := dictOf("w", args+storage(test.kind, test.values)+test.shape+end)
			have, err := read(archiveOf(t, entry{"x/data.pkl", pickle}, entry{"x/data/0", test.data}, entry{"x/byteorder", "little"}))
			require.NoError(t, err)
			assert.Equal(t, map[string]Tensor{"w": test.want}, have)
		})
	}
}

func TestReadRefuses(t *testing.T) {
	good := args + storage("FloatStorage", 6) + matrix + end
	data := float32s(1, 2, 3, 4, 5, 6)
	for _, test := range []struct{ name, pickle, want string }{
		{"a call", begin + "cos\nsystem\n(" + str("id") + "tR.", "os.system is called"},
		{"a class", begin + "cbuiltins\neval\n)\x81.", "builtins.eval is called"},
		{"another opcode", begin + "i", "opcode 0x69"},
		{"protocol", "\x80\x04.", "protocol 4"},
		{"end", begin + "(", "ends in the middle"},
		{"nothing left", begin + ".", "0 values are left"},
		{"no tensor", begin + "K\x01.", "it holds no tensors"},
		{"beyond the storage", dictOf("w", args+storage("FloatStorage", 5)+matrix+end), "reaches beyond its storage of 5 values"},
		{"short storage", dictOf("w", args+storage("FloatStorage", 7)+matrix+end), "data/0 has 24 bytes, not 28"},
		{"long storage", dictOf("w", args+storage("LongStorage", 2)+"K\x00))"+end), "data/0 has 24 bytes, more than 16"},
		{"type", dictOf("w", args+storage("QInt8Storage", 6)+matrix+end), "values of type torch.QInt8Storage are not read"},
		{"huge", dictOf("w", args+storage("FloatStorage", 6)+"K\x00J\xff\xff\xff\x1fJ\xff\xff\xff\x1f\x86K\x00K\x00\x86"+end), "more than 536870912 values"},
		{"repeated", dictOf("w", args+storage("FloatStorage", 6)+"K\x01K\x07\x85K\x00\x85"+end), "more values than its storage"},
		{"within itself", begin + "}q\x00(" + strings.Repeat(str("a")+"h\x00", 50) + "u.", "nested more than"},
		{"offset", dictOf("w", args+storage("FloatStorage", 6)+"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7fK\x02\x85K\x01\x85"+end), "a tensor at offset 9223372036854775807"},
		{"storage", dictOf("w", args+strings.Replace(storage("FloatStorage", 6), "K\x06", "J\x01\x00\x00\x20", 1)+matrix+end), "storages have more than 536870912 values"},
		{"negative", dictOf("w", args+storage("FloatStorage", 6)+"K\x00J\xff\xff\xff\xff\x85K\x01\x85"+end), "shape [-1]"},
		{"arguments", dictOf("w", args+"tR"), "a tensor of 0 arguments"},
		{"persistent id", begin + "K\x01Q.", "a persistent id that is no storage"},
		{"memo", begin + "h\x07.", "nothing is stored under 7"},
		{"mark", begin + "t.", "no mark"},
		{"string", begin + "X\xff\xff\xff\xff.", "a string of"},
		{"name", begin + "cnever ends", "a name without end"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := read(archiveOf(t, entry{"x/data.pkl", test.pickle}, entry{"x/data/0", data}))
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}

	_, err := read([]byte("\x80\x02legacy"))
	require.ErrorContains(t, err, "neither a ZIP archive")
	_, err = read(archiveOf(t, entry{"x/other", ""}))
	require.ErrorContains(t, err, "no data.pkl")
	_, err = read(archiveOf(t, entry{"x/data.pkl", dictOf("w", good)}))
	require.ErrorContains(t, err, `tensor "w": data/0 is missing`)
	_, err = read(archiveOf(t, entry{"x/data.pkl", dictOf("w", good)}, entry{"x/data/0", data}, entry{"x/byteorder", "big"}))
	require.ErrorContains(t, err, "little-endian")
	_, err = read(archiveOf(t, entry{"x/data.pkl", strings.Repeat("N", maxPickleBytes+1)}))
	require.ErrorContains(t, err, "data.pkl has")
	// Each of twenty dictionaries holds the one before ten times.
	wide := "}q\x00"
	for i := range 20 {
		wide = "}(" + str("a") + wide + strings.Repeat(str("a")+"h"+string([]byte{byte(i)}), 9) + "uq" + string([]byte{byte(i + 1)})
	}
	_, err = read(archiveOf(t, entry{"x/data.pkl", begin + wide + "."}))
	require.ErrorContains(t, err, "more than 1000000 entries")
	// A chain of dictionaries, each within the next.
	_, err = read(archiveOf(t, entry{"x/data.pkl", begin + strings.Repeat("}"+str("a"), 40) + "}" + strings.Repeat("s", 40) + "."}))
	require.ErrorContains(t, err, "nested more than")
}

// TestStoragesTogether: a small archive can unpack to many large storages, of which each tensor asks for one value.
func TestStoragesTogether(t *testing.T) {
	reads := 0
	c := collector{tensors: make(map[string]Tensor), storages: make(map[string][]byte), read: func(storageRef, int64) ([]byte, error) {
		reads++
		return make([]byte, 4), nil
	}}
	all := &dict{}
	for _, key := range []string{"a", "b", "c"} {
		all.keys = append(all.keys, key)
		all.values = append(all.values, tensorRef{storage: storageRef{"torch.FloatStorage", key, maxValues / 2}})
	}
	require.ErrorContains(t, c.collect(all, "", 0), `tensor "c": the file's storages have more than`)
	require.Equal(t, 2, reads)
}

// legacyStorage spells a persistent id as PyTorch did before 1.6.
func legacyStorage(key string, values byte) string {
	return "(" + str("storage") + "ctorch\nFloatStorage\n" + str(key) + str("cpu") + "K" + string([]byte{values}) + "NtQ"
}

// legacy spells a file as PyTorch wrote it before 1.6: the pickle of what was saved, the
// list of storages, and what follows that.
func legacy(pickle, keys, rest string) []byte {
	machine := begin + "}(" + str("protocol_version") + "M\xe9\x03" + str("little_endian") + "\x88u."
	return []byte(legacyMagic + begin + "M\xe9\x03." + machine + pickle + begin + "](" + keys + "e." + rest)
}

// counted spells a storage of such a file.
func counted(values ...float32) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(values)))) + float32s(values...)
}

// TestReadLegacy reads what PyTorch wrote before 1.6: storages lie in the order of
// the list, not in that of their use.
func TestReadLegacy(t *testing.T) {
	vector := "K\x01K\x01\x85K\x01\x85" // offset 1, shape (1), stride 1
	pickle := begin + odict + "(" + str("a") + args + legacyStorage("x", 2) + vector + end +
		str("b") + args + legacyStorage("y", 6) + matrix + end + "u."
	whole := legacy(pickle, str("y")+str("x"), counted(1, 2, 3, 4, 5, 6)+counted(7, 8))
	tensors, err := read(whole)
	require.NoError(t, err)
	assert.Equal(t, map[string]Tensor{
		"a": {Shape: []int{1}, Data: []float32{8}},
		"b": {Shape: []int{2, 3}, Data: []float32{1, 2, 3, 4, 5, 6}},
	}, tensors)

	// However it is cut off, it is refused, and what is missing is said of storages.
	for n := range len(whole) {
		_, err := read(whole[:n])
		require.Error(t, err, "of %d bytes", n)
		if n >= len(whole)-len(counted(1, 2, 3, 4, 5, 6)+counted(7, 8)) {
			require.ErrorContains(t, err, "it is truncated", "of %d bytes", n)
		}
	}

	for _, test := range []struct {
		name string
		file []byte
		want string
	}{
		{"more", append(whole[:len(whole):len(whole)], 0), "1 bytes follow the last storage"},
		{"count", legacy(pickle, str("y")+str("x"), counted(1, 2, 3, 4, 5)+counted(7, 8)), "storage y has 5 values, but its tensors say 6"},
		{"missing", legacy(pickle, str("y"), counted(1, 2, 3, 4, 5, 6)), "storage x is missing"},
		{"twice", legacy(pickle, str("y")+str("y"), counted(1, 2, 3, 4, 5, 6)+counted(1, 2, 3, 4, 5, 6)), "which it holds twice"},
		{"unknown", legacy(pickle, str("z"), ""), `holds "z"`},
		{"no list", []byte(legacyMagic + begin + "M\xe9\x03." + begin + "}(" + str("little_endian") + "\x88u." + pickle + begin + "K\x01."), "no list of storages"},
		{"big", []byte(legacyMagic + begin + "M\xe9\x03." + begin + "}(" + str("little_endian") + "\x89u." + pickle), "little-endian"},
		{"version", []byte(legacyMagic + begin + "M\xea\x03."), "the version of its format is 1002, not 1001"},
		{"part", legacy(begin+odict+str("a")+args+strings.Replace(legacyStorage("x", 2), "NtQ", "K\x01tQ", 1)+vector+end+"s.", str("x"), counted(7, 8)), "a part of another"},
		{"two sizes", legacy(begin+odict+"("+str("a")+args+legacyStorage("x", 2)+vector+end+str("b")+args+legacyStorage("x", 3)+vector+end+"u.", str("x"), counted(7, 8)), `storage "x" is of 3 values`},
		{"program", legacy(begin+"cos\nsystem\n("+str("true")+"tR.", "", ""), "os.system is called"},
		{"tar", []byte(strings.Repeat("\x00", tarMagicAt) + tarMagic + "  \x00"), "tar archive"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := read(test.file)
			require.ErrorContains(t, err, test.want)
			assert.NotContains(t, err.Error(), "\n")
		})
	}
}

func TestReadFile(t *testing.T) {
	tensors, err := ReadFile(filepath.Join(golden, "dna_r10.4.1_small@v4.0.0.dorado", "4.rnn.weight_ih_l0.tensor"))
	require.NoError(t, err)
	require.Len(t, tensors, 1)
	assert.Equal(t, []int{24, 6}, tensors["0"].Shape)
	tensors, err = ReadFile(filepath.Join(golden, "dna_r9.4.1_small@v3.0", "weights_2.tar"))
	require.NoError(t, err)
	assert.Equal(t, []int{4, 16, 19}, tensors["encoder.2.conv.weight"].Shape)
	_, err = ReadFile("missing.tar")
	require.ErrorIs(t, err, os.ErrNotExist)
}

// FuzzUnpickle runs arbitrary pickles beside a storage.
func FuzzUnpickle(f *testing.F) {
	f.Add([]byte(dictOf("w", args+storage("FloatStorage", 6)+matrix+end)))
	f.Add([]byte(begin + "c__torch__\nModule\n)\x81}(" + str("0") + args + storage("HalfStorage", 6) + matrix + end + "ub."))
	f.Add([]byte(begin + "](K\x01K\x02e}q\x00h\x00\x86."))
	f.Add([]byte(begin + "}q\x00" + str("a") + "h\x00s."))
	f.Fuzz(func(t *testing.T, pickle []byte) {
		tensors, err := read(archiveOf(t, entry{"x/data.pkl", string(pickle)}, entry{"x/data/0", float32s(1, 2, 3, 4, 5, 6)}))
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Fatalf("%q", err)
			}
			return
		}
		for name, tensor := range tensors {
			n := 1
			for _, d := range tensor.Shape {
				n *= d
			}
			if n != len(tensor.Data) {
				t.Fatalf("%q: shape %d, %d values", name, tensor.Shape, len(tensor.Data))
			}
		}
	})
}

// FuzzRead reads arbitrary files.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"dna_r10.4.1_small@v4.0.0.dorado/4.rnn.bias_ih_l0.tensor"} {
		data, err := os.ReadFile(filepath.Join(golden, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add(legacy(dictOf("a", args+legacyStorage("x", 6)+matrix+end), str("x"), counted(1, 2, 3, 4, 5, 6)))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_, _ = read(data)
	})
}
