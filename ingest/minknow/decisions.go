package minknow

import (
	"cmp"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/porestream/porestream/stream/streampb"
)

// Adaptive says how decisions about reads become actions of MinKNOW's.
type Adaptive struct {
	// DryRun does everything but send them.
	DryRun bool
	// Rate is how many actions a position is sent a second, at most; 0 means 500.
	Rate float64
	// Unblock is for how long the voltage is reversed to eject a read; 0 means 100 ms.
	Unblock time.Duration
	// MaxRead is the longest read that MinKNOW may eject; 0 leaves that to MinKNOW.
	MaxRead time.Duration
}

// Validate says what is wrong with the settings.
func (a Adaptive) Validate() error {
	var errs []error
	if !(a.Rate >= 0) {
		errs = append(errs, fmt.Errorf("%g actions a second", a.Rate))
	}
	if a.Unblock < 0 || a.Unblock > time.Minute {
		errs = append(errs, fmt.Errorf("a reversal of %v: it must be positive and not above a minute", a.Unblock))
	}
	if a.MaxRead < 0 {
		errs = append(errs, fmt.Errorf("reads of at most %v", a.MaxRead))
	}
	return errors.Join(errs...)
}

func (a Adaptive) withDefaults() Adaptive {
	a.Rate = cmp.Or(a.Rate, 500)
	a.Unblock = cmp.Or(a.Unblock, 100*time.Millisecond)
	return a
}

// maxMail bounds the decisions about one run that wait to be processed: more than a
// flow cell has channels.
const maxMail = 1 << 14

// Decisions hands decisions about reads to the runs that are being taken.
type Decisions struct {
	adaptive Adaptive

	mu   sync.Mutex
	runs map[string]*mailbox
}

// NewDecisions returns an exchange without runs.
func NewDecisions(a Adaptive) (*Decisions, error) {
	if err := a.Validate(); err != nil {
		return nil, err
	}
	return &Decisions{adaptive: a.withDefaults(), runs: make(map[string]*mailbox)}, nil
}

// Deliver passes on a decision, without ever waiting. One about a run that is not
// being taken here is somebody else's.
func (d *Decisions) Deliver(m *streampb.Decision) {
	d.mu.Lock()
	box := d.runs[m.GetRun()]
	d.mu.Unlock()
	if box != nil {
		box.put(m)
	}
}

// open makes the mailbox of a run. full is called with each decision that doesn't fit.
func (d *Decisions) open(run string, full func(*streampb.Decision)) *mailbox {
	box := &mailbox{full: full, wake: make(chan struct{}, 1)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.runs[run] = box
	return box
}

// close ends deliveries for a run.
func (d *Decisions) close(run string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.runs, run)
}

// mailbox holds the decisions about a run until the run's taker takes them.
type mailbox struct {
	full func(*streampb.Decision)
	wake chan struct{} // holds a token when something has come

	mu   sync.Mutex
	mail []*streampb.Decision
}

func (b *mailbox) put(m *streampb.Decision) {
	b.mu.Lock()
	if len(b.mail) >= maxMail {
		b.mu.Unlock()
		b.full(m)
		return
	}
	b.mail = append(b.mail, m)
	b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

func (b *mailbox) take() []*streampb.Decision {
	b.mu.Lock()
	defer b.mu.Unlock()
	mail := b.mail
	b.mail = nil
	return mail
}
