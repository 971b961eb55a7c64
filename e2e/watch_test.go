package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/signal/blow5"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/kafka"
	"github.com/porestream/porestream/stream/streamtest"
)

// asBLOW5 is a recording of one run in the format that grows read by read.
func asBLOW5(t *testing.T, path string) []byte {
	t.Helper()
	in, err := signal.Open(path)
	require.NoError(t, err)
	defer in.Close()
	var fields []blow5.Field
	for _, f := range [][2]string{
		{"channel_number", "char*"}, {"start_mux", "uint8_t"}, {"read_number", "uint32_t"}, {"start_time", "uint64_t"}, {"end_reason", "enum{unknown,signal_positive}"},
	} {
		field, err := blow5.NewField(f[0], f[1])
		require.NoError(t, err)
		fields = append(fields, field)
	}
	var out bytes.Buffer
	var w *blow5.Writer
	for {
		rd, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		if w == nil {
			w, err = blow5.NewWriter(&out, []map[string]string{{"run_id": rd.Run.ID, "sample_id": rd.Run.SampleID}}, fields)
			require.NoError(t, err)
		}
		aux := make([]blow5.Value, len(fields))
		aux[0], err = fields[0].Text(fmt.Sprint(rd.Channel))
		require.NoError(t, err)
		for i, u := range []uint64{uint64(rd.Well), uint64(rd.Number), rd.StartSample} {
			aux[i+1], err = fields[i+1].Uint(u)
			require.NoError(t, err)
		}
		aux[4], err = fields[4].Text(rd.EndReason.String())
		require.NoError(t, err)
		require.NoError(t, w.Add(&blow5.Record{
			ReadID: rd.ID, Digitisation: 4096, Offset: float64(rd.Calibration.Offset), Range: 4096 * float64(rd.Calibration.Scale),
			SamplingRate: float64(rd.Run.SampleRate),
		}, aux, rd.Samples))
	}
	require.NoError(t, w.Close())
	return out.Bytes()
}

// chunks are the chunks on a topic of signal, each with where it is.
func chunks(t *testing.T, client *kafka.Client, topic string) (list []string) {
	t.Helper()
	for partition, records := range committedSignal(t, client, topic) {
		for _, r := range records {
			_, value, _ := bytes.Cut([]byte(r), []byte("="))
			m, err := stream.DecodeSignal(value)
			if err == nil && m.GetChunk() != nil {
				list = append(list, fmt.Sprintf("%d %s", partition, m.GetChunk()))
			}
		}
	}
	slices.Sort(list)
	return list
}

// TestWatch writes a recording into a folder, 100 kB at a time, and kills the
// watch now and then: the signal and the variants are those of the recorded file.
func TestWatch(t *testing.T) {
	file := asBLOW5(t, lambda("reads.pod5"))
	if testing.Short() {
		t.Skip("runs the services")
	}
	want := undisturbed(t)
	brokers(t, func(t *testing.T, addr string) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		client, err := kafka.Connect(ctx, kafka.Config{Brokers: []string{addr}})
		require.NoError(t, err)
		defer client.Close()
		require.NoError(t, client.EnsureTopics(t.Context(), stream.NewTopics("").Settings(3), 1))
		whole := startIngest(t, addr, "whole-")
		require.NoError(t, whole.cmd.Wait(), whole.stderr)
		wantChunks := chunks(t, client, stream.NewTopics("whole-").Signal)

		dir, journal := t.TempDir(), t.TempDir()
		watch := func(flags ...string) *service {
			return start(t, func(error) {}, "ingest", append([]string{
				"watch", "--brokers", addr, "--listen", "127.0.0.1:0", "--journal", journal, "--poll", "100ms", "--settle", "200ms", dir,
			}, flags...)...)
		}
		path := filepath.Join(dir, "reads.blow5.tmp")
		written := 0
		writeUpTo := func(n int) {
			f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			require.NoError(t, err)
			defer f.Close()
			for ; written < n; written = min(n, written+100_000) {
				_, err := f.Write(file[written:min(n, written+100_000)])
				require.NoError(t, err)
			}
		}
		await := func(n int) {
			t.Helper()
			streamtest.Eventually(ctx, t, fmt.Sprintf("%d records of signal", n), func() bool {
				offsets, err := client.Offsets(ctx, stream.NewTopics("").Signal)
				require.NoError(t, err)
				var records int64
				for _, o := range offsets {
					records += o.Stable
				}
				return records >= int64(n)
			})
		}
		processor := startProcessor(t, cancel, addr, "basecall,variant,annotate")
		w := watch()
		writeUpTo(len(file) / 3)
		await(len(wantChunks) / 6)
		require.NoError(t, w.cmd.Process.Kill())
		<-w.exited
		writeUpTo(len(file) / 2)
		w = watch()
		writeUpTo(len(file) * 3 / 4)
		await(len(wantChunks) / 2)
		require.NoError(t, w.cmd.Process.Kill())
		<-w.exited
		w = watch()
		writeUpTo(len(file))
		// The finished file has another name, and the reads are in another, too.
		require.NoError(t, os.Rename(path, filepath.Join(dir, "reads.blow5")))
		pod5, err := os.ReadFile(lambda("reads.pod5"))
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, "again.pod5"), pod5, 0o600))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "final_summary_x.txt"), []byte("acquisition_run_id="+lambdaRun+"\n"), 0o600))
		follow(ctx, t, client, nil)
		require.NoError(t, w.cmd.Process.Kill())
		<-w.exited
		processor.stop(t)

		last := watch("--once")
		last.ended(t)
		got := chunks(t, client, stream.NewTopics("").Signal)
		require.Len(t, got, len(wantChunks))
		require.True(t, slices.Equal(wantChunks, got), "other chunks than of the recorded file")
		res := pore(t, "consume", "--brokers", addr, "--format", "vcf", "--ref", lambda("reference.fa"))
		require.Zero(t, res.code, res.stderr)
		require.Equal(t, string(want), res.stdout)
	})
}
