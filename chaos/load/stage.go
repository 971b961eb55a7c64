package main

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/porestream/porestream/chaos/load/tally"
	"github.com/porestream/porestream/internal/cli"
	"github.com/porestream/porestream/signal/vbz"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/embedded"
	"github.com/porestream/porestream/stream/kafka"
)

// brokerCommand is the embedded broker in a process of its own.
func brokerCommand() *cobra.Command {
	return &cobra.Command{
		Use: "broker DIR", Short: "Run an embedded broker until SIGTERM; its address is the line it prints", Args: cli.Args(cobra.ExactArgs(1)), Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGTERM, os.Interrupt)
			defer stop()
			broker, err := embedded.Start(embedded.Config{DataDir: args[0]})
			if err != nil {
				return err
			}
			fmt.Fprintln(cmd.OutOrStdout(), broker.Addr())
			// One that has failed answers nobody any more: who waits for an answer would wait for ever.
			return errors.Join(broker.Wait(ctx), broker.Close())
		},
	}
}

// stageCommand is a stage that unpacks the signal of one run and counts it.
func stageCommand() *cobra.Command {
	var broker string
	var channels, partitions int
	cmd := &cobra.Command{
		Use: "stage --broker HOST:PORT --channels N --partitions N", Short: "Unpack the signal of one run to its end and print what it was", Args: cli.Args(cobra.NoArgs), Hidden: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client, err := kafka.Connect(cmd.Context(), kafka.Config{Brokers: []string{broker}})
			if err != nil {
				return err
			}
			defer client.Close()
			u := &unpacker{codec: vbz.NewCodec(), open: partitions, decoded: decoded{Cell: make(tally.Cell, channels), Ages: make([]int, longestAge/ageStep+1)}}
			err = client.Consume(cmd.Context(), stream.NewTopics("").Signal, kafka.ConsumeOptions{From: kafka.FromStart}, u.record)
			if !errors.Is(err, errRunEnded) {
				return errors.Join(err, cmd.Context().Err())
			}
			return json.NewEncoder(cmd.OutOrStdout()).Encode(u.decoded)
		},
	}
	cmd.Flags().StringVar(&broker, "broker", "", "the broker's address")
	cmd.Flags().IntVar(&channels, "channels", 0, "channels of the flow cell")
	cmd.Flags().IntVar(&partitions, "partitions", 0, "partitions of the signal topic")
	return cmd
}

// Ages of chunks are counted in steps, up to a longest one.
const (
	ageStep    = 10 * time.Millisecond
	longestAge = time.Minute
)

// decoded is what the stage has seen of a run.
type decoded struct {
	Cell tally.Cell `json:"cell"`
	// Ages counts chunks by the time from when ingest took them to when they were
	// unpacked, in steps of ageStep; the last counts all that are older.
	Ages []int `json:"ages"`
	// Ended is when the run's last end marker came, in Unix nanoseconds.
	Ended int64 `json:"ended"`
}

// percentile is the age that a share of the chunks don't exceed.
func (d *decoded) percentile(share float64) time.Duration {
	total := 0
	for _, n := range d.Ages {
		total += n
	}
	seen := 0
	for i, n := range d.Ages {
		if seen += n; n > 0 && float64(seen) >= share*float64(total) {
			return time.Duration(i+1) * ageStep
		}
	}
	return 0
}

// errRunEnded says that the run has ended in all partitions.
var errRunEnded = errors.New("the run has ended")

// unpacker unpacks the records of one run.
type unpacker struct {
	decoded decoded
	codec   *vbz.Codec
	levels  []int16
	bytes   []byte
	open    int // partitions in which the run has not ended
}

func (u *unpacker) record(rec stream.Record) error {
	m, err := stream.DecodeSignal(rec.Value)
	if err != nil {
		return fmt.Errorf("partition %d, offset %d: %w", rec.Partition, rec.Offset, err)
	}
	if m.GetRunEnd() != nil {
		if u.open--; u.open == 0 {
			u.decoded.Ended = time.Now().UnixNano()
			return errRunEnded
		}
		return nil
	}
	c := m.GetChunk()
	if c == nil {
		return nil
	}
	if c.GetChannel() < 1 || int(c.GetChannel()) > len(u.decoded.Cell) {
		return fmt.Errorf("partition %d, offset %d: channel %d, and the flow cell has %d", rec.Partition, rec.Offset, c.GetChannel(), len(u.decoded.Cell))
	}
	if u.levels, err = u.codec.Decode(u.levels[:0], c.GetVbz(), int(c.GetSampleCount())); err != nil {
		return fmt.Errorf("partition %d, offset %d: %w", rec.Partition, rec.Offset, err)
	}
	u.bytes = u.bytes[:0]
	for _, l := range u.levels {
		u.bytes = binary.LittleEndian.AppendUint16(u.bytes, uint16(l))
	}
	u.decoded.Cell.Add(c.GetChannel(), u.bytes)
	age := time.Since(rec.Time)
	u.decoded.Ages[min(max(age, 0), longestAge)/ageStep]++
	return nil
}
