// Package minknowsim starts the simulated MinKNOW, which is a program in Python so
// that it speaks through the official stubs, and talks to it. README.md describes
// what the simulator does.
package minknowsim

import (
	"bufio"
	"embed"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/porestream/porestream/signal"
)

//go:embed *.py
var program embed.FS

// script is the file of program that is run.
const script = "minknow_sim.py"

// Config says what is played, and where.
type Config struct {
	Python string    // an interpreter that has minknow-api
	Reads  string    // a POD5 file, or what WriteReads has written
	Certs  string    // folder with ca.crt, server.crt and server.key
	Dir    string    // where the program may be unpacked
	Log    io.Writer // gets what the simulator says is wrong; nil discards it
	Args   []string  // its further flags
}

// Sim is a simulator in a process of its own. Its methods are for one goroutine.
type Sim struct {
	Port  int // of the manager
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Reader
}

// Start starts a simulator and waits until it listens. It ends with Kill, or when
// this process ends.
func Start(cfg Config) (*Sim, error) {
	if err := os.CopyFS(cfg.Dir, program); err != nil {
		return nil, fmt.Errorf("unpacking the simulated MinKNOW: %w", err)
	}
	args := append([]string{filepath.Join(cfg.Dir, script), cfg.Reads, "--port", "0", "--certs", cfg.Certs}, cfg.Args...)
	s := &Sim{cmd: exec.Command(cfg.Python, args...)} //nolint:noctx // Kill ends it, or the end of its standard input
	s.cmd.Stderr = cfg.Log
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the simulated MinKNOW: %w", err)
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("starting the simulated MinKNOW: %w", err)
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the simulated MinKNOW: %w", err)
	}
	s.stdin, s.lines = in, bufio.NewReader(out)
	var hello struct{ Port int }
	if err := s.answer(&hello); err != nil {
		s.Kill()
		return nil, err
	}
	s.Port = hello.Port
	return s, nil
}

// Kill ends the simulator at once.
func (s *Sim) Kill() {
	if s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	_ = s.cmd.Wait()         // that it was killed is no news
}

// Command gives the simulator one of the lines that README.md lists.
func (s *Sim) Command(line string) error {
	if _, err := fmt.Fprintln(s.stdin, line); err != nil {
		return fmt.Errorf("asking the simulated MinKNOW to %s: %w", line, err)
	}
	return nil
}

// answer reads a line of the simulator.
func (s *Sim) answer(to any) error {
	line, err := s.lines.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("the simulated MinKNOW has ended: %w", err)
	}
	if err := json.Unmarshal(line, to); err != nil {
		return fmt.Errorf("the simulated MinKNOW said %q: %w", line, err)
	}
	return nil
}

// Dropped is a chunk that the simulator has not sent: samples Start to End-1 of
// the channel, of a stretch that begins at ReadStart.
type Dropped struct {
	Channel    uint32
	Read       string
	Strand     bool
	ReadStart  uint64 `json:"read_start"`
	Start, End uint64
}

// Report is what a position has sent and dropped so far.
type Report struct {
	Run     string
	Sent    int
	Dropped []Dropped
}

// Report asks a simulator of one position what it has dropped.
func (s *Sim) Report() (r Report, err error) {
	if err := s.Command("report"); err != nil {
		return r, err
	}
	return r, s.answer(&r)
}

// Strand is a read as the simulator plays it: samples Start to End-1 of a channel.
type Strand struct {
	ID         string
	Source     string // the recorded read that it is
	Channel    uint32
	Start, End uint64
}

// Layout is what a position plays when.
type Layout struct {
	Run     string
	Rate    float64 // samples a second
	Pace    float64 // times as fast as a sequencer
	Started float64 // Unix seconds at which sample 0 was taken; 0: not yet
	Strands []Strand
}

// At is when a sample is taken, by the clock on the wall.
func (l *Layout) At(sample uint64) time.Time {
	seconds := float64(sample) / (l.Rate * l.Pace)
	return time.UnixMicro(int64(l.Started * 1e6)).Add(time.Duration(seconds * float64(time.Second)))
}

// Layout asks a simulator of one position what it plays.
func (s *Sim) Layout() (l Layout, err error) {
	if err := s.Command("layout"); err != nil {
		return l, err
	}
	return l, s.answer(&l)
}

// Action is one that a client has asked for.
type Action struct {
	ID, Read, Source string
	Channel          uint32
	Kind, Answer     string  // as in minknow_api.data
	Progress, Of     uint64  // samples of the read that were through the pore, and that there were to be
	Time             float64 // when it came, Unix seconds
}

// Actions asks a simulator of one position what clients have asked for so far.
func (s *Sim) Actions() ([]Action, error) {
	if err := s.Command("actions"); err != nil {
		return nil, err
	}
	var a struct{ Actions []Action }
	err := s.answer(&a)
	return a.Actions, err
}

// recorded is a read as the simulator takes it.
type recorded struct {
	ID      string  `json:"id"`
	Samples []byte  `json:"samples"` // 16-bit little-endian; in JSON base64
	Offset  float32 `json:"offset"`
	Scale   float32 `json:"scale"`
	Rate    int     `json:"rate"`
	End     string  `json:"end_reason"`
}

// WriteReads writes the first reads of a recording, 0 for all, as lines that the
// simulator plays.
func WriteReads(w io.Writer, index *signal.Index, limit int) error {
	n := index.Len()
	if limit > 0 {
		n = min(n, limit)
	}
	lines := json.NewEncoder(w)
	var levels []int16
	for i := range n {
		e := index.Entry(i)
		var err error
		if levels, err = index.Samples(i, levels[:0]); err != nil {
			return err
		}
		raw := make([]byte, 0, 2*len(levels))
		for _, s := range levels {
			raw = binary.LittleEndian.AppendUint16(raw, uint16(s))
		}
		if err := lines.Encode(recorded{e.ID, raw, e.Calibration.Offset, e.Calibration.Scale, e.Run.SampleRate, e.EndReason.String()}); err != nil {
			return fmt.Errorf("writing reads for the simulated MinKNOW: %w", err)
		}
	}
	return nil
}

// WriteCerts makes a folder with what Config.Certs takes, in PEM.
func WriteCerts(dir string, ca, cert, key []byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("writing certificates for the simulated MinKNOW: %w", err)
	}
	for name, content := range map[string][]byte{"ca.crt": ca, "server.crt": cert, "server.key": key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return fmt.Errorf("writing certificates for the simulated MinKNOW: %w", err)
		}
	}
	return nil
}
