package stage

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/porestream/porestream/annotate"
	"github.com/porestream/porestream/annotate/event"
	"github.com/porestream/porestream/genome"
	"github.com/porestream/porestream/stream"
	"github.com/porestream/porestream/stream/streampb"
)

// Scorer has sequence networks score alleles. It is safe for concurrent use, and the same allele has the same scores.
type Scorer interface {
	ScoreContext(ctx context.Context, alleles []annotate.Spelled) ([][]annotate.Score, error)
	// Fingerprint distinguishes scorers whose scores may differ.
	Fingerprint() string
}

// Scoring has networks score calls. They never delay a call: it is published at once, and again
// with its scores, as its next revision, when these are there. Only FINAL and AMENDED revisions wait for their scores, so
// that the last revision of an allele has them for any order of arrival.
type Scoring struct {
	Scorer Scorer
	Genome *genome.Genome
}

const (
	// maxScores bounds the alleles whose scores are kept, of all samples: tens of megabytes.
	maxScores = 1 << 16
	// maxWaiting bounds the alleles of a partition that wait for scores; what comes beyond has them with a later revision.
	maxWaiting = 4096
	// scoredTogether is how many of them are scored at once.
	scoredTogether = 16
)

// scores are those of alleles that were scored, for all partitions. An allele's scores depend on it and on the networks
// alone, so they may be forgotten, the longest unused first.
type scores struct {
	Scoring
	mu    sync.Mutex
	of    map[string]*list.Element // by VRS id
	order *list.List               // of *scored, the last used first
	limit int
}

type scored struct {
	allele string
	scores []annotate.Score
}

func newScores(s Scoring, limit int) *scores {
	return &scores{Scoring: s, of: make(map[string]*list.Element), order: list.New(), limit: limit}
}

// known returns the scores of an allele if they are there.
func (s *scores) known(allele string) ([]annotate.Score, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e, ok := s.of[allele]
	if !ok {
		return nil, false
	}
	s.order.MoveToFront(e)
	return e.Value.(*scored).scores, true
}

// keep keeps the scores of an allele.
func (s *scores) keep(allele string, of []annotate.Score) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.of[allele]; ok {
		return
	}
	s.of[allele] = s.order.PushFront(&scored{allele, of})
	if s.order.Len() > s.limit {
		last := s.order.Back()
		delete(s.of, last.Value.(*scored).allele)
		s.order.Remove(last)
	}
}

// score scores alleles, and keeps what comes out.
func (s *scores) score(ctx context.Context, alleles []event.Allele) ([][]annotate.Score, error) {
	spelled := make([]annotate.Spelled, len(alleles))
	for i, a := range alleles {
		spelled[i] = annotate.Spelled{Contig: s.Genome.Contig(a.Contig), Pos: int(a.Pos), Ref: a.Ref, Alt: a.Alt}
	}
	all, err := s.Scorer.ScoreContext(ctx, spelled)
	if err != nil {
		return nil, fmt.Errorf("scoring alleles: %w", err)
	}
	for i, a := range alleles {
		s.keep(a.VRSID, all[i])
	}
	return all, nil
}

// scoring is the stage's handler with networks.
type scoring struct {
	stream.Fold
	handler    *handler
	scores     *scores
	background *stream.Background

	// mu is held while a record is handled and while a revision with scores is emitted, so that of an allele none comes
	// behind a newer one: the topic is compacted.
	mu      sync.Mutex
	waiting map[string]*unscored // by record key
	queue   []*unscored          // those of waiting, the first to be scored first, and others that no longer wait
	emit    stream.Emitter
	busy    bool // a goroutine scores
}

// unscored is a revision that was published without scores.
type unscored struct {
	key     string
	variant event.Variant
	scores  []annotate.Score
}

func newScoring(fold stream.Fold, h *handler, s *scores) *scoring {
	return &scoring{Fold: fold, handler: h, scores: s, background: stream.NewBackground(), waiting: make(map[string]*unscored)}
}

