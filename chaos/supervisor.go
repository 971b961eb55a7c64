package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/porestream/porestream/chaos/history"
)

// restartAfter is how long a supervisor waits before it starts a process again that has ended by itself.
const restartAfter = time.Second

// service is a process that is started again whenever it ends, until it has ended in order or is ordered to stay down.
type service struct {
	name string
	log  *history.Log
	file string

	mu      sync.Mutex
	args    []string
	env     []string
	cmd     *exec.Cmd     // nil: down
	exited  chan struct{} // closed when cmd has ended
	down    bool          // not to be started again
	meant   bool          // the end of cmd is the harness's doing
	done    bool          // it has ended in order
	restart *time.Timer
	starts  int
}

// newService makes a service that is not started yet. args are its command line.
func newService(name, dir string, log *history.Log, args ...string) *service {
	return &service{name: name, log: log, file: filepath.Join(dir, name+".log"), args: args, down: true}
}

// start starts the process, unless it runs or has done its work.
func (s *service) start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	return s.startLocked()
}

func (s *service) startLocked() error {
	if s.cmd != nil || s.done || s.down {
		return nil
	}
	out, err := os.OpenFile(s.file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	defer out.Close()
	s.starts++
	fmt.Fprintf(out, "=== start %d at %s\n", s.starts, time.Now().Format("15:04:05.000"))
	from, err := out.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	cmd := exec.Command(s.args[0], s.args[1:]...)
	cmd.Env = append(os.Environ(), s.env...)
	cmd.Stdout, cmd.Stderr = out, out
	// With the harness the services end too, and its signals don't reach them.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting %s: %w", s.name, err)
	}
	s.cmd, s.exited, s.meant = cmd, make(chan struct{}), false
	s.log.Add(history.Event{Kind: history.ProcessStarts, Name: s.name, PID: cmd.Process.Pid})
	go s.await(cmd, s.exited, from)
	return nil
}

// await notes how the process ends and starts it again if that was not meant.
func (s *service) await(cmd *exec.Cmd, exited chan struct{}, from int64) {
	_ = cmd.Wait() // how it ended is read from its state
	s.mu.Lock()
	defer s.mu.Unlock()
	code := cmd.ProcessState.ExitCode()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		code = -int(status.Signal())
	}
	e := history.Event{Kind: history.ProcessExits, Name: s.name, PID: cmd.Process.Pid, Code: code, Expected: s.meant || code == 0}
	if !e.Expected {
		e.Detail = s.said(from)
	}
	s.log.Add(e)
	s.cmd, s.done = nil, s.done || code == 0 && !s.meant
	close(exited)
	if !s.down && !s.done && !s.meant {
		s.restart = time.AfterFunc(restartAfter, func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			if err := s.startLocked(); err != nil {
				s.log.Add(history.Event{Kind: history.Note, Name: s.name, Detail: err.Error()})
			}
		})
	}
}

// maxSaid bounds what an exit repeats of a process's output.
const maxSaid = 4000

// said is the end of what the process has written since it was started.
func (s *service) said(from int64) string {
	b, err := os.ReadFile(s.file)
	if err != nil || int64(len(b)) < from {
		return ""
	}
	b = b[from:]
	return string(b[max(0, len(b)-maxSaid):])
}

// signal sends a signal to the process, if it runs.
func (s *service) signal(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return nil
	}
	if sig == syscall.SIGTERM {
		// A service that is asked to stop and does so at once has not done its work.
		s.meant = true
	}
	if err := s.cmd.Process.Signal(sig); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("sending %v to %s: %w", sig, s.name, err)
	}
	return nil
}

// end ends the process with a signal and keeps it down. It waits for the end for at most a time, then kills it; late reports whether it had to.
func (s *service) end(sig syscall.Signal, within time.Duration) (late bool, err error) {
	s.mu.Lock()
	s.down, s.meant = true, true
	if s.restart != nil {
		s.restart.Stop()
	}
	running, exited := s.cmd != nil, s.exited
	s.mu.Unlock()
	if !running {
		return false, nil
	}
	if err := s.signal(sig); err != nil {
		return false, err
	}
	// A process that stands still takes no other signal than SIGKILL.
	if sig != syscall.SIGKILL {
		if err := s.signal(syscall.SIGCONT); err != nil {
			return false, err
		}
	}
	select {
	case <-exited:
		return false, nil
	case <-time.After(within):
	}
	if err := s.signal(syscall.SIGKILL); err != nil {
		return true, err
	}
	<-exited
	return true, nil
}

// setEnv sets the variables of the next start besides this program's own.
func (s *service) setEnv(env ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.env = env
}

// finished reports whether the process has ended in order by itself.
func (s *service) finished() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.done
}
