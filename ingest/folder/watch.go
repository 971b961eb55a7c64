package folder

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
	"golang.org/x/sync/errgroup"

	"github.com/porestream/porestream/ingest/contain"
	"github.com/porestream/porestream/ingest/spool"
)

// restShare bounds the share of time that listing folders takes: on a slow file
// system they are listed less often than asked for.
const restShare = 10

// Watch ingests what there is in folders and what comes, until ctx ends or, if so
// configured, all runs have ended. ready is called when the folders were listed
// for the first time.
func Watch(ctx context.Context, cfg Config, ready func()) error {
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Files == nil {
		cfg.Files = signalFiles{}
	}
	for _, dir := range cfg.Dirs {
		if err := cfg.check(dir); err != nil {
			return err
		}
	}
	lock, err := spool.Lock("journal", cfg.Journal)
	if err != nil {
		return err
	}
	defer lock.Close()
	group, ctx := errgroup.WithContext(ctx)
	w := newWatcher(cfg, func(fn func() error) { group.Go(contain.Panics(fn)) }, time.Now())
	// The feeds end with the watch, however it ends.
	ctx, stop := context.WithCancel(ctx)
	group.Go(contain.Panics(func() error {
		err := w.watch(ctx, ready)
		if err != nil {
			return err
		}
		stop()
		return nil
	}))
	err = group.Wait()
	stop()
	return errors.Join(err, cfg.Files.Close())
}

// check refuses what can't be watched.
func (cfg *Config) check(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.Mode().IsRegular() && cfg.Single {
		return nil
	}
	return checkFolder(path)
}

// checkFolder refuses a folder that can't be watched.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, reason(err))
	}
	if !info.IsDir() {
		return fmt.Errorf("%s: is a file: name the folder that it is in", dir)
	}
	f, err := os.Open(dir)
	if err == nil {
		_, err = f.Readdirnames(1)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("%s: %w: the user of ingest must be allowed to list the folder", dir, reason(err))
	}
	return nil
}

// watch lists the folders and reads what is new, again and again.
func (w *watcher) watch(ctx context.Context, ready func()) error {
	n := newNotifier(w.log)
	defer n.close()
	if err := w.resume(ctx, time.Now()); err != nil {
		return err
	}
	var listed time.Time
	var rest time.Duration
	for {
		if now := time.Now(); now.Sub(listed) >= rest {
			l, err := list(w.cfg.Dirs, w.cfg.Files)
			if err != nil {
				return err
			}
			if listed.IsZero() {
				w.log.Info("folders are followed", "folders", w.cfg.Dirs, "files", len(l.entries))
			}
			listed = time.Now()
			rest = min(w.cfg.Poll, restShare*listed.Sub(now))
			n.follow(l.dirs)
			w.take(l, listed)
			ready()
		}
		more, err := w.poll(ctx, time.Now())
		if err != nil {
			return err
		}
		if more {
			continue
		}
		if done, err := w.done(time.Now()); done || err != nil {
			return err
		}
		if err := n.wait(ctx, max(rest, w.cfg.Poll)); err != nil {
			return err
		}
		if late := rest - time.Since(listed); late > 0 {
			if err := pause(ctx, late); err != nil {
				return err
			}
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notifier reports changes sooner than the next listing would, where the file
// system does. It may miss any: folders are listed all the same.
type notifier struct {
	log     *slog.Logger
	watcher *fsnotify.Watcher // nil: none
	dirs    map[string]bool
}

func newNotifier(log *slog.Logger) *notifier {
	n := &notifier{log: log, dirs: make(map[string]bool)}
	var err error
	if n.watcher, err = fsnotify.NewWatcher(); err != nil {
		log.Info("the system doesn't report changes; folders are listed now and then", "err", err)
		n.watcher = nil
	}
	return n
}

// follow asks the system to report changes in folders.
func (n *notifier) follow(dirs []string) {
	if n.watcher == nil {
		return
	}
	now := make(map[string]bool, len(dirs))
	for _, dir := range dirs {
		now[dir] = true
		if n.dirs[dir] {
			continue
		}
		if err := n.watcher.Add(filepath.Clean(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			n.log.Info("the system doesn't report changes in a folder, which is listed now and then", "folder", dir, "err", err)
		}
	}
	n.dirs = now // fsnotify forgets folders that are gone by itself
}

// wait returns when something has changed, or after a time.
func (n *notifier) wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	var events chan fsnotify.Event
	var faults chan error
	if n.watcher != nil {
		events, faults = n.watcher.Events, n.watcher.Errors
	}
	for {
		select {
		case <-timer.C:
			return nil
		case e := <-events:
			if e.Op == fsnotify.Chmod {
				continue
			}
		case err := <-faults: // such as too many events at once
			n.log.Debug("changes were missed; the next listing shows them", "err", err)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		return n.drain()
	}
}

// drain forgets what else has changed: the next listing shows it.
func (n *notifier) drain() error {
	for {
		select {
		case <-n.watcher.Events:
		case err := <-n.watcher.Errors:
			n.log.Debug("changes were missed; the next listing shows them", "err", err)
		default:
			return nil
		}
	}
}

func (n *notifier) close() {
	if n.watcher == nil {
		return
	}
	if err := n.watcher.Close(); err != nil {
		n.log.Debug("closing the notifier", "err", err)
	}
}
