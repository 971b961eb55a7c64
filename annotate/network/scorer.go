package network

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/score"
	"github.com/porestream/porestream/basecall/infer"
)

// Scorer has several networks score alleles. It is safe for concurrent use.
type Scorer struct {
	members []member
	metrics *metrics
}

type member struct {
	network *Network
	rule    *score.Rule
}

var _ annotate.Scorer = (*Scorer)(nil)

// What is computed before any of its scores is made is bounded: windows, and the bytes of their inputs and outputs.
const (
	maxTogether      = 512
	maxTogetherBytes = 64 << 20
)

// together is how many windows of the network are computed at once.
func (m *member) together() int {
	manifest := &m.network.model.Manifest
	bytes := 4 * (4*manifest.WindowLength() + manifest.OutputLength()*len(m.network.model.Networks))
	return max(1, min(maxTogether, maxTogetherBytes/bytes))
}

// Open opens folders of networks. genes are those that alleles are scored for by the rule splice. The caller must Close what
// it gets.
func Open(dirs []string, genes *score.Genes, cfg Config) (*Scorer, error) {
	models := make([]*Model, len(dirs))
	for i, dir := range dirs {
		var err error
		if models[i], err = OpenModel(dir); err != nil {
			return nil, err
		}
	}
	return NewScorer(models, genes, cfg)
}

// NewScorer loads models onto their devices.
func NewScorer(models []*Model, genes *score.Genes, cfg Config) (*Scorer, error) {
	names, keys := make(map[string]bool), make(map[string]bool)
	s := &Scorer{}
	if cfg.GivesWay {
		cfg.turns = infer.NewShare()
	}
	for _, model := range models {
		m := &model.Manifest
		if names[m.Name] || keys[m.Info] {
			return nil, errors.Join(fmt.Errorf("two networks are named %s, or write INFO/%s: change name and info in one manifest", m.Name, m.Info), s.Close())
		}
		names[m.Name], keys[m.Info] = true, true
		n, err := New(model, cfg)
		if err != nil {
			return nil, errors.Join(err, s.Close())
		}
		s.members = append(s.members, member{n, score.NewRule(m, genes)})
		if cfg.Logger != nil && m.LicenceText != "" {
			cfg.Logger.Warn("a network has terms of its own", slog.String("network", m.Name), slog.String("licence", m.Licence),
				slog.String("text", strings.Join(strings.Fields(m.LicenceText), " ")))
		}
	}
	var err error
	if s.metrics, err = newMetrics(cfg.Registerer); err != nil {
		return nil, errors.Join(fmt.Errorf("registering metrics: %w", err), s.Close())
	}
	return s, nil
}

// Describe implements [annotate.Scorer].
func (s *Scorer) Describe() []annotate.ScoreField {
	fields := make([]annotate.ScoreField, len(s.members))
	for i := range s.members {
		fields[i] = s.members[i].rule.Describe()
	}
	return fields
}

// Fingerprint differs between scorers whose scores may differ.
func (s *Scorer) Fingerprint() string {
	var all []string
	for i := range s.members {
		all = append(all, s.members[i].network.model.Manifest.Fingerprint())
	}
	return strings.Join(all, " ")
}

// Wanted reports whether any network has a say about an allele.
func (s *Scorer) Wanted(a *annotate.Spelled) bool {
	for i := range s.members {
		if s.members[i].rule.Wanted(a) {
			return true
		}
	}
	return false
}

// Score implements [annotate.Scorer].
func (s *Scorer) Score(alleles []annotate.Spelled) ([][]annotate.Score, error) {
	// A caller that annotates a file has no context to give; the batchers answer every request, if with
	// an error.
	return s.ScoreContext(context.Background(), alleles)
}

// ScoreContext is Score that ends with ctx.
func (s *Scorer) ScoreContext(ctx context.Context, alleles []annotate.Spelled) ([][]annotate.Score, error) {
	begun := time.Now()
	scores := make([][]annotate.Score, len(alleles))
	for i := range s.members {
		if err := s.members[i].score(ctx, alleles, scores); err != nil {
			return nil, err
		}
	}
	s.metrics.scored(scores, time.Since(begun))
	return scores, nil
}

// score appends the scores of one network, some windows at a time.
func (m *member) score(ctx context.Context, alleles []annotate.Spelled, scores [][]annotate.Score) error {
	for from := 0; from < len(alleles); {
		var windows score.Windows
		jobs := make([][]score.Job, 0, len(alleles)-from)
		to := from
		for ; to < len(alleles) && len(windows.Bases) < m.together(); to++ {
			jobs = append(jobs, m.rule.Plan(&alleles[to], &windows))
		}
		var outputs [][]float32
		if len(windows.Bases) > 0 {
			var err error
			if outputs, err = m.network.Predict(ctx, windows.Bases); err != nil {
				return err
			}
		}
		for i := range jobs {
			for k := range jobs[i] {
				made, err := m.rule.Finish(&jobs[i][k], func(w int) []float32 { return outputs[w] })
				if err != nil {
					return fmt.Errorf("network %s: %w", m.network.model.Manifest.Name, err)
				}
				scores[from+i] = append(scores[from+i], made)
			}
		}
		from = to
	}
	return nil
}

// Watchdog returns when a device hangs, with an error that says so, or when ctx ends, with nil.
func (s *Scorer) Watchdog(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	first := make(chan error, len(s.members))
	for i := range s.members {
		go func() { first <- s.members[i].network.Watchdog(ctx) }()
	}
	return <-first
}

// Close releases the devices.
func (s *Scorer) Close() error {
	var err error
	for i := range s.members {
		err = errors.Join(err, s.members[i].network.Close())
	}
	return err
}
