package sources

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// TestSourcesEndUpAsTheLastValidFile: whatever files come, the sources end up as the last valid one lists
// them, and a source that a new file leaves as it is is never started again.
func TestSourcesEndUpAsTheLastValidFile(t *testing.T) {
	for seed := range uint64(150) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sources.yaml")
			synctest.Test(t, func(t *testing.T) { reload(t, rand.New(rand.NewPCG(seed, 1)), path) })
		})
	}
}

// listFile is a file of sources as the test has it: settings by name.
type listFile map[string]string

func randomFile(rng *rand.Rand) string {
	if rng.IntN(4) == 0 {
		return []string{"", "{", `{"a":`, `"text"`}[rng.IntN(4)] + strings.Repeat(" ", rng.IntN(3))
	}
	list := make(listFile)
	for _, name := range []string{"a", "b", "c", "d"} {
		if rng.IntN(3) > 0 {
			list[name] = fmt.Sprint(rng.IntN(2))
		}
	}
	b, _ := json.Marshal(list) // texts can be encoded
	return string(b)
}

func reload(t *testing.T, rng *rand.Rand, path string) {
	st := newStage()
	var mu sync.Mutex
	var accepted []listFile
	refused := 0
	parse := func(content []byte) ([]Spec, error) {
		mu.Lock()
		defer mu.Unlock()
		var list listFile
		if err := json.Unmarshal(content, &list); err != nil {
			refused++
			return nil, err
		}
		var specs []Spec
		for name, settings := range list {
			slow := time.Duration(len(name)*int(name[0]-'a')) * 3 * time.Second
			spec := st.spec(name, settings, func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(slow)
				return ctx.Err()
			})
			// a and b want the same in their second form.
			if settings == "1" && (name == "a" || name == "b") {
				spec.Claims = []Claim{{Address, ":1"}}
			}
			specs = append(specs, spec)
		}
		if err := Check(specs); err != nil {
			refused++
			return nil, err
		}
		accepted = append(accepted, list)
		return specs, nil
	}
	write := func(content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
	write(`{"a":"0","b":"0"}`)
	file, list, err := Open(path, parse, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	lists, changes, orders := make(chan []Spec), make(chan struct{}, 1), make(chan os.Signal, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go file.Follow(ctx, changes, orders, lists)
	s, stop := supervise(t, Config{Restarts: true}, list, lists)
	for range 5 + rng.IntN(10) {
		write(randomFile(rng))
		switch rng.IntN(4) {
		case 0:
			select {
			case changes <- struct{}{}:
			default:
			}
		case 1:
			select {
			case orders <- os.Interrupt:
			default:
			}
		}
		time.Sleep(time.Duration(rng.IntN(6000)) * time.Millisecond)
	}
	time.Sleep(time.Hour)
	synctest.Wait()

	last := accepted[len(accepted)-1]
	require.Equal(t, map[string]string(last), st.running())
	require.Len(t, s.Status(), len(last))
	require.Empty(t, st.twice, "two of one name at the same time")
	// A source may be started once for each time that a list has it otherwise than
	// the list before.
	changed := make(map[string]int)
	was := listFile{}
	for _, list := range accepted {
		for name, settings := range list {
			if before, there := was[name]; !there || before != settings {
				changed[name]++
			}
		}
		was = list
	}
	for name, starts := range st.starts {
		require.LessOrEqual(t, starts, changed[name], "source %s was started again though it had not changed", name)
	}
	require.EqualValues(t, refused, file.Status().Refused)
	cancel()
	require.NoError(t, stop())
}

// TestFileIsReadWhenItHasSettled: what an editor has written the half of is not
// used.
func TestFileIsReadWhenItHasSettled(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	synctest.Test(t, func(t *testing.T) {
		write := func(content string) { require.NoError(t, os.WriteFile(path, []byte(content), 0o600)) }
		write("1")
		file, _, err := Open(path, func(b []byte) ([]Spec, error) {
			if string(b) == "bad" {
				return nil, errors.New("line 3: no option \"polll\"\n")
			}
			return []Spec{{Name: string(b)}}, nil
		}, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		lists, changes := make(chan []Spec), make(chan struct{})
		orders := make(chan os.Signal)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); file.Follow(ctx, changes, orders, lists) }()
		for i := range 10 {
			write(fmt.Sprint("half ", i))
			changes <- struct{}{}
			time.Sleep(settleInterval / 2)
		}
		write("whole")
		changes <- struct{}{}
		require.Equal(t, "whole", (<-lists)[0].Name)

		write("bad")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, `line 3: no option "polll"`, file.Status().Error)
		require.EqualValues(t, 1, file.Status().Refused, "one fault is told once")
		orders <- os.Interrupt // an order is answered at once
		synctest.Wait()
		require.EqualValues(t, 2, file.Status().Refused)

		require.NoError(t, os.Remove(path))
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Contains(t, file.Status().Error, "no such file")
		write("whole")
		require.Equal(t, "whole", (<-lists)[0].Name)
		synctest.Wait()
		require.Empty(t, file.Status().Error)
		cancel()
		<-done
	})
}

func TestFileIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sources.yaml")
	require.NoError(t, os.WriteFile(path, make([]byte, maxFile+1), 0o600))
	_, _, err := Open(path, nil, slog.New(slog.DiscardHandler))
	require.ErrorContains(t, err, "more than 1048576 bytes")
}

// TestReplacedFileIsNoticed: a file that takes another's place is noticed.
func TestReplacedFileIsNoticed(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sources.yaml")
	require.NoError(t, os.WriteFile(path, []byte("1"), 0o600))
	file, _, err := Open(path, func([]byte) ([]Spec, error) { return nil, nil }, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	changes := file.Notify(t.Context())
	require.NoError(t, os.WriteFile(path+".new", []byte("2"), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
	select {
	case <-changes:
	case <-time.After(time.Minute):
		t.Error("nobody tells of the change")
	}
}
