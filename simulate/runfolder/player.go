package runfolder

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"
)

// Player writes a run into its folder while it is sequenced.
type Player struct {
	Run    *Run
	Folder *Folder
	// Pace is how many times as fast as the sequencer; 0: as fast as can be.
	Pace float64
	// Written, if set, is called for each read when its bytes are in the named files, with
	// the time at which their writing began.
	Written func(r *Read, files []string, at time.Time) error
}

// ahead is how many reads are made before they are due.
const ahead = 64

// Play writes the run until its end and its final summary, or until ctx ends: then files are
// completed, and there is no summary.
func (p *Player) Play(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	made := make(chan *Read, ahead)
	group.Go(func() error {
		defer close(made)
		for {
			r, more, err := p.Run.Next()
			if err != nil || !more {
				return err
			}
			select {
			case made <- r:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
	group.Go(func() error { return p.write(ctx, made) })
	if err := group.Wait(); err != nil {
		_ = p.Folder.Close() // the earlier error is the one to report
		return err
	}
	return p.Folder.Finish()
}

// write appends reads to the folder when they end.
func (p *Player) write(ctx context.Context, made <-chan *Read) error {
	began := time.Now()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for r := range made {
		if p.Pace > 0 {
			timer.Reset(time.Until(began.Add(time.Duration(float64(r.End) / p.Pace))))
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := time.Now()
		files, err := p.Folder.Write(r)
		if err != nil {
			return err
		}
		if p.Written == nil {
			continue
		}
		if err := p.Written(r, files, at); err != nil {
			return err
		}
	}
	return nil
}
