package infer

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"os"
	"slices"
	"sync"

	"github.com/porestream/porestream/basecall/scores"
)

// A file of scores holds what a network made of windows, for a simulated device
// to give back:
//
//	"PSSC" version(1)=2 0 0 0
//	SHA-256 of the network(32)
//	samples, frames and classes of a window (4 each, little endian)
//	unit of windows that are shorter, in samples, 0: there are none (4)
//	windows: beginning of the SHA-256 of the input(16), frames(4), CRC-32C of the scores(4), scores (float32, little endian)
//
// The input is hashed as float32, little endian. No window is there twice.
const (
	scoresMagic      = "PSSC\x02\x00\x00\x00"
	scoresNetwork    = len(scoresMagic) + sha256.Size + 12 // what says which network it is
	scoresHeader     = scoresNetwork + 4
	scoresWindowHead = windowKeyLen + 8
	windowKeyLen     = 16
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// windowKey identifies a window by its input.
type windowKey [windowKeyLen]byte

func appendFloats(b []byte, x []float32) []byte {
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

// scoresHead is the head of a file of the network's scores, up to the unit.
func scoresHead(net Network) []byte {
	sum := sha256.Sum256(net.ONNX)
	b := append([]byte(scoresMagic), sum[:]...)
	for _, n := range []int{net.Samples, net.Frames, net.Classes} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	return b
}

// scoresWriter writes a file of scores for several runners.
type scoresWriter struct {
	mu      sync.Mutex
	file    *os.File
	buf     *bufio.Writer
	known   map[windowKey]bool
	scratch []byte
	floats  []float32
	err     error
	runners int // that have not been closed
}

func createScores(path string, net Network, unit int) (*scoresWriter, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("recording scores: %w", err)
	}
	w := &scoresWriter{file: f, buf: bufio.NewWriterSize(f, 1<<20), known: make(map[windowKey]bool)}
	_, w.err = w.buf.Write(binary.LittleEndian.AppendUint32(scoresHead(net), uint32(unit)))
	return w, nil
}

func (w *scoresWriter) add(key windowKey, window scores.Window) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil || w.known[key] {
		return
	}
	w.known[key] = true
	n := window.Frames * window.Classes
	w.floats = slices.Grow(w.floats[:0], n)[:n]
	window.Copy(w.floats)
	w.scratch = binary.LittleEndian.AppendUint32(append(w.scratch[:0], key[:]...), uint32(window.Frames))
	w.scratch = appendFloats(append(w.scratch, 0, 0, 0, 0), w.floats)
	binary.LittleEndian.PutUint32(w.scratch[scoresWindowHead-4:], crc32.Checksum(w.scratch[scoresWindowHead:], castagnoli))
	_, w.err = w.buf.Write(w.scratch)
}

// close ends the file with the last runner.
func (w *scoresWriter) close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.runners--; w.runners > 0 {
		return nil
	}
	if err := errors.Join(w.err, w.buf.Flush(), w.file.Close()); err != nil {
		return fmt.Errorf("recording scores: %w", err)
	}
	return nil
}

// recorder is a runner that writes down what it computes.
type recorder struct {
	Runner
	scores *scoresWriter
	keys   []windowKey // of the last Run's windows
	buf    []byte
}

// record makes runners write down what they compute, shorter windows in a unit.
func record(runners []Runner, path string, net Network, unit int) error {
	w, err := createScores(path, net, unit)
	if err != nil {
		return err
	}
	w.runners = len(runners)
	for i, r := range runners {
		runners[i] = &recorder{Runner: r, scores: w}
	}
	return nil
}

// Run implements Runner.
func (r *recorder) Run(rows, samples int) (int, error) {
	r.keys = r.keys[:0]
	for row := range rows {
		r.buf = appendFloats(r.buf[:0], r.Input(row)[:samples])
		sum := sha256.Sum256(r.buf)
		r.keys = append(r.keys, windowKey(sum[:]))
	}
	return r.Runner.Run(rows, samples)
}

// Scores implements Runner.
func (r *recorder) Scores(row int) scores.Window {
	w := r.Runner.Scores(row)
	r.scores.add(r.keys[row], w)
	return w
}

// Close implements Runner.
func (r *recorder) Close() error { return errors.Join(r.Runner.Close(), r.scores.close()) }

// scoresReader finds windows in a file of scores. It is safe for concurrent use.
type scoresReader struct {
	path    string
	file    *os.File
	offsets map[windowKey]int64
	unit    int // of windows that are shorter, or 0
	frames  int // of a window, at most
	classes int
}

func openScores(path string, net Network) (*scoresReader, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening recorded scores: %w", err)
	}
	r := &scoresReader{path: path, file: f, offsets: make(map[windowKey]int64), frames: net.Frames, classes: net.Classes}
	if err := r.index(net); err != nil {
		f.Close()
		return nil, fmt.Errorf("reading recorded scores from %s: %w", path, err)
	}
	return r, nil
}

// index reads the keys of all windows.
func (r *scoresReader) index(net Network) error {
	info, err := r.file.Stat()
	if err != nil {
		return err
	}
	head := make([]byte, scoresHeader)
	if _, err := r.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	switch want := scoresHead(net); {
	case string(head[:len(scoresMagic)]) != scoresMagic:
		return errors.New("it is no file of scores, or of an earlier version: make one with pore basecall --record-scores")
	case string(head[:scoresNetwork]) != string(want):
		return fmt.Errorf("the scores are not those of network %s: record them anew", net.Name)
	}
	if r.unit = int(binary.LittleEndian.Uint32(head[scoresNetwork:])); r.unit != 0 && r.unit != net.Unit {
		return fmt.Errorf("network %s has other lengths of a read's last window now: record the scores anew", net.Name)
	}
	window := make([]byte, scoresWindowHead)
	for at := int64(scoresHeader); at < info.Size(); {
		_, err := r.file.ReadAt(window, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		frames := int(binary.LittleEndian.Uint32(window[windowKeyLen:]))
		end := at + int64(scoresWindowHead) + 4*int64(frames)*int64(r.classes)
		if err != nil || end > info.Size() {
			return errors.New("the file ends in the middle of a window: the recording was interrupted")
		}
		if frames == 0 || frames > r.frames {
			return fmt.Errorf("the window at byte %d has %d frames, not 1 to %d", at, frames, r.frames)
		}
		r.offsets[windowKey(window)] = at
		at = end
	}
	return nil
}

// find writes the scores of a window to dst. buf is for its use.
func (r *scoresReader) find(input, dst []float32, buf []byte) ([]byte, error) {
	buf = appendFloats(buf[:0], input)
	sum := sha256.Sum256(buf)
	at, known := r.offsets[windowKey(sum[:])]
	if !known {
		return buf, fmt.Errorf("a window is not in %s: a simulated device knows only the signal that its scores were recorded with", r.path)
	}
	buf = slices.Grow(buf[:0], scoresWindowHead+4*len(dst))[:scoresWindowHead+4*len(dst)]
	if _, err := r.file.ReadAt(buf, at); err != nil {
		return buf, fmt.Errorf("reading recorded scores: %w", err)
	}
	if int(binary.LittleEndian.Uint32(buf[windowKeyLen:]))*r.classes != len(dst) ||
		crc32.Checksum(buf[scoresWindowHead:], castagnoli) != binary.LittleEndian.Uint32(buf[scoresWindowHead-4:]) {
		return buf, fmt.Errorf("reading recorded scores from %s: the window at byte %d is damaged", r.path, at)
	}
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(buf[scoresWindowHead+4*i:]))
	}
	return buf, nil
}
