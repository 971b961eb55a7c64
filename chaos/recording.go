package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
)

// recording is one sequencing run made of reads of a real one.
type recording struct {
	path, run, sample string
	reads             int
	length            time.Duration // by its own clock
}

// deal deals the reads of a recording out to several runs, so that each is of real signal and all together are as long as the original.
func deal(ctx context.Context, source, dir string, runs, samples, limit int) ([]recording, error) {
	index, err := signal.NewIndex(ctx, []string{source})
	if err != nil {
		return nil, err
	}
	defer index.Close()
	reads := index.Len()
	if limit > 0 {
		reads = min(reads, limit)
	}
	list := make([]recording, runs)
	for k := range list {
		r := &list[k]
		r.run, r.sample = fmt.Sprintf("chaos-run-%d", k+1), fmt.Sprintf("sample-%d", k%samples+1)
		r.path = filepath.Join(dir, r.run+".blow5")
		var records [][]byte
		for i := k; i < reads; i += runs {
			entry := index.Entry(i)
			samples, err := index.Samples(i, nil)
			if err != nil {
				return nil, err
			}
			rate := entry.Run.SampleRate
			end := time.Duration(float64(entry.StartSample+uint64(len(samples))) / float64(rate) * float64(time.Second))
			r.length = max(r.length, end)
			records = append(records, blow5Record(&entry, samples))
		}
		r.reads = len(records)
		if err := os.WriteFile(r.path, blow5File(r.run, r.sample, records), 0o644); err != nil {
			return nil, fmt.Errorf("writing a recording: %w", err)
		}
	}
	return list, nil
}

// blow5File is a BLOW5 file of version 0.2.0 without compression, with one read group.
func blow5File(run, sample string, records [][]byte) []byte {
	file := blow5Head(run, sample)
	for _, r := range records {
		file = append(file, framed(r)...)
	}
	return append(file, blow5Foot...)
}

// blow5Head is what comes before the records, blow5Foot what comes behind.
func blow5Head(run, sample string) []byte {
	const headLen = 64
	text := "@run_id\t" + run + "\n@sample_id\t" + sample + "\n@flow_cell_product_code\tFLO-MIN106\n" +
		"#char*\tuint32_t\tdouble\tdouble\tdouble\tdouble\tuint64_t\tint16_t*\tchar*\tuint64_t\tint32_t\tuint8_t\n" +
		"#read_id\tread_group\tdigitisation\toffset\trange\tsampling_rate\tlen_raw_signal\traw_signal\tchannel_number\tstart_time\tread_number\tstart_mux\n"
	head := append([]byte(blow5.Signature), 0, 2, 0, 0, 1, 0, 0, 0, 0)
	head = append(head, make([]byte, headLen-len(head))...)
	head = binary.LittleEndian.AppendUint32(head, uint32(len(text)))
	return append(head, text...)
}

const blow5Foot = "5WOLB"

// framed puts its length before a record.
func framed(record []byte) []byte {
	return append(binary.LittleEndian.AppendUint64(nil, uint64(len(record))), record...)
}

func blow5Record(r *signal.Read, samples []int16) []byte {
	le := binary.LittleEndian
	text := func(b []byte, s string) []byte { return append(le.AppendUint16(b, uint16(len(s))), s...) }
	b := text(nil, r.ID)
	b = le.AppendUint32(b, 0)
	for _, v := range []float64{1, float64(r.Calibration.Offset), float64(r.Calibration.Scale), float64(r.Run.SampleRate)} {
		b = le.AppendUint64(b, math.Float64bits(v))
	}
	b = le.AppendUint64(b, uint64(len(samples)))
	for _, s := range samples {
		b = le.AppendUint16(b, uint16(s))
	}
	channel := fmt.Sprint(r.Channel)
	b = le.AppendUint64(b, uint64(len(channel)))
	b = append(b, channel...)
	b = le.AppendUint64(b, r.StartSample)
	b = le.AppendUint32(b, r.Number)
	return append(b, r.Well)
}

// strandGap is for how long a pore is open between two strands.
const strandGap = time.Second

// stretch writes a recording to dir in which so many channels sequence one strand after the other for a time. The strands are those of a real
// recording, again and again under new names.
func stretch(ctx context.Context, source, dir string, channels int, length time.Duration) (_ recording, err error) {
	index, err := signal.NewIndex(ctx, []string{source})
	if err != nil {
		return recording{}, err
	}
	defer index.Close()
	r := recording{run: "soak-run", sample: "sample-1", path: filepath.Join(dir, "soak.blow5")}
	file, err := os.Create(r.path)
	if err != nil {
		return r, fmt.Errorf("writing a recording: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	w := bufio.NewWriterSize(file, 1<<20)
	w.Write(blow5Head(r.run, r.sample))
	var samples []int16
	for channel := range channels {
		for at := time.Duration(channel) * strandGap; at < length; {
			if ctx.Err() != nil {
				return r, ctx.Err()
			}
			entry := index.Entry(r.reads % index.Len())
			if samples, err = index.Samples(r.reads%index.Len(), samples[:0]); err != nil {
				return r, err
			}
			rate := float64(entry.Run.SampleRate)
			// A UUID has 36 characters; the last 12 distinguish the copies of a strand.
			entry.ID = fmt.Sprintf("%.24s%012x", entry.ID, r.reads)
			entry.Channel, entry.Number, entry.StartSample = uint32(channel+1), uint32(r.reads), uint64(at.Seconds()*rate)
			w.Write(framed(blow5Record(&entry, samples)))
			at += time.Duration(float64(len(samples))/rate*float64(time.Second)) + strandGap
			r.length = max(r.length, at)
			r.reads++
		}
	}
	w.WriteString(blow5Foot)
	if err := w.Flush(); err != nil {
		return r, fmt.Errorf("writing a recording: %w", err)
	}
	return r, nil
}