// Handle folds in a live record, emits what follows, and has scored what was emitted without scores.
func (s *scoring) Handle(ctx context.Context, rec stream.Record, emit stream.Emitter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handler.ctx, s.handler.published = ctx, s.handler.published[:0]
	if err := s.Fold.Handle(ctx, rec, emit); err != nil {
		return err
	}
	s.emit = emit
	for i := range s.handler.published {
		p := &s.handler.published[i]
		key := string(stream.AlleleKey(p.variant.Sample, p.variant.Allele.VRSID))
		delete(s.waiting, key) // a newer revision is out
		if !p.unscored {
			continue
		}
		if len(s.waiting) >= maxWaiting {
			s.handler.cfg.Metrics.scored(scoredNot, 1)
			continue
		}
		u := &unscored{key: key, variant: p.variant}
		s.waiting[key] = u
		s.queue = append(s.queue, u)
	}
	if !s.busy && len(s.waiting) > 0 {
		s.busy = true
		s.background.Go(s.work)
	}
	return nil
}

// work scores what waits until nothing does.
func (s *scoring) work() {
	ctx := s.background.Context()
	for {
		batch, emit := s.next()
		if len(batch) == 0 {
			return
		}
		err := s.score(ctx, batch)
		if err == nil {
			err = s.publish(ctx, batch)
		}
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				s.background.Fail(err, emit)
			}
			s.stop()
			return
		}
	}
}

// score scores those that aren't scored yet: an earlier revision may have been while this one waited.
func (s *scoring) score(ctx context.Context, batch []*unscored) error {
	var asked []*unscored
	var alleles []event.Allele
	for _, u := range batch {
		var ok bool
		if u.scores, ok = s.scores.known(u.variant.Allele.VRSID); !ok {
			asked, alleles = append(asked, u), append(alleles, u.variant.Allele)
		}
	}
	if len(asked) == 0 {
		return nil
	}
	all, err := s.scores.score(ctx, alleles)
	if err != nil {
		return err
	}
	for i, u := range asked {
		u.scores = all[i]
	}
	return nil
}

// next takes the calls to score together; an empty result ends the goroutine.
func (s *scoring) next() ([]*unscored, stream.Emitter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var batch []*unscored
	for len(s.queue) > 0 && len(batch) < scoredTogether {
		u := s.queue[0]
		s.queue[0], s.queue = nil, s.queue[1:]
		if s.waiting[u.key] == u {
			batch = append(batch, u)
		}
	}
	if len(batch) == 0 {
		s.queue, s.busy = nil, false
	}
	return batch, s.emit
}

func (s *scoring) stop() {
	s.mu.Lock()
	s.busy = false
	s.mu.Unlock()
}

// publish emits the revisions of those that nothing newer was said about since.
func (s *scoring) publish(ctx context.Context, batch []*unscored) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var outs []stream.Out
	for _, u := range batch {
		if s.waiting[u.key] != u {
			continue
		}
		delete(s.waiting, u.key)
		if len(u.scores) == 0 { // nothing to be said
			continue
		}
		v := u.variant
		v.Annotation.Scores = u.scores
		v.Revision++ // which was left free
		more, err := s.handler.records(&v)
		if err != nil {
			return err
		}
		outs = append(outs, more...)
		s.handler.cfg.Metrics.scored(scoredLater, 1)
	}
	if len(outs) == 0 {
		return nil
	}
	return s.emit.Emit(ctx, outs, nil)
}

// Drain has nothing said any more of records handled so far: scores that weren't there come with an allele's next revision,
// the final one at the latest.
func (s *scoring) Drain(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.waiting)
	return nil
}

// Close ends scoring.
func (s *scoring) Close() error {
	s.background.Close()
	return s.Fold.Close()
}

// publication is a revision that was published.
type publication struct {
	variant  event.Variant
	unscored bool
}

// addScores adds scores to a revision, if they are there or have to be, and reports whether they are still to come. A
// retracted revision has none.
func (h *handler) addScores(v *event.Variant) (later bool, err error) {
	if h.scores == nil || v.Status == streampb.CallStatus_RETRACTED.String() {
		return false, nil
	}
	if known, ok := h.scores.known(v.Allele.VRSID); ok {
		v.Annotation.Scores = known
		h.cfg.Metrics.scored(scoredAtOnce, len(known))
		return false, nil
	}
	switch v.Status {
	case streampb.CallStatus_FINAL.String(), streampb.CallStatus_AMENDED.String():
	default:
		return true, nil
	}
	all, err := h.scores.score(h.ctx, []event.Allele{v.Allele})
	if err != nil {
		return false, err
	}
	v.Annotation.Scores = all[0]
	h.cfg.Metrics.scored(scoredAwaited, len(all[0]))
	return false, nil
}
