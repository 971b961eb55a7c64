package sequencer

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/porestream/porestream/chaos/load/tally"
	"github.com/porestream/porestream/ingest/minknow/minknowpb"
)

const (
	// interval is how often the sequencer checks for complete chunks.
	interval = 50 * time.Millisecond
	// maxMessage is about how much signal one message has, in bytes. MinKNOW's own
	// limit is 16 MiB.
	maxMessage = 2 << 20
)

// Config says how a flow cell is sequenced.
type Config struct {
	Cell Cell
	// Pace is the speed by the sequencer's clock; 1 is its own.
	Pace float64
	// Patience is how long, by the clock of the machine, a chunk waits for a client
	// before it is left out.
	Patience    time.Duration
	Certificate tls.Certificate
}

// Sequencer is a flow cell that is being sequenced, on a free port of this machine. Its
// clock starts with the first client that asks for its signal.
type Sequencer struct {
	cfg    Config
	loop   loop
	server *grpc.Server
	port   int
	served chan struct{}
	err    error // of the server, once served is closed

	began    chan struct{} // closed with the first client
	finished chan struct{} // closed when all signal is given or left out

	mu     sync.Mutex // held while signal is given: there is one truth
	start  time.Time
	tracks []track
	report Report
}

// Report is what a sequencer has given.
type Report struct {
	Given tally.Cell
	// Skipped is how many samples were left out, as the client was too slow.
	Skipped uint64
	// Late is the longest time from the end of a chunk to when it was on its way.
	Late time.Duration
}

// Start serves a flow cell until Stop.
func Start(cfg Config) (*Sequencer, error) {
	if err := cfg.Cell.check(); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the sequencer: %w", err)
	}
	s := &Sequencer{
		cfg: cfg, loop: newLoop(cfg.Cell.Levels, cfg.Cell.Chunk), port: listener.Addr().(*net.TCPAddr).Port,
		server: grpc.NewServer(grpc.Creds(credentials.NewServerTLSFromCert(&cfg.Certificate))),
		served: make(chan struct{}), began: make(chan struct{}), finished: make(chan struct{}),
		tracks: make([]track, cfg.Cell.Channels), report: Report{Given: make(tally.Cell, cfg.Cell.Channels)},
	}
	for i := range s.tracks {
		s.tracks[i].channel = uint32(i + 1)
	}
	about := &about{s: s}
	minknowpb.RegisterManagerServiceServer(s.server, about)
	minknowpb.RegisterDeviceServiceServer(s.server, about)
	minknowpb.RegisterAcquisitionServiceServer(s.server, about)
	minknowpb.RegisterProtocolServiceServer(s.server, about)
	minknowpb.RegisterAnalysisConfigurationServiceServer(s.server, about)
	minknowpb.RegisterDataServiceServer(s.server, &data{s: s})
	go func() {
		defer close(s.served)
		s.err = s.server.Serve(listener)
	}()
	return s, nil
}

// Port is where manager and position listen.
func (s *Sequencer) Port() int { return s.port }

// Began is closed when a client has asked for signal.
func (s *Sequencer) Began() <-chan struct{} { return s.began }

// Finished is closed when no more signal comes.
func (s *Sequencer) Finished() <-chan struct{} { return s.finished }

// Stop ends all calls.
func (s *Sequencer) Stop() error {
	s.server.Stop()
	<-s.served
	if s.err != nil && !errors.Is(s.err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving MinKNOW's interface: %w", s.err)
	}
	return nil
}

// Report says what was given.
func (s *Sequencer) Report() Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.report
	r.Given = append(tally.Cell(nil), r.Given...)
	return r
}

// clock is the sample of the run that is being taken, at most its last.
func (s *Sequencer) clock(now time.Time) uint64 {
	sample := max(0, now.Sub(s.start).Seconds()) * s.cfg.Pace * float64(s.cfg.Cell.Rate)
	return uint64(min(sample, float64(s.cfg.Cell.Samples)))
}

