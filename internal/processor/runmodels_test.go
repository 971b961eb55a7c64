package processor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/infer"
	basecallstage "github.com/porestream/porestream/basecall/stage"
	"github.com/porestream/porestream/modbase"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/signal"
	"github.com/porestream/porestream/stream/streampb"
	"github.com/porestream/porestream/testenv"
)

const golden = "../../basecall/convert/testdata/golden/"

// folderOf makes a folder of models that are made from seeds, under other names.
func folderOf(t *testing.T, originals map[string]string) string {
	t.Helper()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	for name, original := range originals {
		require.NoError(t, os.CopyFS(filepath.Join(dir, name), os.DirFS(golden+original)))
	}
	return dir
}

func runOf(id, cell, kit string, rate int) *streampb.Run {
	return &streampb.Run{Id: id, Sample: "s-" + id, FlowCellProduct: cell, Kit: kit, SampleRate: uint32(rate)}
}

// TestChoiceOfModels holds runs' models to rules and folder, by what each run's description says.
func TestChoiceOfModels(t *testing.T) {
	dir := folderOf(t, map[string]string{
		"dna_r10.4.1_e8.2_400bps_hac@v4.0.0": "dna_r10.4.1_small@v4.0.0.dorado",
		"dna_r10.4.1_e8.2_400bps_hac@v5.0.0": "dna_r10.4.1_small@v5.0.0",
		"dna_r10.4.1_e8.2_400bps_sup@v5.0.0": "dna_r10.4.1_small@v5.0.0",
		"dna_r9.4.1_e8_fast@v3.4":            "dna_r9.4.1_small@v3.0",
	})
	path := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`rules:
- {sample: s-clinical*, size: sup, precision: fp32}
- {flow_cell: FLO-MIN106, kit: SQK-RAD004, model: r9.4-hac}
- {chemistry: r10.4.1, sample_rate: 5000, size: hac}
- {chemistry: r10.4.1, model: dna_r10.4.1_e8.2_400bps_hac@v4.0.0}
- {chemistry: rna*, model: none}
- {chemistry: r9.4, model: ./gone}
`), 0o600))
	byRules, err := newCatalogue(RunModels{Rules: path, Dir: dir}, "")
	require.NoError(t, err)
	byFolder, err := newCatalogue(RunModels{Dir: dir}, "")
	require.NoError(t, err)
	ofSize, err := newCatalogue(RunModels{Dir: dir}, "sup")
	require.NoError(t, err)
	for _, c := range []struct {
		name      string
		of        *catalogue
		run       *streampb.Run
		model     string
		precision string
		absent    string // the reason and a part of why
	}{
		{"a rule's size", byRules, runOf("clinical-1", "FLO-PRO114M", "SQK-LSK114", 5000), "dna_r10.4.1_e8.2_400bps_sup@v5.0.0", "fp32", ""},
		{"a rule's shipped model", byRules, runOf("1", "FLO-MIN106", "sqk-rad004", 4000), "r9.4-hac", "", ""},
		{"by rate", byRules, runOf("2", "FLO-PRO114M", "SQK-LSK114", 5000), "dna_r10.4.1_e8.2_400bps_hac@v5.0.0", "", ""},
		{"by the other rate", byRules, runOf("3", "FLO-PRO114M", "SQK-LSK114", 4000), "dna_r10.4.1_e8.2_400bps_hac@v4.0.0", "", ""},
		{"left out", byRules, runOf("4", "FLO-MIN004RA", "SQK-RNA004", 4000), "", "", "left_out: rules.yaml:6 leaves it out"},
		{"a folder that isn't there", byRules, runOf("5", "FLO-MIN106", "SQK-LSK109", 4000), "gone", "", ""},
		{"no rule", byRules, runOf("6", "", "", 4000), "", "", `no_rule: no rule of rules.yaml is for it: flow cell "", kit "", 4000 Hz`},
		{"none of the size fits", byRules, runOf("clinical-2", "FLO-MIN106", "SQK-LSK109", 4000), "", "", "none_fits: choosing a model: none is for run clinical-2 (r9.4 at 4000 Hz"},
		{"of the folder", byFolder, runOf("7", "FLO-MIN106", "SQK-LSK109", 4000), "dna_r9.4.1_e8_fast@v3.4", "", ""},
		{"of the folder, hac first", byFolder, runOf("8", "FLO-PRO114M", "SQK-LSK114", 5000), "dna_r10.4.1_e8.2_400bps_hac@v5.0.0", "", ""},
		{"of the folder, of a size", ofSize, runOf("9", "FLO-PRO114M", "SQK-LSK114", 5000), "dna_r10.4.1_e8.2_400bps_sup@v5.0.0", "", ""},
		{"none of the folder", ofSize, runOf("10", "FLO-MIN106", "SQK-LSK109", 4000), "", "", "none_fits: choosing a model: none is for run 10"},
		{"nothing is known of it", byFolder, runOf("11", "", "", 4000), "", "", "none_fits: choosing a model: run 11 names neither"},
	} {
		l, precision, err := c.of.choose(described(c.run))
		if c.absent != "" {
			var a *absence
			require.ErrorAs(t, err, &a, c.name)
			assert.Contains(t, strings.ReplaceAll(a.reason+": "+a.why, filepath.Dir(path)+"/", ""), c.absent, c.name)
			continue
		}
		require.NoError(t, err, c.name)
		assert.Equal(t, c.model, filepath.Base(l.Path), c.name)
		assert.Equal(t, c.precision, precision, c.name)
		for range 5 { // and the same every time
			again, _, err := c.of.choose(described(c.run))
			require.NoError(t, err)
			assert.Equal(t, l.Path, again.Path)
		}
	}

	_, err = newCatalogue(RunModels{Rules: path}, "")
	require.ErrorContains(t, err, "size sup, which is taken from a folder of models: give --models-dir")
	_, err = newCatalogue(RunModels{Dir: filepath.Join(dir, "none")}, "")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestFlagsOfRunModels(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"--models r.yaml", ""},
		{"--models-dir d --model sup", ""},
		{"--models r.yaml --models-dir d --models-keep 1 --models-idle 1s", ""},
		{"--models r.yaml --model r9.4-fast", "--models and --model r9.4-fast exclude each other"},
		{"--models-dir d --model r9.4-fast", "--model r9.4-fast with --models-dir: want a size, one of fast, hac, sup"},
		{"--models-dir d --models-keep 0", "--models-keep 0: want 1 to 64"},
		{"--models-dir d --models-idle -1s", "--models-idle -1s: want more than 0"},
		{"--models-dir d --models-idle 0", "--models-idle 0s: want more than 0"},
		{"--models-dir d --adaptive enrich --targets t.bed", "adaptive sampling decides with one model"},
		{"--model r9.4-fast --models-keep 0", ""},
	} {
		var f Flags
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		f.Register(flags)
		f.Adaptive.Register(flags)
		require.NoError(t, flags.Parse(append(strings.Fields(c.args), "--ref", "x.fa")), c.args)
		_, err := f.Options(nil)
		if c.want == "" {
			require.NoError(t, err, c.args)
			continue
		}
		require.ErrorContains(t, err, c.want, c.args)
	}
}

