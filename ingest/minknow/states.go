package minknow

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/porestream/porestream/ingest/minknow/minknowpb"
)

// stateLetters are MinKNOW's names of channel states as letters of
// stream.ChannelLetters. They are settings of MinKNOW's protocols and differ between
// versions; a name that is not here is unknown, and is logged.
func stateLetters() map[string]byte {
	return map[string]byte{
		"strand":               's',
		"adapter":              'a',
		"pore":                 'p',
		"single_pore":          'p',
		"good_single":          'p',
		"unblocking":           'u',
		"multiple":             'm',
		"saturated":            't',
		"zero":                 'z',
		"no_pore":              'n',
		"unavailable":          'x',
		"pending_mux_change":   'x', // switched off until another well is chosen
		"pending_manual_reset": 'x',
		"inactive":             'i',
		"disabled":             'i',
		"locked":               'i',

		"unclassified":                 unknownState,
		"unclassified_following_reset": unknownState,
		"unknown_positive":             unknownState,
		"unknown_negative":             unknownState,
	}
}

// unknownState is the letter of all other names.
const unknownState = '?'

// channelStates are what MinKNOW says that the channels of a run do: a letter each, 0
// where nothing was said.
type channelStates struct {
	names   map[string]byte
	letters []byte
	// strange are names without a letter that were received, so that each is logged
	// once; their number is bounded.
	strange map[string]bool
}

// maxStrange bounds the names that are remembered.
const maxStrange = 64

func newChannelStates(channels int) *channelStates {
	return &channelStates{names: stateLetters(), letters: make([]byte, channels), strange: make(map[string]bool)}
}

// take takes a response. It reports whether anything has changed, and returns those
// unknown names that are new.
func (s *channelStates) take(m *minknowpb.GetChannelStatesResponse) (changed bool, strange []string) {
	for _, c := range m.GetChannelStates() {
		n := c.GetChannel()
		if n < 1 || n > uint32(len(s.letters)) {
			continue
		}
		letter, known := s.names[c.GetStateName()]
		if !known {
			letter = unknownState
			if name := c.GetStateName(); name != "" && len(s.strange) < maxStrange && !s.strange[name] {
				s.strange[name] = true
				strange = append(strange, name)
			}
		}
		changed = changed || s.letters[n-1] != letter
		s.letters[n-1] = letter
	}
	return changed, strange
}

// statesPause is how long after its end the stream of states is asked for again.
const statesPause = 10 * time.Second

// watchChannels passes on what MinKNOW says that the channels do, while the connection
// lasts. Signal is taken without it: a MinKNOW that has no such call, or denies it to
// this client, is logged once for each position.
func (t *taker) watchChannels(ctx context.Context, conn *grpc.ClientConn) error {
	to := t.position.cfg.States
	if to == nil {
		return nil
	}
	run := t.run.GetId()
	reported := t.position.metrics.m.ownStates.WithLabelValues(t.position.name)
	defer func() {
		reported.Set(0)
		to(run, nil)
	}()
	for {
		err := t.channelStates(ctx, conn, func(letters []byte) {
			reported.Set(1)
			to(run, letters)
		})
		if ctx.Err() != nil {
			return nil
		}
		reported.Set(0)
		to(run, nil)
		if refusesStates(err) {
			if !t.position.statesRefused {
				t.position.statesRefused = true
				t.log.Warn("MinKNOW doesn't report the states of channels: the live page shows what follows from the signal", "err", err)
			}
			return nil
		}
		t.log.Debug("the states of channels have ended", "err", err)
		select {
		case <-time.After(statesPause):
		case <-ctx.Done():
			return nil
		}
	}
}

// refusesStates reports whether asking again is of no use.
func refusesStates(err error) bool {
	return isCode(err, codes.Unimplemented) || isCode(err, codes.PermissionDenied) || isCode(err, codes.Unauthenticated) || isCode(err, codes.InvalidArgument)
}

// channelStates passes on all letters whenever some have changed, until the stream ends.
func (t *taker) channelStates(ctx context.Context, conn *grpc.ClientConn, to func([]byte)) error {
	channels := len(t.reads.cfg.calibrations)
	call, err := minknowpb.NewDataServiceClient(conn).GetChannelStates(ctx, &minknowpb.GetChannelStatesRequest{
		FirstChannel: 1, LastChannel: uint32(channels), WaitForProcessing: true,
	})
	if err != nil {
		return fmt.Errorf("asking for the states of channels: %w", err)
	}
	states := newChannelStates(channels)
	for {
		m, err := call.Recv()
		if err != nil {
			return fmt.Errorf("receiving the states of channels: %w", err)
		}
		changed, strange := states.take(m)
		for _, name := range strange {
			t.log.Info("MinKNOW has a state of channels that is not known here; it is shown as unknown", "state", name)
		}
		if changed {
			to(bytes.Clone(states.letters))
		}
	}
}
