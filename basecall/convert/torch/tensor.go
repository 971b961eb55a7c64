package torch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"

	"github.com/porestream/porestream/basecall/half"
)

// maxValues is the number of values in all tensors of a file: four times the
// largest basecaller's, and as many as an ONNX file can hold in float32.
const maxValues = 512 << 20

// Limits on how tensors are nested in a file.
const (
	maxEntries = 1_000_000
	maxDepth   = 32
)

// Tensor holds values in row-major order, whatever the file's order and type.
type Tensor struct {
	Shape []int
	Data  []float32
}

// ReadFile reads all tensors of a file by torch.save or torch.jit.save. Their names
// are the keys of the state dict, or the names of a module's parameters, with
// those of modules within it joined by dots.
func ReadFile(name string) (map[string]Tensor, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	tensors, err := Read(f, info.Size())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return tensors, nil
}

// ReadOne returns the only tensor of a file, as Dorado's hold one each.
func ReadOne(name string) (Tensor, error) {
	all, err := ReadFile(name)
	if err != nil {
		return Tensor{}, err
	}
	if len(all) != 1 {
		return Tensor{}, fmt.Errorf("%s: it holds %d tensors, not one", name, len(all))
	}
	var only Tensor
	for _, t := range all {
		only = t
	}
	return only, nil
}

// Read is [ReadFile] for any file of a known size.
func Read(r io.ReaderAt, size int64) (map[string]Tensor, error) {
	head := make([]byte, min(size, tarMagicAt+int64(len(tarMagic))))
	if _, err := r.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	var root any
	var err error
	c := collector{tensors: make(map[string]Tensor), storages: make(map[string][]byte)}
	switch {
	case bytes.HasPrefix(head, []byte(legacyMagic)):
		root, c.read, err = readLegacy(r, size)
	case bytes.HasSuffix(head, []byte(tarMagic)):
		err = errors.New("it is a tar archive, as PyTorch wrote before 0.1.10 (2017): such files are not read")
	default:
		root, c.read, err = readZip(r, size)
	}
	if err != nil {
		return nil, err
	}
	if err := c.collect(root, "", 0); err != nil {
		return nil, err
	}
	if len(c.tensors) == 0 {
		return nil, errors.New("it holds no tensors")
	}
	return c.tensors, nil
}

// readZip reads the pickle of a file as PyTorch writes it since 1.6, and returns what it
// describes and how to read the bytes of its storages.
func readZip(r io.ReaderAt, size int64) (root any, storage readStorage, err error) {
	z, err := zip.NewReader(r, size)
	if errors.Is(err, zip.ErrFormat) {
		return nil, nil, errors.New("it is neither a ZIP archive, as PyTorch writes since 1.6, nor in the form before: no file of tensors, or a truncated one")
	}
	if err != nil {
		return nil, nil, err
	}
	a := archive{files: make(map[string]*zip.File, len(z.File))}
	for _, f := range z.File {
		if strings.HasSuffix(f.Name, "/data.pkl") && strings.Count(f.Name, "/") == 1 {
			a.folder = path.Dir(f.Name)
		}
		a.files[f.Name] = f
	}
	if a.folder == "" {
		return nil, nil, errors.New("it holds no data.pkl: it is not a file of tensors that PyTorch wrote")
	}
	if a.files[a.folder+"/byteorder"] != nil {
		order, err := a.read("byteorder", 16)
		if err != nil {
			return nil, nil, err
		}
		if string(order) != "little" {
			return nil, nil, fmt.Errorf("byteorder is %q; only little-endian files are read", order)
		}
	}
	text, err := a.read("data.pkl", maxPickleBytes)
	if err != nil {
		return nil, nil, err
	}
	root, err = unpickle(text)
	if err != nil {
		return nil, nil, fmt.Errorf("data.pkl: %w", err)
	}
	return root, func(ref storageRef, size int64) ([]byte, error) {
		data, err := a.read("data/"+ref.key, size)
		if err == nil && int64(len(data)) != size {
			err = fmt.Errorf("data/%s has %d bytes, not %d", ref.key, len(data), size)
		}
		return data, err
	}, nil
}

// archive is an open ZIP archive.
type archive struct {
	folder string
	files  map[string]*zip.File
}

