package processor

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/basecall"
	modnetwork "github.com/porestream/porestream/modbase/network"
	"github.com/porestream/porestream/models"
	"github.com/porestream/porestream/stream/streampb"
)

// TestModifiersFollowBasecallers: with models by run, a network is asked of those runs alone whose basecalling model it follows.
func TestModifiersFollowBasecallers(t *testing.T) {
	const follows = "dna_r9.4.1_e8_fast@v3.4"
	all, err := OpenModified([]string{"../../cmd/pore/testdata/" + follows + "_5mCG@v0"})
	require.NoError(t, err)
	c := &catalogue{listed: []models.Listed{{Manifest: basecall.Manifest{Name: "mine", Chemistry: "r9.4", SampleRates: []int{4000}}}}}
	require.ErrorContains(t, c.needs(all), "is for r9.4 at 4000 Hz and reads that "+follows+" calls, and no basecalling model that runs may get is: leave it out, or convert it with --basecaller any")
	c.listed[0].Manifest.ConvertedFrom = follows
	require.NoError(t, c.needs(all))
	var log bytes.Buffer
	m, err := newModifiers(all, modnetwork.Config{Device: "cpu", Sessions: 1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	require.NoError(t, err)
	defer func() { require.NoError(t, m.close()) }()
	run := &streampb.Run{Id: "a", SampleRate: 4000}
	for _, tt := range []struct {
		name, from, chemistry string
		rate                  uint32
		want                  bool
	}{
		{follows, "", "r9.4", 4000, true},
		{"mine", follows, "r9.4", 4000, true},
		{"mine", "", "r9.4", 4000, false},
		{follows, "", "r9.4", 5000, false},
		{follows, "", "r10.4.1", 4000, false},
		{follows, "", "rna002", 4000, false},
	} {
		manifest := basecall.Manifest{Name: tt.name, ConvertedFrom: tt.from, Chemistry: tt.chemistry, SampleRates: []int{4000, 5000}, Network: basecall.NetworkManifest{Stride: 5}}
		run.SampleRate = tt.rate
		assert.Equal(t, tt.want, m.of(&manifest)(run) != nil, "%+v", tt)
	}
	assert.Contains(t, log.String(), "no model of --modified-bases is for a run")
}
