package sources

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Timing of the file of sources.
const (
	// pollInterval is how often the file is read where the system reports no changes.
	pollInterval = 2 * time.Second
	// settleInterval is how long a new content has to stay: an editor may write a
	// file in pieces, of which the first may be a valid list without the rest.
	settleInterval = 250 * time.Millisecond
)

// maxFile bounds the file of sources, in bytes.
const maxFile = 1 << 20

// File is the file that lists the sources.
type File struct {
	path    string
	parse   func([]byte) ([]Spec, error)
	log     *slog.Logger
	content []byte // that was read last

	mu     sync.Mutex
	status FileStatus
}

// Open reads the file and returns what it lists. parse makes a list of its
// content, which must pass [Check].
func Open(path string, parse func([]byte) ([]Spec, error), log *slog.Logger) (*File, []Spec, error) {
	f := &File{path: path, parse: parse, log: log}
	content, err := readFile(path)
	if err != nil {
		return nil, nil, err
	}
	list, err := parse(content)
	if err != nil {
		return nil, nil, err
	}
	f.content = content
	f.status = FileStatus{Path: path, Loaded: time.Now()}
	return f, list, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("reading the list of sources: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("reading the list of sources: %w", err)
	}
	if len(b) > maxFile {
		return nil, fmt.Errorf("reading the list of sources: %s has more than %d bytes", path, maxFile)
	}
	return b, nil
}

// Status returns what has become of the file. Any goroutine may call it.
func (f *File) Status() FileStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.status
}

// Follow passes on what the file lists whenever that changes, until ctx ends. What
// can't be used leaves everything as it is. A value of changes says that the file
// may have changed; one of orders that it is to be used now, changed or not.
func (f *File) Follow(ctx context.Context, changes <-chan struct{}, orders <-chan os.Signal, lists chan<- []Spec) {
	timer := time.NewTimer(pollInterval)
	defer timer.Stop()
	var news []byte // a new content that has to stay for a while
	for {
		ordered := false
		select {
		case <-ctx.Done():
			return
		case <-changes:
		case <-timer.C:
		case <-orders:
			ordered = true
		}
		content, err := readFile(f.path)
		if err != nil {
			content = []byte(err.Error()) // so that the same error is reported once
		}
		timer.Reset(pollInterval)
		switch {
		case ordered:
		case bytes.Equal(content, f.content):
			news = nil
			continue
		case news == nil || !bytes.Equal(content, news):
			news = content
			timer.Reset(settleInterval)
			continue
		}
		news, f.content = nil, content
		var list []Spec
		if err == nil {
			list, err = f.parse(content)
		}
		f.note(err)
		if err != nil {
			continue
		}
		select {
		case lists <- list:
		case <-ctx.Done():
			return
		}
	}
}

// note notes what has come of a changed file.
func (f *File) note(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err != nil {
		f.status.Refused++
		f.status.Error = strings.Join(strings.Fields(err.Error()), " ")
		f.log.Error("the list of sources can't be used; the sources stay as they are", "err", f.status.Error)
		return
	}
	f.status.Error, f.status.Loaded = "", time.Now()
	f.log.Info("list of sources read again", "file", f.path)
}

// Notify reports changes to the file, where the system reports them, until ctx
// ends. It may miss any: the file is read now and then all the same.
func (f *File) Notify(ctx context.Context) <-chan struct{} {
	changes := make(chan struct{}, 1)
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		// The folder, as editors and Kubernetes put another file in its place.
		if err = watcher.Add(filepath.Dir(f.path)); err != nil {
			watcher.Close()
		}
	}
	if err != nil {
		f.log.Info("the system doesn't report changes to the list of sources, which is read now and then", "err", err)
		return changes
	}
	go func() {
		defer watcher.Close()
		for {
			select {
			case <-ctx.Done():
				return
			case _, ok := <-watcher.Events:
				if !ok {
					return
				}
			case _, ok := <-watcher.Errors:
				if !ok {
					return
				}
			}
			select {
			case changes <- struct{}{}:
			default:
			}
		}
	}()
	return changes
}