// read returns the content of a file in the archive, at most limit bytes.
func (a *archive) read(name string, limit int64) ([]byte, error) {
	f := a.files[a.folder+"/"+name]
	if f == nil {
		return nil, fmt.Errorf("%s is missing", name)
	}
	if f.UncompressedSize64 > uint64(limit) {
		return nil, fmt.Errorf("%s has %d bytes, more than %d", name, f.UncompressedSize64, limit)
	}
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	defer r.Close()
	// A buffer that grows: the size in the directory may be a lie.
	var b bytes.Buffer
	if _, err := io.Copy(&b, io.LimitReader(r, limit+1)); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if int64(b.Len()) > limit {
		return nil, fmt.Errorf("%s has more than %d bytes", name, limit)
	}
	return b.Bytes(), nil
}

// readStorage reads the bytes of a storage, which are size.
type readStorage func(ref storageRef, size int64) ([]byte, error)

// collector collects the tensors of a file.
type collector struct {
	read     readStorage
	storages map[string][]byte // those that were read
	tensors  map[string]Tensor
	values   int64 // in tensors so far
	stored   int64 // values in storages so far
	entries  int   // of dictionaries so far
}

// collect adds the tensors in a value.
func (c *collector) collect(v any, name string, depth int) error {
	switch v := v.(type) {
	case tensorRef:
		t, err := c.tensor(v)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		c.tensors[name] = t
	case *dict:
		if depth == maxDepth {
			return fmt.Errorf("modules are nested more than %d deep", maxDepth)
		}
		for i, key := range v.keys {
			// A dictionary may hold another many times, and even itself.
			if c.entries++; c.entries > maxEntries {
				return fmt.Errorf("modules have more than %d entries", maxEntries)
			}
			key, ok := key.(string)
			if !ok {
				continue
			}
			if name != "" {
				key = name + "." + key
			}
			if err := c.collect(v.values[i], key, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// decoders give the size of a value and how to read it, by type of storage.
var decoders = map[string]struct {
	size int
	read func(b []byte) float32
}{
	"torch.FloatStorage":  {4, func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }},
	"torch.DoubleStorage": {8, func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) }},
	"torch.HalfStorage":   {2, func(b []byte) float32 { return half.ToFloat(binary.LittleEndian.Uint16(b)) }},
	"torch.BFloat16Storage": {2, func(b []byte) float32 {
		return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16)
	}},
	"torch.LongStorage": {8, func(b []byte) float32 { return float32(int64(binary.LittleEndian.Uint64(b))) }},
	"torch.IntStorage":  {4, func(b []byte) float32 { return float32(int32(binary.LittleEndian.Uint32(b))) }},
}

// tensor reads the values of a tensor.
func (c *collector) tensor(ref tensorRef) (Tensor, error) {
	decoder, known := decoders[ref.storage.kind]
	if !known {
		return Tensor{}, fmt.Errorf("values of type %s are not read", ref.storage.kind)
	}
	count := int64(1)
	t := Tensor{Shape: make([]int, len(ref.shape))}
	for i, n := range ref.shape {
		t.Shape[i] = int(n)
		if count *= n; count > maxValues {
			return Tensor{}, fmt.Errorf("shape %d has more than %d values", ref.shape, maxValues)
		}
	}
	// A tensor of more values than it has stored repeats some. No parameter does,
	// and a small file could ask for any amount of memory.
	if count > ref.storage.values {
		return Tensor{}, fmt.Errorf("shape %d has more values than its storage, %d", ref.shape, ref.storage.values)
	}
	if c.values += count; c.values > maxValues {
		return Tensor{}, fmt.Errorf("the file's tensors have more than %d values", maxValues)
	}
	data, known := c.storages[ref.storage.key]
	if !known {
		// Storages are kept, and a small archive may unpack to many large ones.
		if ref.storage.values > maxValues-c.stored {
			return Tensor{}, fmt.Errorf("the file's storages have more than %d values", maxValues)
		}
		c.stored += ref.storage.values
		var err error
		if data, err = c.read(ref.storage, ref.storage.values*int64(decoder.size)); err != nil {
			return Tensor{}, err
		}
		c.storages[ref.storage.key] = data
	}
	t.Data = make([]float32, count)
	index := make([]int64, len(ref.shape))
	at := ref.offset
	for i := range t.Data {
		t.Data[i] = decoder.read(data[at*int64(decoder.size):])
		// The next index, the last dimension fastest.
		for d := len(index) - 1; d >= 0; d-- {
			at += ref.stride[d]
			if index[d]++; index[d] < ref.shape[d] {
				break
			}
			at -= index[d] * ref.stride[d]
			index[d] = 0
		}
	}
	return t, nil
}
