package infer

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall/scores"
)

// recordScores makes a file of the scores of windows on a fake network; in a unit every third is shorter.
func recordScores(t *testing.T, net Network, windows int) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "scores.pssc")
	runners := []Runner{newNegation(net, 4), newNegation(net, 4)}
	require.NoError(t, record(runners, path, net, net.Unit))
	out := make([]float32, net.Frames*net.Classes)
	for i := range 2 * windows { // every window twice
		r := runners[i%2]
		fillProbe(r.Input(i%4), i%windows)
		_, err := r.Run(4, lengthOf(net, i%windows))
		require.NoError(t, err)
		r.Scores(i % 4).Copy(out)
	}
	for _, r := range runners {
		require.NoError(t, r.Close())
	}
	return path
}

// lengthOf is how many samples the window of a number has.
func lengthOf(net Network, i int) int {
	if net.Unit > 0 && i%3 == 2 {
		return net.Unit
	}
	return net.Samples
}

// negation is a network whose scores are the first samples, negated.
type negation struct {
	net    Network
	in     [][]float32
	length int
}

func newNegation(net Network, batch int) *negation {
	r := &negation{net: net, in: make([][]float32, batch)}
	for i := range r.in {
		r.in[i] = make([]float32, net.Samples)
	}
	return r
}

func (r *negation) Input(row int) []float32 { return r.in[row] }

func (r *negation) Run(rows, samples int) (int, error) {
	r.length = samples
	return rows, nil
}
func (*negation) Count(int, int) {}

func (r *negation) Scores(row int) scores.Window {
	out := make([]float32, r.net.framesOf(r.length)*r.net.Classes)
	for i := range out {
		out[i] = -r.in[row][i]
	}
	return scores.OfFloats(out, r.net.Classes)
}
func (r *negation) Close() error { return nil }

var negated = Network{Name: "negated", ONNX: []byte("not ONNX"), Samples: 12, Frames: 4, Classes: 2}

func TestSimulatedDevice(t *testing.T) {
	path := recordScores(t, negated, 10)
	r, err := Open(negated, Options{Device: "sim:250ms:3:" + path})
	require.NoError(t, err)
	assert.Equal(t, 3, r.Batch)
	assert.Equal(t, "sim:250ms:3", r.DeviceNames())
	synctest.Test(t, func(t *testing.T) {
		b, err := NewBatcher(r.Runners, BatcherConfig{Batch: r.Batch, Queue: 20, MaxDelay: time.Hour})
		require.NoError(t, err)
		p := b.NewProducer(20)
		defer p.Close()
		start := time.Now()
		for i := range 9 {
			req := &Request{Input: make([]float32, 12), Output: make([]float32, 8), Tag: i}
			fillProbe(req.Input, i)
			require.NoError(t, p.Submit(t.Context(), req))
		}
		for range 9 {
			req, err := p.Receive(t.Context())
			require.NoError(t, err)
			require.NoError(t, req.Err)
			for i, score := range req.Output {
				require.Equal(t, -req.Input[i], score)
			}
		}
		assert.Equal(t, 750*time.Millisecond, time.Since(start), "three batches")

		stranger := &Request{Input: make([]float32, 12), Output: make([]float32, 8)}
		require.NoError(t, p.Submit(t.Context(), stranger))
		req, err := p.Receive(t.Context())
		require.NoError(t, err)
		require.ErrorContains(t, req.Err, "a window is not in "+path)
		require.NoError(t, b.Close())
	})
}

// TestShorterWindowsAreRecorded: a simulated device has those of the network that was recorded.
func TestShorterWindowsAreRecorded(t *testing.T) {
	net := negated
	net.Unit = 6
	r, err := Open(net, Options{Device: "sim:1ns:1:" + recordScores(t, net, 7)})
	require.NoError(t, err)
	defer r.Close()
	require.Equal(t, 6, r.Unit)
	runner := r.Runners[0]
	fillProbe(runner.Input(0), 9) // of a batch before
	for i := range 7 {
		length := lengthOf(net, i)
		fillProbe(runner.Input(0)[:length], i)
		_, err := runner.Run(1, length)
		require.NoError(t, err)
		w := runner.Scores(0)
		require.Equal(t, length/3, w.Frames)
		have := make([]float32, w.Frames*w.Classes)
		w.Copy(have)
		for j, score := range have {
			require.Equal(t, -runner.Input(0)[j], score)
		}
	}
	fillProbe(runner.Input(0), 2)
	_, err = runner.Run(1, net.Samples)
	require.ErrorContains(t, err, "a window is not in ", "of more samples it is another")

	r, err = Open(net, Options{Device: "sim:1ns:1:" + recordScores(t, negated, 7)})
	require.NoError(t, err)
	defer r.Close()
	assert.Zero(t, r.Unit, "the recorded windows are of one length")
}