// laboratory is engines that have nothing but models by run.
type laboratory struct {
	*runModels
	log *testenv.Log
	reg *prometheus.Registry
}

func newLaboratory(t *testing.T, m RunModels) *laboratory {
	t.Helper()
	l := &laboratory{log: new(testenv.Log), reg: prometheus.NewRegistry()}
	e := &Engines{}
	require.NoError(t, e.loadRunModels(Options{Flags: Flags{RunModels: m, Device: "cpu"}, Registerer: l.reg, Logger: slog.New(slog.NewTextHandler(l.log, nil))}))
	l.runModels = e.models
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	return l
}

// TestNewerModelThatCannotBeUsedIsNamed: a run isn't given an older model of the folder unsaid, and one that a rule names is not in question.
func TestNewerModelThatCannotBeUsedIsNamed(t *testing.T) {
	const older, newer = "dna_r10.4.1_e8.2_400bps_hac@v4.3.0", "dna_r10.4.1_e8.2_400bps_hac@v6.0.0"
	dir := folderOf(t, map[string]string{older: "dna_r10.4.1_small@v4.3.0", newer: "dna_r10.4.1_small@v6.0.0"})
	config := filepath.Join(dir, newer, "config.toml")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, bytes.Replace(text, []byte(`"flstm"`), []byte(`"mamba"`), 1), 0o600))
	file := filepath.Join(t.TempDir(), "rules.yaml")
	require.NoError(t, os.WriteFile(file, []byte("rules:\n  - sample_rate: 5000\n    model: "+older+"\n"), 0o600))

	run := runOf("new", "FLO-PRO114M", "SQK-LSK114", 5000)
	byFolder, byRule := newLaboratory(t, RunModels{Dir: dir}), newLaboratory(t, RunModels{Dir: dir, Rules: file})
	for range 2 {
		require.Equal(t, filepath.Join(dir, older), byFolder.Choose(run).Model)
		require.Equal(t, filepath.Join(dir, older), byRule.Choose(run).Model)
	}
	require.Equal(t, 1, strings.Count(byFolder.log.String(), models.PassedOverMessage), byFolder.log.String())
	require.Contains(t, byFolder.log.String(), "run=new model="+newer)
	require.Contains(t, byFolder.log.String(), "mamba")
	require.NotContains(t, byRule.log.String(), models.PassedOverMessage)
}

