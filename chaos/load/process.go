package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// process is one of those that the load goes through.
type process struct {
	name string
	pid  int
	cmd  *exec.Cmd // nil: this one
	log  string    // file with what it says
	out  *bufio.Reader
	done chan struct{} // closed when it has ended
	err  error         // how, once done is closed
	observations
}

// observations is what was seen of a process while signal flowed.
type observations struct {
	first, last usage
	resident    []int64 // bytes, at each sample
	peak        int64   // bytes
}

// usage is the processor time that a process has used up to a time.
type usage struct {
	at  time.Time
	cpu time.Duration
}

// launch starts a process that ends with ctx. Its output is in out, what it says beside
// that in a file in dir.
func launch(ctx context.Context, name, dir, program string, args ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(dir, name+".log"), done: make(chan struct{})}
	log, err := os.Create(p.log)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	defer write.Close()
	p.out = bufio.NewReader(read)
	p.cmd = exec.CommandContext(ctx, program, args...)
	p.cmd.Env = append(os.Environ(), "MINKNOW_API_USE_LOCAL_TOKEN=0")
	p.cmd.Stdout, p.cmd.Stderr = write, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	p.pid = p.cmd.Process.Pid
	go func() {
		defer close(p.done)
		if err := p.cmd.Wait(); err != nil {
			p.err = fmt.Errorf("%s: %w: %s", name, err, p.said())
		}
	}()
	return p, nil
}

// said is the last line of what the process has said.
func (p *process) said() string {
	b, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	b = bytes.TrimSpace(b)
	return string(b[bytes.LastIndexByte(b, '\n')+1:])
}

// line is the next line of the process's output.
func (p *process) line() (string, error) {
	s, err := p.out.ReadString('\n')
	if err == io.EOF {
		<-p.done
		err = p.err
	}
	if err != nil {
		return "", fmt.Errorf("waiting for what %s prints: %w", p.name, err)
	}
	return strings.TrimSpace(s), nil
}

// wait waits for the end of a process.
func (p *process) wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("waiting for the end of %s: %w", p.name, context.Cause(ctx))
	}
}

// sample notes what the process uses. A process that has ended is not sampled any more.
func (p *process) sample() error {
	proc, err := procfs.NewProc(p.pid)
	if err != nil {
		return p.gone(err)
	}
	status, err := proc.NewStatus()
	if err != nil {
		return p.gone(err)
	}
	stat, err := proc.Stat()
	if err != nil {
		return p.gone(err)
	}
	now := usage{time.Now(), time.Duration(stat.CPUTime() * float64(time.Second))}
	if p.first.at.IsZero() {
		p.first = now
	}
	p.last = now
	// Pages of mapped files, such as a broker's log, are the kernel's to take back.
	p.resident = append(p.resident, int64(status.RssAnon))
	p.peak = max(p.peak, int64(status.VmHWM))
	return nil
}

func (p *process) gone(err error) error {
	select {
	case <-p.done:
		return nil
	default:
		return fmt.Errorf("reading %s: %w", p.name, err)
	}
}

// cores is how many processors the process has kept busy.
func (o *observations) cores() float64 {
	lasted := o.last.at.Sub(o.first.at)
	if lasted <= 0 {
		return 0
	}
	return float64(o.last.cpu-o.first.cpu) / float64(lasted)
}

// slope is by how much memory grew, in bytes a minute: a least-squares line through the
// samples of the last two thirds, as the first third is for warming up.
func (o *observations) slope(every time.Duration) float64 {
	held := o.resident[len(o.resident)/3:]
	n := float64(len(held))
	if n < 2 {
		return 0
	}
	var sx, sy, sxx, sxy float64
	for i, y := range held {
		x := float64(i) * every.Minutes()
		sx, sy, sxx, sxy = sx+x, sy+float64(y), sxx+x*x, sxy+x*float64(y)
	}
	return (n*sxy - sx*sy) / (n*sxx - sx*sx)
}
