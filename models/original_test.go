package models

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/signal"
)

const golden = "../basecall/convert/testdata/golden/"

// place copies a golden network to a folder of a real model's name.
func place(t *testing.T, dir, network, name string) string {
	t.Helper()
	to := filepath.Join(dir, name)
	require.NoError(t, os.CopyFS(to, os.DirFS(golden+network)))
	return to
}

// originals are folders as Dorado downloads them, for every chemistry there is: the names
// are real, the networks are small ones from seeds.
func originals(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	place(t, dir, "dna_r9.4.1_small@v3.3", "dna_r9.4.1_e8_hac@v3.3")
	place(t, dir, "dna_r10.4.1_small@v4.0.0.dorado", "dna_r10.4.1_e8.2_400bps_hac@v4.1.0")
	place(t, dir, "dna_r10.4.1_small@v4.0.0", "dna_r10.4.1_e8.2_260bps_hac@v4.1.0")
	place(t, dir, "dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_e8.2_400bps_hac@v4.3.0")
	place(t, dir, "dna_r10.4.1_small@v6.1.0.dorado", "dna_r10.4.1_e8.2_400bps_hac@v6.0.0")
	place(t, dir, "dna_r10.4.1_small@v5.0.0", "dna_r10.4.1_e8.2_400bps_sup@v5.0.0")
	place(t, dir, "dna_r10.4.1_small@v5.0.0", "dna_r10.4.1_e8.2_apk_sup@v5.2.0")
	place(t, dir, "dna_r9.4.1_small@v3.0", "rna004_130bps_hac@v5.1.0")
	place(t, dir, "dna_r9.4.1_small@v3.0", "rna002_70bps_hac@v3")
	return dir
}

func TestOriginalsAreConvertedOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	dir := place(t, t.TempDir(), "dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_e8.2_400bps_hac@v4.3.0")
	cached := func() []string {
		found, err := filepath.Glob(filepath.Join(cache, "porestream", "models", "*"))
		require.NoError(t, err)
		return found
	}
	first, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, "dna_r10.4.1_e8.2_400bps_hac@v4.3.0", first.Manifest.Name)
	require.Len(t, cached(), 1)
	second, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, first, second)
	require.Len(t, cached(), 1)

	// A damaged copy is said to be one, and isn't used.
	network := filepath.Join(cached()[0], "model.onnx")
	data, err := os.ReadFile(network)
	require.NoError(t, err)
	data[len(data)/2] ^= 1
	require.NoError(t, os.WriteFile(network, data, 0o600))
	_, err = Open(dir)
	require.ErrorContains(t, err, "sha256 is")
	require.ErrorContains(t, err, "remove that folder")
	require.NoError(t, os.RemoveAll(cached()[0]))

	// Other content is another model.
	_, err = Open(dir)
	require.NoError(t, err)
	config, err := os.ReadFile(filepath.Join(dir, "config.toml"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.toml"), append(config, "\n# changed\n"...), 0o600))
	_, err = Open(dir)
	require.NoError(t, err)
	assert.Len(t, cached(), 2)

	// Without a cache to write to it is converted all the same.
	t.Setenv("XDG_CACHE_HOME", filepath.Join(dir, "config.toml"))
	third, err := Open(dir)
	require.NoError(t, err)
	assert.Equal(t, first.Network, third.Network)
}

func TestChooseTakesTheModelForTheRun(t *testing.T) {
	all, err := List(originals(t))
	require.NoError(t, err)
	require.Len(t, all, 9)
	run := func(cell, kit string, rate int) *signal.Run {
		return &signal.Run{ID: "r", FlowCellProduct: cell, Kit: kit, SampleRate: rate}
	}
	for _, test := range []struct {
		run             *signal.Run
		size, want, err string
	}{
		{run("FLO-MIN106", "", 4000), "", "dna_r9.4.1_e8_hac@v3.3", ""},
		{run("FLO-PRO114M", "", 4000), "", "dna_r10.4.1_e8.2_400bps_hac@v4.1.0", ""},
		{run("FLO-PRO114M", "SQK-NBD114-96-260", 4000), "", "dna_r10.4.1_e8.2_260bps_hac@v4.1.0", ""},
		{run("FLO-PRO114M", "SQK-LSK114", 5000), "", "dna_r10.4.1_e8.2_400bps_hac@v6.0.0", ""},
		{run("FLO-PRO114M", "SQK-LSK114", 5000), "sup", "dna_r10.4.1_e8.2_400bps_sup@v5.0.0", ""},
		{run("FLO-MIN004RA", "", 4000), "", "rna004_130bps_hac@v5.1.0", ""},
		{run("", "SQK-RNA004", 4000), "hac", "rna004_130bps_hac@v5.1.0", ""},
		{run("FLO-PRO114M", "", 5000), "fast", "", "none is for run r (r10.4.1 at 5000 Hz, size fast): there are dna_r10.4.1_e8.2_260bps_hac@v4.1.0 (r10.4.1 at 4000 Hz)"},
		{run("FLO-PRO114M", "sqk-apk114", 5000), "", "dna_r10.4.1_e8.2_apk_sup@v5.2.0", ""},
		{run("FLO-MIN106", "SQK-RNA002", 3012), "", "rna002_70bps_hac@v3", ""},
		{run("FLO-MIN106", "SQK-RNA002", 3000), "hac", "rna002_70bps_hac@v3", ""},
		{run("FLO-MIN106", "SQK-RNA002", 4000), "", "", "none is for run r (rna002 at 4000 Hz, kit SQK-RNA002): there are rna002_70bps_hac@v3 (rna002 at 3000 or 3012 Hz), dna_r10.4.1_e8.2_260bps"},
		{run("", "", 4000), "", "", "names neither a flow cell nor a kit"},
		{run("FLO-MIN106", "", 4000), "huge", "", `"huge" is no size of models`},
	} {
		chosen, err := Choose(all, []*signal.Run{test.run}, test.size)
		if test.err != "" {
			require.ErrorContains(t, err, test.err)
			assert.NotContains(t, err.Error(), "\n")
			continue
		}
		require.NoError(t, err)
		assert.Equal(t, test.want, filepath.Base(chosen.Path))
	}
	// Runs of two chemistries have no model in common.
	_, err = Choose(all, []*signal.Run{run("FLO-MIN106", "", 4000), run("FLO-PRO114M", "", 5000)}, "")
	require.ErrorContains(t, err, "of which run r is r9.4 at 4000 Hz and run r is r10.4.1 at 5000 Hz: call them one by one")
	_, err = Choose(all, []*signal.Run{run("FLO-MIN106", "", 4000), run("FLO-MIN106", "SQK-RNA002", 4000)}, "")
	require.ErrorContains(t, err, "none is for run r (rna002 at 4000 Hz, kit SQK-RNA002): there are", "which has none at all")
}

// TestPassedOverAreThoseThatWouldBeChosen: a newer model that can't be used isn't left out unsaid, and those
// that wouldn't be chosen anyway aren't named.
func TestPassedOverAreThoseThatWouldBeChosen(t *testing.T) {
	dir := originals(t)
	for _, name := range []string{
		"dna_r10.4.1_e8.2_400bps_hac@v6.1.0", "dna_r10.4.1_e8.2_400bps_hac@v10.0.0", "dna_r10.4.1_e8.2_400bps_hac@v4.2.0", "dna_r10.4.1_e8.2_400bps_sup@v6.1.0",
		"dna_r9.4.1_e8_hac@v9.0.0", "dna_r10.4.1_e8.2_400bps_hac@v6.1.0_5mCG@v1",
	} {
		config := filepath.Join(place(t, dir, "dna_r10.4.1_small@v4.3.0", name), "config.toml")
		text, err := os.ReadFile(config)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(config, []byte(strings.Replace(string(text), `"lstm"`, `"mamba"`, 1)), 0o600))
	}
	all, err := List(dir)
	require.NoError(t, err)
	passed := func(size string) (names []string) {
		chosen, err := Choose(all, []*signal.Run{{ID: "r", FlowCellProduct: "FLO-PRO114M", SampleRate: 5000}}, size)
		require.NoError(t, err)
		for _, l := range PassedOver(all, chosen, size) {
			require.ErrorContains(t, l.Err, "mamba")
			names = append(names, filepath.Base(l.Path))
		}
		return names
	}
	newer := []string{"dna_r10.4.1_e8.2_400bps_hac@v10.0.0", "dna_r10.4.1_e8.2_400bps_hac@v6.1.0"}
	require.Equal(t, newer, passed(""))
	require.Equal(t, newer, passed("hac"))
	require.Equal(t, []string{"dna_r10.4.1_e8.2_400bps_sup@v6.1.0"}, passed("sup"))
}

