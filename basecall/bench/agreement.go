package bench

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
)

// Agreement is how far a device calls what the CPU calls in single precision.
type Agreement struct {
	Device    string `json:"device"`
	Precision string `json:"precision"`
	// Kernels is the number of layers that operators of our own compute.
	Kernels   int    `json:"kernel_layers,omitempty"`
	Scores    string `json:"scores"` // form in which they leave the network
	Reads     int    `json:"reads"`
	Identical int    `json:"identical_reads"` // with the same sequence
	// Edits and columns of the alignments of all reads' sequences, end to end.
	Edits    int64   `json:"edits"`
	Columns  int64   `json:"columns"`
	Identity float64 `json:"identity"` // 1 - edits/columns; 1 without columns
	// Different are the first reads with another sequence.
	Different []string `json:"different,omitempty"`
}

// mostDifferent is how many reads an Agreement names.
const mostDifferent = 10

// CompareCalls calls the reads on the CPU in single precision with scores in fp32, and as cfg says
// in others: on a GPU in single precision and, if the model has it, in half precision; on
// the CPU in half precision, and in whole numbers if the network has layers for them. On
// both with scores in eight bits, if the network bounds them.
func CompareCalls(ctx context.Context, model *basecall.Model, cfg basecall.Config, reads []basecall.Read) ([]Agreement, error) {
	if len(reads) == 0 {
		return nil, errors.New("comparing calls: there is no read")
	}
	ways := []infer.Compute{
		{Precision: infer.PrecisionSingle, Scores: infer.ScoresFloat},
		{Precision: infer.PrecisionSingle, Scores: infer.ScoresBytes},
		{Precision: infer.PrecisionHalf, Scores: infer.ScoresFloat},
		{Precision: infer.PrecisionInt8, Scores: infer.ScoresFloat},
	}
	// A last window that is shorter on a CPU would be called otherwise than on a GPU.
	cfg.WholeWindows = true
	reference := basecall.Config{WholeWindows: true, Device: infer.Device{}.String(), Library: cfg.Library, Logger: cfg.Logger, Compute: ways[0]}
	want, on, err := callSequences(ctx, model, reference, reads)
	if err != nil {
		return nil, err
	}
	onCPU := on.device
	var all []Agreement
	for i, way := range ways {
		switch {
		case i == 0 && cfg.Device == onCPU,
			way.Precision == infer.PrecisionHalf && model.Half == nil,
			way.Precision == infer.PrecisionInt8 && cfg.Device != onCPU:
			continue
		}
		chosen := cfg
		chosen.Precision, chosen.Scores = way.Precision, way.Scores
		if way.Precision != infer.PrecisionHalf {
			chosen.Kernels = infer.KernelsOff // they multiply half floats
		}
		have, on, err := callSequences(ctx, model, chosen, reads)
		if errors.Is(err, infer.ErrNoInt8) || errors.Is(err, infer.ErrNoBound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if cfg.Device = on.device; i == 0 && on.device == onCPU {
			continue // it was to be chosen, and there is no GPU
		}
		a := compareSequences(reads, want, have)
		a.Device, a.Precision, a.Scores, a.Kernels = on.device, way.Precision.String(), way.Scores.String(), on.kernels
		all = append(all, a)
	}
	return all, nil
}

// calledOn is what reads were called on.
type calledOn struct {
	device  string
	kernels int // layers that operators of our own computed
}

// callSequences returns the reads' sequences and what they were called on.
func callSequences(ctx context.Context, model *basecall.Model, cfg basecall.Config, reads []basecall.Read) (sequences [][]byte, on calledOn, err error) {
	c, err := basecall.NewCaller(model, cfg)
	if err != nil {
		return nil, calledOn{}, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	samples := 0
	for _, read := range reads {
		samples += len(read.Samples)
	}
	sequences = make([][]byte, len(reads))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(c.SideBySide(samples / len(reads)))
	for i, read := range reads {
		group.Go(func() error {
			called, err := c.CallAtLeisure(ctx, read)
			sequences[i] = called.Sequence
			return err
		})
	}
	return sequences, calledOn{c.Device(), c.Kernels().Layers}, group.Wait()
}

func compareSequences(reads []basecall.Read, want, have [][]byte) Agreement {
	a := Agreement{Reads: len(reads), Identity: 1}
	for i := range reads {
		edits, columns := align(want[i], have[i], mostEdits)
		a.Edits += int64(edits)
		a.Columns += int64(columns)
		if edits == 0 {
			a.Identical++
		} else if len(a.Different) < mostDifferent {
			a.Different = append(a.Different, reads[i].ID)
		}
	}
	if a.Columns > 0 {
		a.Identity = 1 - float64(a.Edits)/float64(a.Columns)
	}
	return a
}

// mostEdits is beyond how many edits two sequences are held to have nothing in common.
// Time grows with its square.
const mostEdits = 10_000

// align returns the least number of edits that make b of a, and the columns of such an
// alignment. Sequences that are further apart than limit count as wholly different. It
// follows, edit by edit, how far each diagonal is reached (Ukkonen 1985), so sequences
// that hardly differ take time by their length.
func align(a, b []byte, limit int) (edits, columns int) {
	type front struct{ i, columns int } // the furthest position in a, and the columns up to it
	run := func(f front, k int) front {
		for f.i < len(a) && f.i-k < len(b) && a[f.i] == b[f.i-k] {
			f.i++
			f.columns++
		}
		return f
	}
	const unreached = -1
	limit = min(limit, max(len(a), len(b)))
	reached, next := make([]front, 2*limit+3), make([]front, 2*limit+3)
	for k := range reached {
		reached[k].i, next[k].i = unreached, unreached
	}
	at := func(k int) int { return k + limit + 1 } // where the diagonal k = i - j is in them
	end := len(a) - len(b)
	reached[at(0)] = run(front{}, 0)
	for edits = 0; edits <= limit; edits++ {
		if end >= -edits && end <= edits && reached[at(end)].i == len(a) {
			return edits, reached[at(end)].columns
		}
		if edits == limit {
			break
		}
		for k := -edits - 1; k <= edits+1; k++ {
			best := front{i: unreached}
			for _, step := range []struct{ from, di int }{{k, 1}, {k - 1, 1}, {k + 1, 0}} { // other base, base of a alone, of b alone
				f := reached[at(step.from)]
				if f.i == unreached {
					continue
				}
				f.i += step.di
				f.columns++
				if f.i <= len(a) && f.i-k <= len(b) && f.i > best.i {
					best = f
				}
			}
			if best.i != unreached {
				best = run(best, k)
			}
			next[at(k)] = best
		}
		reached, next = next, reached
	}
	return max(len(a), len(b)), max(len(a), len(b))
}
