package stage

import (
	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/output"
	"github.com/porestream/porestream/demux"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Headers of records on the topic of basecalls; docs/basecalls.md is the contract.
const (
	headerRun    = "run"
	headerSample = "sample"
	headerFilter = "filter"
)

// maxPublishedBases is how many bases a record has room for, with their qualities and
// what stands before them.
const maxPublishedBases = (stream.MaxRecord - 1<<14) / 2

// published returns the records of a called part of a read: FASTQ, as files have it. What
// is not a whole read is named as a part that a read was split into.
func (h *handler) published(run *streampb.Run, read *assembledRead, f finished) []stream.Out {
	called := f.called
	if h.cfg.Publish == "" || len(called.Sequence) == 0 {
		return nil
	}
	r := output.Record{Barcode: f.barcode, Read: &signal.Read{
		ID: read.id, Channel: read.channel, Number: read.number, StartSample: read.start, Run: recorded(run),
	}}
	filter := "pass"
	if f.outcome == outcomeLowQuality || f.outcome == outcomeUnclassified {
		filter = f.outcome.String()
	}
	headers := []stream.Header{
		{Key: headerRun, Value: []byte(run.GetId())}, {Key: headerSample, Value: []byte(f.sample)}, {Key: headerFilter, Value: []byte(filter)},
	}
	whole := f.from == 0 && f.to == read.total && len(called.Sequence) <= maxPublishedBases
	var outs []stream.Out
	for from := 0; from < len(called.Sequence); from += maxPublishedBases {
		to := min(from+maxPublishedBases, len(called.Sequence))
		r.Called = called.Slice(from, to, basecall.QualityManifest{})
		r.Called.MeanQuality = called.MeanQuality
		if !whole {
			first, leads := from, from == 0
			if called.FromEnd {
				first, leads = to-1, to == len(called.Sequence)
			}
			r.Parent, r.ParentStart = read.id, int(f.from)
			if !leads {
				r.ParentStart += called.BaseStart(first)
			}
			r.Read.ID = demux.ChildID(read.id, r.ParentStart)
		}
		outs = append(outs, stream.Out{
			Topic: h.cfg.Topics.Basecalls, Partition: stream.AnyPartition,
			Key: stream.SignalKey(run.GetId(), read.channel), Value: output.AppendFASTQ(nil, r, h.cfg.Publish), Headers: headers,
		})
	}
	return outs
}