// realRead is the beginning of a real read, said to be recorded at a rate.
func realRead(t *testing.T, rate int) basecall.Read {
	t.Helper()
	index, err := signal.NewIndex(t.Context(), []string{"../../testdata/lambda/reads.pod5"})
	require.NoError(t, err)
	defer index.Close()
	samples, err := index.Samples(0, nil)
	require.NoError(t, err)
	return basecall.Read{ID: "r", Samples: samples[:min(len(samples), 12_000)], SampleRate: rate, Calibration: index.Entry(0).Calibration}
}

// called is what a model of the stage calls a read.
func called(t *testing.T, m *basecallstage.Model, read basecall.Read) []byte {
	s, err := m.Caller.Begin(read)
	if !assert.NoError(t, err) {
		return nil
	}
	defer s.Close()
	assert.NoError(t, s.Write(t.Context(), read.Samples))
	c, err := s.Finish(t.Context())
	assert.NoError(t, err)
	return append(c.Sequence, c.Qualities...)
}

// TestRunsOfTwoChemistriesAreCalledAsAlone has reads of two runs called side by side by models on one
// device: to the bytes that each model gives alone.
func TestRunsOfTwoChemistriesAreCalledAsAlone(t *testing.T) {
	dir := folderOf(t, map[string]string{"dna_r10.4.1_e8.2_400bps_hac@v5.0.0": "dna_r10.4.1_small@v5.0.0", "dna_r9.4.1_e8_fast@v3.4": "dna_r9.4.1_small@v3.0"})
	l := newLaboratory(t, RunModels{Dir: dir})
	runs := []*streampb.Run{runOf("old", "FLO-MIN106", "SQK-LSK109", 4000), runOf("new", "FLO-PRO114M", "SQK-LSK114", 5000)}
	want := make(map[string][]byte)
	var distinct sync.Map
	for _, run := range runs {
		model, err := models.Open(l.Choose(run).Model)
		require.NoError(t, err)
		caller, err := basecall.NewCaller(model, basecall.Config{Device: "cpu", Compute: infer.Compute{}})
		require.NoError(t, err)
		want[run.GetId()] = called(t, &basecallstage.Model{Caller: basecallstage.FromEngine(caller)}, realRead(t, int(run.GetSampleRate())))
		require.NoError(t, caller.Close())
		require.NotEmpty(t, want[run.GetId()])
	}
	require.NotEqual(t, want["old"], want["new"])
	var all sync.WaitGroup
	for i := range 12 {
		run := runs[i%2]
		read := realRead(t, int(run.GetSampleRate()))
		all.Go(func() {
			m, done, err := l.Use(t.Context(), run, l.Choose(run))
			if !assert.NoError(t, err) {
				return
			}
			defer done()
			distinct.Store(m.Name, true)
			assert.Equal(t, want[run.GetId()], called(t, m, read), run.GetId())
		})
	}
	all.Wait()
	assert.Equal(t, []string{"dna_r10.4.1_e8.2_400bps_hac@v5.0.0", "dna_r9.4.1_e8_fast@v3.4"}, l.names())
	assert.InDelta(t, 2, testutil.ToFloat64(l.metrics.loaded), 0)
	assert.Equal(t, 2, strings.Count(l.log.String(), "model is chosen"), "once for each run: %s", l.log)
	assert.Equal(t, 2, testutil.CollectAndCount(l.metrics.loads), "a series for each model")
}

