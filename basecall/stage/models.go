package stage

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/finish"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/stream/packed"
	"github.com/porestream/porestream/stream/streampb"
)

// Models gives each run the model that calls its reads. It is safe for concurrent use.
type Models interface {
	// Choose says what a run is called with. It is a function of the run's description, the same
	// as long as the process lives: a model that is chosen when a run begins is kept in the state,
	// and holds until the run has ended, whichever process takes it over. In a run that has none
	// nothing was called. So its model is asked for again, and a process that starts with other
	// rules may choose one.
	Choose(run *streampb.Run) Choice
	// Ready returns a run's model without waiting. Where it has to be loaded that begins, and
	// ok is false. An error is as of Use, and ok.
	Ready(run *streampb.Run, choice Choice) (model *Model, done func(), ok bool, err error)
	// Use waits for a run's model. Until done is called it stays loaded. [ErrNoModel] is within
	// an error that says that the run has none.
	Use(ctx context.Context, run *streampb.Run, choice Choice) (model *Model, done func(), err error)
}

// ErrNoModel says that a run has no model: none was chosen, or what was can't be loaded. Its reads
// are counted and left out.
var ErrNoModel = errors.New("the run has no model")

// Choice says what a run is called with.
type Choice struct {
	// Model names the model to load; empty: the run has none.
	Model string
	// Precision is what its network computes in; empty: what the process was configured with.
	Precision string
	// Identity is a hash of what the model computes, which distinguishes it from another of
	// the same name; empty if that was not known.
	Identity string
}

// Model is a model that is loaded.
type Model struct {
	// Name is what the model is called in segments; empty: they don't name it.
	Name   string
	Caller Caller
	// InFlight has reads called while their signal comes, for models that can:
	// see basecall.Caller.InFlight. Otherwise a read is called at its end.
	InFlight bool
	// SampleRates are those that the model was made for, in Hz. Reads of a run with another
	// are counted and left out.
	SampleRates []int
	// Finisher takes runs apart by their reads' barcodes, and cuts off what is not of
	// the molecule; nil does neither. It must not split reads.
	Finisher *finish.Finisher
	// ModifierOf gives a run who says which bases of its reads are modified, nil if nobody can; nil:
	// nobody is asked.
	ModifierOf func(run *streampb.Run) Modifier
}

// Modifier says which bases of a called read are modified; network.Caller of package modbase is one. It is safe for
// concurrent use.
type Modifier interface {
	// Call scores a read's bases by the samples that it was called from. Its error is
	// [network.ErrScores] if nothing can be said of the read.
	Call(ctx context.Context, samples []int16, called *basecall.Called) (*modbase.Tags, error)
}

func (m *Model) supports(run *streampb.Run) bool {
	return slices.Contains(m.SampleRates, int(run.GetSampleRate()))
}

// one is the same model for all runs.
type one struct{ *Model }

var _ Models = one{}

func (o one) Choose(*streampb.Run) Choice { return Choice{} }

func (o one) Ready(*streampb.Run, Choice) (*Model, func(), bool, error) {
	return o.Model, func() {}, true, nil
}

func (o one) Use(context.Context, *streampb.Run, Choice) (*Model, func(), error) {
	return o.Model, func() {}, nil
}

// choices is what the runs of a partition are called with, as was chosen when they began. It is
// a part of the fold, so that a process that takes a run over goes on with the model that it
// began with.
type choices struct {
	choose  func(*streampb.Run) Choice
	byRun   map[string]Choice
	version uint64
}

func newChoices(choose func(*streampb.Run) Choice) *choices {
	return &choices{choose: choose, byRun: make(map[string]Choice)}
}

// begin chooses a model for a run, unless it has one. A run keeps it when it has ended, as its markers stay, too: reads that come
// late are called with the model of the others. That is some 200 bytes a run.
func (c *choices) begin(run *streampb.Run) {
	if _, known := c.byRun[run.GetId()]; known {
		return
	}
	if chosen := c.choose(run); chosen.Model != "" {
		c.byRun[run.GetId()] = chosen
		c.version++
	}
}

// of is what was chosen for a run.
func (c *choices) of(run *streampb.Run) Choice {
	if c == nil {
		return Choice{} // there is one model for all
	}
	return c.byRun[run.GetId()]
}

const (
	sectionModels  = "models"
	choicesVersion = 1
	maxChosenRuns  = 1 << 20
	leastChoice    = 4    // bytes of a run and its choice: at least
	maxChoiceText  = 4096 // bytes of a folder's path
)

func (c *choices) appendState(b []byte) []byte {
	b = packed.AppendLen(append(b, choicesVersion), len(c.byRun))
	for _, id := range slices.Sorted(maps.Keys(c.byRun)) {
		chosen := c.byRun[id]
		for _, text := range []string{id, chosen.Model, chosen.Precision, chosen.Identity} {
			b = packed.AppendBytes(b, text)
		}
	}
	return b
}

func (c *choices) restoreState(b []byte) error {
	in := packed.NewReader(b)
	in.Version(choicesVersion)
	n := in.Count(leastChoice)
	if n > maxChosenRuns {
		in.Fail("%d runs", n)
	}
	runs := make(map[string]Choice)
	last := ""
	for i := 0; i < n && in.Err() == nil; i++ {
		id := in.String(maxName)
		chosen := Choice{Model: in.String(maxChoiceText), Precision: in.String(maxName), Identity: in.String(maxName)}
		if chosen.Model != "" { // a run that had none is asked for again, and may get one by other rules
			runs[id] = chosen
		}
		if i > 0 && id <= last {
			in.Fail("run %q behind run %q", id, last)
		}
		last = id
	}
	if err := in.Done(); err != nil {
		return fmt.Errorf("restoring what runs are called with: %w", err)
	}
	c.byRun = runs
	c.version++
	return nil
}