// TestShorterWindowsTakeLess: the ends of reads, whose batches are small, must not take as long as whole windows.
func TestShorterWindowsTakeLess(t *testing.T) {
	net := negated
	net.Unit = 6
	path := recordScores(t, net, 7)
	synctest.Test(t, func(t *testing.T) {
		r, err := Open(net, Options{Device: "sim:10s:1:" + path})
		require.NoError(t, err)
		defer r.Close()
		for i, want := range map[int]time.Duration{1: 10 * time.Second, 2: 5 * time.Second} {
			length := lengthOf(net, i)
			fillProbe(r.Runners[0].Input(0)[:length], i)
			start := time.Now()
			_, err := r.Runners[0].Run(1, length)
			require.NoError(t, err)
			require.Equal(t, want, time.Since(start))
		}
	})
}

func TestSimulatedDeviceRefuses(t *testing.T) {
	path := recordScores(t, negated, 3)
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	file := func(name string, b []byte) string {
		p := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(p, b, 0o644))
		return p
	}
	other, longer := negated, negated
	other.ONNX = []byte("another")
	longer.Unit = 6
	ofLonger := recordScores(t, longer, 3)
	more := []byte(strings.Clone(string(content)))
	more[scoresHeader+windowKeyLen] = 5
	for _, test := range []struct {
		device string
		net    Network
		record string
		want   string
	}{
		{"sim:", negated, "", "latency, batch or file is missing"},
		{"sim:1s:4:", negated, "", "latency, batch or file is missing"},
		{"sim:fast:4:x", negated, "", `"fast" is not a latency`},
		{"sim:-1s:4:x", negated, "", `"-1s" is not a latency`},
		{"sim:1s:0:x", negated, "", `"0" is not a number of windows`},
		{"sim:1s:4:nowhere", negated, "", "opening recorded scores"},
		{"sim:1s:4:" + file("foreign", []byte("hello")), negated, "", "it is no file of scores"},
		{"sim:1s:4:" + file("short", content[:len(content)-1]), negated, "", "recording was interrupted"},
		{"sim:1s:4:" + path, other, "", "not those of network"},
		{"sim:1s:4:" + ofLonger, negated, "", "has other lengths of a read's last window now"},
		{"sim:1s:4:" + file("more", more), negated, "", "has 5 frames, not 1 to 4"},
		{"sim:1s:4:" + path, negated, "again", "can't be recorded"},
	} {
		_, err := Open(test.net, Options{Device: test.device, Record: test.record})
		require.ErrorContains(t, err, test.want, test.device)
		assert.NotContains(t, err.Error(), "\n")
	}
	_, err = ParseDevices("simulated")
	require.ErrorContains(t, err, "sim:LATENCY:BATCH:FILE")

	damaged := []byte(strings.Clone(string(content)))
	damaged[scoresHeader+scoresWindowHead+5] ^= 1
	r, err := openScores(file("damaged", damaged), negated)
	require.NoError(t, err)
	input := make([]float32, 12)
	fillProbe(input, 0)
	_, err = r.find(input, make([]float32, 8), nil)
	require.ErrorContains(t, err, "is damaged")
	require.NoError(t, r.file.Close())
}

// TestSimulatedDevicesShareAQueue: several GPUs, or slices of them, take batches from one queue as fast as each computes them.
func TestSimulatedDevicesShareAQueue(t *testing.T) {
	path := recordScores(t, negated, 24)
	for _, tt := range []struct {
		name    string
		devices []string // latencies of a batch of 3
		windows int
		want    time.Duration
	}{
		{"one", []string{"250ms"}, 24, 2 * time.Second},
		{"four that are alike", []string{"250ms", "250ms", "250ms", "250ms"}, 24, 500 * time.Millisecond},
		{"a slice with a fourth of the other's multiprocessors", []string{"100ms", "400ms"}, 15, 400 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var runners []Runner
			for _, latency := range tt.devices {
				r, err := Open(negated, Options{Device: "sim:" + latency + ":3:" + path})
				require.NoError(t, err)
				runners = append(runners, r.Runners...)
			}
			synctest.Test(t, func(t *testing.T) {
				b, err := NewBatcher(runners, BatcherConfig{Batch: 3, Queue: 30, MaxDelay: time.Hour})
				require.NoError(t, err)
				p := b.NewProducer(30)
				defer p.Close()
				start := time.Now()
				for i := range tt.windows {
					req := &Request{Input: make([]float32, 12), Output: make([]float32, 8), Tag: i}
					fillProbe(req.Input, i)
					require.NoError(t, p.Submit(t.Context(), req))
				}
				for range tt.windows {
					req, err := p.Receive(t.Context())
					require.NoError(t, err)
					require.NoError(t, req.Err)
					for i, score := range req.Output {
						require.Equal(t, -req.Input[i], score)
					}
				}
				assert.Equal(t, tt.want, time.Since(start))
				require.NoError(t, b.Close())
			})
		})
	}
}