// TestRunsWithoutAModel are logged in a line each, and counted by why; others are not touched.
func TestRunsWithoutAModel(t *testing.T) {
	dir := folderOf(t, map[string]string{"dna_r9.4.1_e8_fast@v3.4": "dna_r9.4.1_small@v3.0", "broken": "dna_r10.4.1_small@v5.0.0"})
	require.NoError(t, os.WriteFile(filepath.Join(dir, "broken", "config.toml"), []byte("x"), 0o600))
	path := filepath.Join(dir, "rules.yaml")
	require.NoError(t, os.WriteFile(path, []byte("rules:\n- {chemistry: r9.4, model: ./dna_r9.4.1_e8_fast@v3.4}\n- {chemistry: r10.4.1, model: ./broken}\n- {chemistry: rna*, model: none}\n"), 0o600))
	l := newLaboratory(t, RunModels{Rules: path})
	assert.Contains(t, l.log.String(), "a model that rules name can't be used")
	good := runOf("good", "FLO-MIN106", "SQK-LSK109", 4000)
	refused := map[string]*streampb.Run{
		reasonLoad:    runOf("bad", "FLO-PRO114M", "SQK-LSK114", 5000),
		reasonLeftOut: runOf("rna", "FLO-MIN004RA", "SQK-RNA004", 4000),
		reasonNoRule:  runOf("unknown", "", "", 4000),
	}
	for reason, run := range refused {
		for range 3 {
			_, _, err := l.Use(t.Context(), run, l.Choose(run))
			require.ErrorIs(t, err, basecallstage.ErrNoModel, reason)
			_, _, ok, err := l.Ready(run, l.Choose(run))
			require.True(t, ok)
			require.ErrorIs(t, err, basecallstage.ErrNoModel, reason)
		}
		assert.InDelta(t, 1, testutil.ToFloat64(l.metrics.without.WithLabelValues(reason)), 0, reason)
		assert.Equal(t, 1, strings.Count(l.log.String(), "run has no model: its reads are left out, and counted as no_model\" run="+run.GetId()), "%s", l.log)
	}
	assert.Equal(t, 1, strings.Count(l.log.String(), "a model can't be used: reads"), "%s", l.log)
	m, done, err := l.Use(t.Context(), good, l.Choose(good))
	require.NoError(t, err)
	defer done()
	assert.Equal(t, "dna_r9.4.1_e8_fast@v3.4", m.Name)
	require.ErrorContains(t, l.check([]*signal.Run{described(refused[reasonNoRule])}), "run unknown has no model: no rule")
	require.NoError(t, l.check([]*signal.Run{described(refused[reasonNoRule]), described(good)}))
}

