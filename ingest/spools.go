package ingest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/porestream/porestream/ingest/spool"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// runFile identifies the run that a folder of the spool is of: it holds the
// cursor record of the run's beginning.
const runFile = "run"

// spools is the spool's folder: one log for each run that has signal in it, under
// a common quota. Its methods may be called by the sources of several runs at the
// same time.
type spools struct {
	cfg   *ServiceConfig
	quota *spool.Quota
	alarm *spoolAlarm
	lock  *os.File
	left  []*streampb.Cursor // what an earlier process has left, by the runs' descriptions

	mu   sync.Mutex
	logs map[string]*spool.Log // by run
}

// openSpools claims the folder and opens what is left in it.
func openSpools(cfg *ServiceConfig) (*spools, error) {
	if cfg.SpoolMax <= 0 {
		return nil, fmt.Errorf("a spool of %d bytes", cfg.SpoolMax)
	}
	lock, err := spool.Lock("spool", cfg.SpoolDir)
	if err != nil {
		return nil, err
	}
	s := &spools{cfg: cfg, quota: spool.NewQuota(cfg.SpoolMax), lock: lock, logs: make(map[string]*spool.Log)}
	s.alarm = &spoolAlarm{quota: s.quota, log: cfg.Logger, metrics: cfg.Metrics}
	entries, err := os.ReadDir(cfg.SpoolDir)
	for _, e := range entries {
		if err == nil && e.IsDir() {
			err = s.load(e.Name())
		}
	}
	if err != nil {
		s.close()
		return nil, fmt.Errorf("opening the spool: %w", err)
	}
	s.alarm.update()
	return s, nil
}

// load opens a folder with what is left of a run.
func (s *spools) load(name string) error {
	path := filepath.Join(s.cfg.SpoolDir, name, runFile)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // begun, or somebody else's
	}
	if err != nil {
		return err
	}
	run, err := stream.DecodeCursor(b)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if name != s.folder(run.GetRun()) {
		s.cfg.Logger.Warn("the spool has signal for other topics, which stays there", "folder", filepath.Join(s.cfg.SpoolDir, name), "run", run.GetRun())
		return nil
	}
	s.left = append(s.left, run)
	return s.open(run.GetRun())
}

func (s *spools) open(run string) error {
	log, cut, err := spool.Open(filepath.Join(s.cfg.SpoolDir, s.folder(run)), spool.Options{Quota: s.quota, Open: s.cfg.openSpoolFile})
	if err != nil {
		return err
	}
	if cut != nil {
		s.cfg.Logger.Warn("the spool ended in the middle of a write: what was not taken yet is cut off", "file", cut.Path, "bytes", cut.Bytes, "run", run)
	}
	s.logs[run] = log
	return nil
}

// folder names the folder of a run on these topics.
func (s *spools) folder(run string) string { return RunFolder(s.cfg.Topics.Signal, run) }

// RunFolder names a folder for what is kept on disk of a run on a signal topic,
// whatever characters the run's id has.
func RunFolder(topic, run string) string {
	h := sha256.Sum256([]byte(topic + "\x00" + run))
	return hex.EncodeToString(h[:12])
}

// log returns the log of a session's run, making it if need be.
func (s *spools) log(sess *session) (*spool.Log, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := sess.run.GetId()
	if log := s.logs[id]; log != nil {
		return log, nil
	}
	dir := filepath.Join(s.cfg.SpoolDir, s.folder(id))
	value, err := stream.EncodeCursor(&streampb.Cursor{
		Run: id, Sample: sess.run.GetSample(), Digest: make([]byte, stream.CursorDigestLen), Owner: sess.owner[:],
		ChunkSamples: uint32(sess.chunk), Partitions: uint32(s.cfg.Partitions), Filter: sess.filter,
	})
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err == nil {
		err = spool.WriteFile(filepath.Join(dir, runFile), value)
	}
	if err == nil {
		err = s.open(id)
	}
	if err != nil {
		return nil, fmt.Errorf("beginning the spool: %w", err)
	}
	return s.logs[id], nil
}

// last is a run's progress with the last event in the spool; nothing if there is
// none. A nil spools has none.
func (s *spools) last(run string) (progress, error) {
	log := s.of(run)
	if log == nil {
		return progress{}, nil
	}
	first, next := log.Bounds()
	if first == next {
		return progress{}, nil
	}
	e, err := s.event(log, next-1)
	return e.after, err
}

// of is a run's log, or nil if there is none. A nil spools has none.
func (s *spools) of(run string) *spool.Log {
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.logs[run]
}

func (s *spools) event(log *spool.Log, number uint64) (event, error) {
	payloads, err := log.Read(number, 0)
	if err != nil {
		return event{}, err
	}
	return parseEvent(payloads[0], number)
}

// announced is a run's description if the spool has the run's beginning, or nil.
func (s *spools) announced(run string) (*streampb.Run, error) {
	log := s.of(run)
	if log == nil {
		return nil, nil
	}
	if first, next := log.Bounds(); first > 0 || next == 0 {
		return nil, nil
	}
	e, err := s.event(log, 0)
	if err != nil {
		return nil, err
	}
	for i := range e.outs {
		if e.outs[i].Topic == s.cfg.Topics.Runs {
			return stream.DecodeRun(e.outs[i].Value)
		}
	}
	return nil, fmt.Errorf("the spool's first event of run %s is not its beginning", run)
}

// discard drops what the spool has of a run.
func (s *spools) discard(run string) error {
	log := s.of(run)
	if log == nil {
		return nil
	}
	_, next := log.Bounds()
	return log.TrimBefore(next)
}

// release closes a run's log if nothing is in it, and keeps it open otherwise.
func (s *spools) release(run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	log := s.logs[run]
	if log == nil {
		return
	}
	if first, next := log.Bounds(); first == next {
		s.closeLog(run, log)
		delete(s.logs, run)
	}
}

// close lets go of the folder. Logs without signal leave nothing behind.
func (s *spools) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for run, log := range s.logs {
		s.closeLog(run, log)
	}
	if err := s.lock.Close(); err != nil {
		s.cfg.Logger.Warn("letting go of the spool", "err", err)
	}
}

func (s *spools) closeLog(run string, log *spool.Log) {
	first, next := log.Bounds()
	if err := log.Close(); err != nil {
		s.cfg.Logger.Warn("closing the spool", "err", err)
	}
	if first < next {
		return
	}
	dir := filepath.Join(s.cfg.SpoolDir, s.folder(run))
	if err := os.RemoveAll(dir); err != nil {
		s.cfg.Logger.Warn("tidying the spool", "err", err)
	}
}