// TestChooseForRecordings takes recordings of every chemistry.
func TestChooseForRecordings(t *testing.T) {
	const data = "../../shared/data/"
	if _, err := os.Stat(data); err != nil {
		t.Skip("../shared/data is not there")
	}
	all, err := List(originals(t))
	require.NoError(t, err)
	for recording, want := range map[string]string{
		"ecoli-r9/reads.pod5":      "dna_r9.4.1_e8_hac@v3.3",
		"r10/na12878-4khz.blow5":   "dna_r10.4.1_e8.2_400bps_hac@v4.1.0",
		"r10/hg002-5khz-one.blow5": "dna_r10.4.1_e8.2_400bps_hac@v6.0.0",
		"formats/rna004.pod5":      "rna004_130bps_hac@v5.1.0",
		"formats/read5/test.pod5":  "rna002_70bps_hac@v3",
		"formats/mixed-pod5/rna002_70bps_rna002_70bps-FLO_MIN106-SQK_RNA002-3000.pod5":                                    "rna002_70bps_hac@v3",
		"formats/mixed-pod5/dna_r10.4.1_e8.2_400bps_4khz_dna_r10.4.1_e8.2_400bps_4khz-FLO_MIN114-SQK_NBD114_96-4000.pod5": "dna_r10.4.1_e8.2_400bps_hac@v4.1.0",
		"formats/mixed-pod5/dna_r10.4.1_e8.2_260bps_dna_r10.4.1_e8.2_260bps-FLO_PRO114-SQK_NBD114_96_260-4000.pod5":       "dna_r10.4.1_e8.2_260bps_hac@v4.1.0",
		"formats/mixed-pod5/dna_r10.4.1_e8.2_400bps_5khz_dna_r10.4.1_e8.2_400bps_5khz-FLO_PRO114M-SQK_RAD114-5000.pod5":   "dna_r10.4.1_e8.2_400bps_hac@v6.0.0",
	} {
		t.Run(filepath.Base(recording), func(t *testing.T) {
			index, err := signal.NewIndex(t.Context(), []string{data + recording})
			require.NoError(t, err)
			defer index.Close()
			chosen, err := Choose(all, index.Runs(), "")
			require.NoError(t, err)
			assert.Equal(t, want, filepath.Base(chosen.Path))
		})
	}
}