// TestModelThatChangedUnderARun: a run that began with a model isn't called by other files of that
// name; nor is a rule's change silent.
func TestModelThatChangedUnderARun(t *testing.T) {
	dir := folderOf(t, map[string]string{"dna_r9.4.1_e8_fast@v3.4": "dna_r9.4.1_small@v3.0", "dna_r9.4.1_e8_hac@v3.3": "dna_r9.4.1_small@v3.3"})
	run := runOf("old", "FLO-MIN106", "SQK-LSK109", 4000)
	began := newLaboratory(t, RunModels{Dir: dir}).Choose(run)
	require.Equal(t, "dna_r9.4.1_e8_hac@v3.3", filepath.Base(began.Model))
	require.Len(t, began.Identity, 32)

	// The rules would choose another by now: the run goes on with what it has.
	l := newLaboratory(t, RunModels{Dir: filepath.Join(dir, "dna_r9.4.1_e8_fast@v3.4")})
	m, done, err := l.Use(t.Context(), run, began)
	require.NoError(t, err)
	done()
	assert.Equal(t, "dna_r9.4.1_e8_hac@v3.3", m.Name)
	assert.Equal(t, 1, strings.Count(l.log.String(), "run goes on with the model that it began with; the rules would choose another now"), "%s", l.log)

	// The folder lies elsewhere by now, as where a restart names it from another place.
	moved := filepath.Join(t.TempDir(), "moved")
	require.NoError(t, os.Rename(dir, moved))
	l = newLaboratory(t, RunModels{Dir: moved})
	m, done, err = l.Use(t.Context(), run, began)
	require.NoError(t, err)
	done()
	assert.Equal(t, "dna_r9.4.1_e8_hac@v3.3", m.Name)
	require.NoError(t, os.Rename(moved, dir))

	// Its files are others by now.
	config := filepath.Join(began.Model, "config.toml")
	text, err := os.ReadFile(config)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(config, append(text, "\n# as of today\n"...), 0o600))
	l = newLaboratory(t, RunModels{Dir: dir})
	_, _, err = l.Use(t.Context(), run, began)
	require.ErrorIs(t, err, basecallstage.ErrNoModel)
	require.ErrorContains(t, err, "dna_r9.4.1_e8_hac@v3.3 is not the one that the run began with: its files have changed")
	next := l.Choose(run)
	assert.NotEqual(t, began.Identity, next.Identity)
	_, done, err = l.Use(t.Context(), run, next)
	require.NoError(t, err, "runs that begin now get the new one")
	done()
}

// TestReadsWaitForADeviceWithoutCapacity: what is wrong with the device leaves no read out; the model is tried again.
func TestReadsWaitForADeviceWithoutCapacity(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &catalogue{}
		r, err := newRunModels(RunModels{}, c, nil, slog.New(slog.DiscardHandler))
		require.NoError(t, err)
		attempts := 0
		r.load = func(context.Context, modelKey) (*loadedModel, error) {
			if attempts++; attempts < 4 {
				return nil, errors.New("device cuda:0: out of memory")
			}
			return &loadedModel{stage: &basecallstage.Model{Name: "there"}, unwatch: func() {}}, nil
		}
		run, choice := &streampb.Run{Id: "run"}, basecallstage.Choice{Model: "m"}
		_, _, ok, err := r.Ready(run, choice)
		require.NoError(t, err)
		require.False(t, ok)
		synctest.Wait() // the first attempt has failed
		_, _, ok, err = r.Ready(run, choice)
		require.NoError(t, err)
		require.False(t, ok, "it isn't left out")
		began := time.Now()
		m, done, err := r.Use(t.Context(), run, choice)
		require.NoError(t, err)
		assert.Equal(t, "there", m.Name)
		assert.Equal(t, 4, attempts)
		assert.Equal(t, 3*loadRetry, time.Since(began))
		done()
		assert.Zero(t, testutil.ToFloat64(r.metrics.without.WithLabelValues(reasonLoad)))

		attempts = 0
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, _, err = r.Use(ctx, run, basecallstage.Choice{Model: "another"})
		require.ErrorIs(t, err, context.DeadlineExceeded, "who gives up isn't held")
	})
}

// TestWhatIsWrongWithANetworkLeavesReadsOut: another try changes nothing about it, so nothing waits.
func TestWhatIsWrongWithANetworkLeavesReadsOut(t *testing.T) {
	for _, err := range []error{
		&infer.NetworkError{Err: errors.New("it has no LSTM layers to compute in int8")},
		fmt.Errorf("loading model x: %w", &infer.NetworkError{Err: errors.New("a fixed batch size")}),
	} {
		assert.False(t, passes(ofEngine(err)), "%v", err)
	}
	for _, text := range []string{"device cuda:0 can't be used: CUDA sees 0 here", "Failed to allocate memory for requested buffer of size 1"} {
		assert.True(t, passes(ofEngine(errors.New(text))), text)
	}
}

