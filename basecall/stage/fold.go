package stage

import (
	"fmt"

	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/planted"
	"github.com/porestream/porestream/stream/streampb"
)

// fold is everything that the stage knows of its partition: a function of the
// records, whether what followed from them has been computed or not.
type fold struct {
	runs      stream.Runs
	assembler *assembler
	choices   *choices // nil: all runs have one model
}

func newFold(maxSamples, maxBytes int, c *choices) *fold {
	return &fold{assembler: newAssembler(maxSamples, maxBytes), choices: c}
}

// effects are what has to follow from a record, in this order.
type effects struct {
	reads []*assembledRead // to be called and emitted
	// marker is to be passed on, behind everything that came before: the start of a
	// run or, with end, its end.
	marker *streampb.Marker
	end    bool
	// added is what came of a chunk, for the record.
	chunk *streampb.SignalChunk
	added added
}

// apply folds in a record. A bad one (see [stream.IsBadRecord]) leaves no trace
// but its error.
func (f *fold) apply(rec stream.Record) (effects, error) {
	m, err := stream.DecodeSignal(rec.Value)
	if err != nil {
		return effects{}, err
	}
	switch body := m.Body.(type) {
	case *streampb.SignalRecord_RunStart:
		if err := f.runs.Begin(body.RunStart, rec); err != nil {
			return effects{}, err
		}
		if f.choices != nil {
			f.choices.begin(f.runs.Run(body.RunStart.GetRun().GetId()))
		}
		return effects{marker: body.RunStart}, nil
	case *streampb.SignalRecord_RunEnd:
		return f.runEnd(body.RunEnd, rec)
	default:
		return f.addChunk(m.GetChunk(), rec)
	}
}

func (f *fold) addChunk(c *streampb.SignalChunk, rec stream.Record) (effects, error) {
	run := f.runs.Run(c.GetRun())
	if run == nil {
		return effects{}, refuse(stream.CodeInvalid, "chunk of run %s, whose start marker is not in this partition", c.GetRun())
	}
	res, err := f.assembler.add(c, rec.Time.UnixMilli())
	if err != nil {
		return effects{}, err
	}
	if f.choices != nil {
		f.choices.begin(run)
	}
	f.runs.Touch(c.GetRun(), rec)
	return effects{reads: res.finished, chunk: c, added: res}, nil
}

// runEnd finishes the run's open reads once all sources have ended it.
func (f *fold) runEnd(mk *streampb.Marker, rec stream.Record) (effects, error) {
	ended, err := f.runs.Finish(mk, rec)
	if err != nil || !ended {
		return effects{}, err
	}
	reads := f.assembler.finishRun(mk.GetRun().GetId())
	e := effects{reads: reads, marker: mk, end: true, added: added{lostEnds: len(reads)}}
	if planted.Is(planted.ForgetRunEnd) {
		e.marker = nil
	}
	return e, nil
}

// fingerprint is what the state depends on besides the records.
func (f *fold) fingerprint(model string) string {
	return fmt.Sprintf("model=%s max-read-samples=%d max-open-bytes=%d", model, f.assembler.maxSamples, f.assembler.maxBytes)
}