func TestListNamesWhatCanNotBeUsed(t *testing.T) {
	dir := t.TempDir()
	bad := place(t, dir, "dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_e8.2_400bps_hac@v4.3.0_5mCG_5hmCG@v1")
	require.NoError(t, os.WriteFile(filepath.Join(bad, "config.toml"), []byte("[modbases]\nmod_bases = \"m\"\n"), 0o600))
	all, err := List(dir)
	require.NoError(t, err)
	require.Len(t, all, 1)
	require.ErrorContains(t, all[0].Err, "modified bases")
	run := []*signal.Run{{ID: "r", FlowCellProduct: "FLO-PRO114M", SampleRate: 5000}}
	_, err = Choose(all, run, "")
	require.ErrorContains(t, err, "there are only models of modified bases")
	_, err = List(t.TempDir())
	require.ErrorContains(t, err, "holds no basecalling model")

	// What is no model isn't named, and of many those of the run's chemistry come first.
	for _, file := range []string{".DS_Store", "README"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), nil, 0o600))
	}
	place(t, dir, "dna_r10.4.1_small@v4.3.0", ".model-123")
	require.NoError(t, os.Symlink("nowhere", filepath.Join(dir, "dangling")))
	for _, name := range []string{"1.0", "1.1", "1.2", "1.3", "1.4", "1.5", "1.6", "1.7"} {
		place(t, dir, "dna_r9.4.1_small@v3.3", "dna_r9.4.1_e8_hac@v"+name)
	}
	config := filepath.Join(place(t, dir, "dna_r9.4.1_small@v3.3", "rna004_130bps_hac@v5.0.0"), "config.toml")
	require.NoError(t, os.WriteFile(config, []byte("[encoder\n"), 0o600))
	place(t, dir, "dna_r9.4.1_small@v3.3", "rna004_130bps_hac@v5.1.0")
	all, err = List(dir)
	require.NoError(t, err)
	require.Len(t, all, 11)
	_, err = Choose(all, []*signal.Run{{ID: "r", FlowCellProduct: "FLO-MIN004RA", SampleRate: 5000}}, "")
	require.ErrorContains(t, err, "none is for run r (rna004 at 5000 Hz): there are rna004_130bps_hac@v5.0.0 (can't be used: "+config+": line 1: ")
	require.ErrorContains(t, err, "), rna004_130bps_hac@v5.1.0 (rna004 at 4000 Hz), dna_r9.4.1_e8_hac@v1.0 (r9.4 at 4000 Hz), ")
	require.ErrorContains(t, err, "hac@v1.5 (r9.4 at 4000 Hz), and 2 others")
	require.NotContains(t, err.Error(), "DS_Store")
	require.NotContains(t, err.Error(), "5mCG")
	require.NotContains(t, err.Error(), "\n")
}

// TestLinksStandForTheirFolders: a link whose name says less than that of the folder behind it gives the same model, out of the cache, too.
func TestLinksStandForTheirFolders(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	dir := place(t, t.TempDir(), "dna_r10.4.1_small@v4.3.0", "dna_r10.4.1_e8.2_400bps_hac@v4.3.0")
	link := filepath.Join(t.TempDir(), "hac")
	require.NoError(t, os.Symlink(dir, link))
	want, err := Open(dir)
	require.NoError(t, err)
	have, err := Open(link)
	require.NoError(t, err)
	assert.Equal(t, want, have)
	cached, err := filepath.Glob(filepath.Join(cache, "porestream", "models", "*"))
	require.NoError(t, err)
	require.Len(t, cached, 1)
	all, err := List(filepath.Dir(link))
	require.NoError(t, err)
	require.Len(t, all, 1)
	assert.Equal(t, "dna_r10.4.1_e8.2_400bps_hac@v4.3.0", all[0].Manifest.Name)

	// A link with a chemistry in its name is called what it says, as a copy would be.
	named := filepath.Join(filepath.Dir(link), "dna_r10.4.1_ours_hac@v4.3.0")
	require.NoError(t, os.Symlink(dir, named))
	have, err = Open(named)
	require.NoError(t, err)
	assert.Equal(t, "dna_r10.4.1_ours_hac@v4.3.0", have.Manifest.Name)
}

// TestOneFolderIsConvertedByManyAtOnce: each gets the model, and the cache has it once.
func TestOneFolderIsConvertedByManyAtOnce(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	dir := place(t, t.TempDir(), "dna_r10.4.1_small@v6.1.0.dorado", "dna_r10.4.1_e8.2_400bps_hac@v6.0.0")
	errs := make(chan error)
	for range 8 {
		go func() {
			_, err := Open(dir)
			errs <- err
		}()
	}
	for range 8 {
		assert.NoError(t, <-errs)
	}
	entries, err := os.ReadDir(filepath.Join(cache, "porestream", "models"))
	require.NoError(t, err)
	require.Len(t, entries, 1)
}