// age is how long ago, by the machine's clock, a sample of the run was taken.
func (s *Sequencer) age(sample uint64, now time.Time) time.Duration {
	at := float64(sample) / float64(s.cfg.Cell.Rate) / s.cfg.Pace
	return now.Sub(s.start) - time.Duration(at*float64(time.Second))
}

// data gives signal.
type data struct {
	minknowpb.UnimplementedDataServiceServer
	s *Sequencer
}

func (d *data) GetDataTypes(context.Context, *minknowpb.GetDataTypesRequest) (*minknowpb.GetDataTypesResponse, error) {
	return &minknowpb.GetDataTypesResponse{UncalibratedSignal: &minknowpb.GetDataTypesResponse_DataType{
		Type: minknowpb.GetDataTypesResponse_DataType_SIGNED_INTEGER, Size: 2,
	}}, nil
}

// GetLiveReads gives the signal from where it is now on. The clock does not wait for a
// client; chunks that wait for too long are left out.
func (d *data) GetLiveReads(call grpc.BidiStreamingServer[minknowpb.GetLiveReadsRequest, minknowpb.GetLiveReadsResponse]) error {
	s := d.s
	m, err := call.Recv()
	if err != nil {
		return err
	}
	setup := m.GetSetup()
	if setup.GetFirstChannel() != 1 || int(setup.GetLastChannel()) != s.cfg.Cell.Channels || setup.GetRawDataType() != minknowpb.GetLiveReadsRequest_UNCALIBRATED {
		return status.Error(codes.Unimplemented, "this sequencer gives the uncalibrated signal of all channels only")
	}
	if !s.mu.TryLock() {
		return status.Error(codes.ResourceExhausted, "this sequencer gives its signal to one client")
	}
	defer s.mu.Unlock()
	select {
	case <-s.finished:
		return nil
	default:
	}
	if s.start.IsZero() {
		s.start = time.Now()
		close(s.began)
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		over, err := s.give(call.Send)
		if err != nil || over {
			return err
		}
		select {
		case <-tick.C:
		case <-call.Context().Done():
			return call.Context().Err()
		}
	}
}

// give sends all chunks that are complete, and reports whether there are no more.
func (s *Sequencer) give(send func(*minknowpb.GetLiveReadsResponse) error) (over bool, err error) {
	now := time.Now()
	clock := s.clock(now)
	m := &minknowpb.GetLiveReadsResponse{}
	bytes := 0
	oldest := clock // end of a chunk in the message
	flush := func() error {
		if len(m.Channels) == 0 {
			return nil
		}
		m.SamplesSinceStart = clock
		if err := send(m); err != nil {
			return err
		}
		s.report.Late = max(s.report.Late, s.age(oldest, time.Now()))
		m, bytes, oldest = &minknowpb.GetLiveReadsResponse{}, 0, clock
		return nil
	}
	left := false
	for i := range s.tracks {
		t := &s.tracks[i]
		for t.due(&s.cfg.Cell) <= clock {
			c := t.next(&s.cfg.Cell, s.loop)
			if s.age(c.end, now) > s.cfg.Patience {
				s.report.Skipped += c.end - c.start
				continue
			}
			// A message has one chunk of a channel.
			if _, there := m.Channels[t.channel]; there || bytes > maxMessage {
				if err := flush(); err != nil {
					return false, err
				}
			}
			if m.Channels == nil {
				m.Channels = make(map[uint32]*minknowpb.GetLiveReadsResponse_ReadData)
			}
			m.Channels[t.channel] = &minknowpb.GetLiveReadsResponse_ReadData{
				Id: c.read, StartSample: c.readStart, ChunkStartSample: c.start, ChunkLength: c.end - c.start,
				ChunkClassifications: []int32{strand}, RawData: c.levels, PreviousReadEndReason: minknowpb.ReadEndReason_SignalPositive,
			}
			bytes += len(c.levels)
			oldest = min(oldest, c.end)
			s.report.Given.Add(t.channel, c.levels)
		}
		left = left || t.given < s.cfg.Cell.Samples
	}
	if err := flush(); err != nil {
		return false, err
	}
	if !left {
		close(s.finished)
	}
	return !left, nil
}