// TestHungDeviceEndsTheProcess, whichever model it computes.
func TestHungDeviceEndsTheProcess(t *testing.T) {
	l := newLaboratory(t, RunModels{Dir: folderOf(t, map[string]string{"dna_r9.4.1_e8_fast@v3.4": "dna_r9.4.1_small@v3.0"})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	go func() { ended <- l.watch(ctx) }()
	cancel()
	require.NoError(t, <-ended)
	l.hung <- errors.New("device cpu: it hangs")
	require.ErrorContains(t, l.watch(t.Context()), "it hangs")
}

func TestOnceForgets(t *testing.T) {
	r := &runModels{logged: make(map[string]bool)}
	for i := range 3 << 14 {
		require.True(t, r.once("run", fmt.Sprint(i)))
	}
	assert.LessOrEqual(t, len(r.logged), 1<<14)
	assert.False(t, r.once("run", fmt.Sprint(3<<14-1)))
}

// TestModifiedBasesByRun: each run's reads get their modified bases called by the models for its pore. Of a run without such a
// model no modified bases are called, which one line logs.
func TestModifiedBasesByRun(t *testing.T) {
	const made = "../../modbase/network/testdata/dna_r9.4.1_made.onnx"
	data, err := os.ReadFile(made)
	require.NoError(t, err)
	other := filepath.Join(t.TempDir(), "dna_r10.4.1_5khz_made.onnx")
	require.NoError(t, os.WriteFile(other, data, 0o600))
	dir := folderOf(t, map[string]string{"dna_r10.4.1_e8.2_400bps_hac@v5.0.0": "dna_r10.4.1_small@v5.0.0", "dna_r9.4.1_e8_fast@v3.4": "dna_r9.4.1_small@v3.0"})
	log := new(testenv.Log)
	opts := Options{Flags: Flags{RunModels: RunModels{Dir: dir}, Device: "cpu"}, Registerer: prometheus.NewRegistry(), Logger: slog.New(slog.NewTextHandler(log, nil))}
	load := func(t *testing.T, paths ...string) (*Engines, error) {
		e := &Engines{}
		require.NoError(t, e.loadRunModels(opts))
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		opts := opts
		opts.ModifiedBases = paths
		return e, e.loadModified(opts)
	}
	runs := []*streampb.Run{runOf("old", "FLO-MIN106", "SQK-LSK109", 4000), runOf("new", "FLO-PRO114M", "SQK-LSK114", 5000)}
	modified := func(t *testing.T, e *Engines) []bool {
		var is []bool
		for _, run := range runs {
			m, done, err := e.models.Use(t.Context(), run, e.models.Choose(run))
			require.NoError(t, err)
			defer done()
			for range 2 {
				if modifier := m.ModifierOf(run); modifier != nil {
					read := realRead(t, int(run.GetSampleRate()))
					s, err := m.Caller.Begin(read)
					require.NoError(t, err)
					require.NoError(t, s.Write(t.Context(), read.Samples))
					called, err := s.Finish(t.Context())
					s.Close()
					require.NoError(t, err)
					tags, err := modifier.Call(t.Context(), read.Samples, &called)
					require.NoError(t, err)
					require.NoError(t, tags.Check(modbase.Sequence{Bases: called.Sequence}))
				}
			}
			is = append(is, m.ModifierOf(run) != nil)
		}
		return is
	}

	both, err := load(t, made, other)
	require.NoError(t, err, "two that call the same are for two pores")
	assert.Equal(t, []bool{true, true}, modified(t, both))
	one, err := load(t, made)
	require.NoError(t, err)
	assert.Equal(t, []bool{true, false}, modified(t, one))
	assert.Equal(t, 1, strings.Count(log.String(), "no model of --modified-bases is for a run"), "%s", log)
	assert.NotEqual(t, both.calling(basecallstage.Config{}).Model, one.calling(basecallstage.Config{}).Model, "states of one are no states of the other")

	_, err = load(t, made, made)
	require.ErrorContains(t, err, "both call m")
	nobodys := filepath.Join(t.TempDir(), "dna_r10.3_made.onnx")
	require.NoError(t, os.WriteFile(nobodys, data, 0o600))
	_, err = load(t, made, nobodys)
	require.ErrorContains(t, err, "--modified-bases: modified-base model dna_r10.3_made is for r10.3 at 4000 Hz, and no basecalling model that runs may get is")
}
