package modelname_test

import (
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/porestream/porestream/modelfile/modelname"
)

func TestNamesStateChemistryTierAndVersion(t *testing.T) {
	for name, want := range map[string]modelname.Name{
		"dna_r10.4.1_e8.2_400bps_hac@v5.0.0":               {Chemistry: "r10.4.1", Tier: "hac", Version: "5.0.0"},
		"dna_r10.4.1_e8.2_400bps_sup@v4.3.0_5mCG_5hmCG@v1": {Chemistry: "r10.4.1", Tier: "sup", Version: "4.3.0"},
		"/opt/models/dna_r10.4.1_e8.2_400bps_fast@v4.2.0":  {Chemistry: "r10.4.1", Tier: "fast", Version: "4.2.0"},
		"DNA_R9.4.1_E8_HAC@v3.3":                           {Chemistry: "r9.4", Tier: "hac", Version: "3.3"},
		"dna_r9.4.1_450bps_sup.cfg":                        {Chemistry: "r9.4", Tier: "sup"},
		"dna_r9.4.1_450bps_hac_prom.cfg":                   {Chemistry: "r9.4", Tier: "hac"},
		"template_r9.4.1_450bps_hac.jsn":                   {Chemistry: "r9.4", Tier: "hac"},
		"2021-05-17_dna_r9.4.1_minion_384_d37a2ab9":        {Chemistry: "r9.4", Tier: "hac", Version: "2021-05-17"},
		"2021-05-17_dna_r9.4.1_minion_96_29d8704b":         {Chemistry: "r9.4", Tier: "fast", Version: "2021-05-17"},
		"dna_r10.4.1_e8.2_5khz_400bps_sup.cfg":             {Chemistry: "r10.4.1", Tier: "sup"},
		"rna004_130bps_sup@v5.1.0":                         {Chemistry: "rna004", Tier: "sup", Version: "5.1.0"},
		"rna_r9.4.1_70bps_hac@v3":                          {Tier: "hac", Version: "3"},
		"r9.4-fast":                                        {Chemistry: "r9.4", Tier: "fast"},
		"r9.4-hac":                                         {Chemistry: "r9.4", Tier: "hac"},
		"my_model":                                         {},
		"dna_r10.4.1_e8.2_400bps_hac@v5.0.0@v6":            {Chemistry: "r10.4.1", Tier: "hac", Version: "5.0.0"},
		"":                                                 {},
	} {
		assert.Equal(t, want, modelname.Parse(name), name)
	}
}

func TestPatternsMatchByChemistryTierAndVersion(t *testing.T) {
	const hac5, sup4 = "dna_r10.4.1_e8.2_400bps_hac@v5.0.0", "dna_r10.4.1_e8.2_400bps_sup@v4.3.0"
	for _, tt := range []struct {
		pattern string
		yes, no []string
	}{
		{"r10.4.1/hac/5.*", []string{hac5}, []string{sup4, "dna_r10.4.1_e8.2_400bps_hac@v4.3.0", "r9.4-hac", ""}},
		{"r10.4.1/*/*", []string{hac5, sup4}, []string{"dna_r10.4_e8.1_hac@v3.4", "dna_r9.4.1_e8_hac@v3.3"}},
		{"r9.4/hac/*", []string{"r9.4-hac", "dna_r9.4.1_450bps_hac.cfg", "2021-05-17_dna_r9.4.1_minion_384_d37a2ab9"}, []string{"r9.4-fast", hac5}},
		{"*/*/*", []string{hac5, "r9.4-fast"}, []string{"my_model", ""}},
		{"r9.4-fast", []string{"r9.4-fast", "R9.4-Fast"}, []string{"r9.4-fast-crf", "r9.4-hac"}},
		{"deepnano*rnn*", []string{"deepnano-blitz_rnn48", "deepnano-rnn"}, []string{"rnn48", "deepnano"}},
	} {
		p, err := modelname.ParsePattern(tt.pattern)
		require.NoError(t, err)
		for _, name := range tt.yes {
			assert.True(t, p.Matches(name), "%s, %q", tt.pattern, name)
		}
		for _, name := range tt.no {
			assert.False(t, p.Matches(name), "%s, %q", tt.pattern, name)
		}
	}
	for _, bad := range []string{"", "a/b", "a/b/c/d", "r10//5", "[a]", "a?", "a b"} {
		_, err := modelname.ParsePattern(bad)
		assert.Error(t, err, bad)
	}
}

// FuzzPattern holds * to what the standard library makes of it, in texts without its other signs.
func FuzzPattern(f *testing.F) {
	f.Add("r9.4*", "r9.4-fast")
	f.Add("*a*b*", "xaxbx")
	f.Add("a*a", "a")
	f.Fuzz(func(t *testing.T, pattern, name string) {
		if strings.ContainsAny(pattern+name, "/[]?\\ \t") || strings.ToLower(pattern) != pattern || strings.ToLower(name) != name {
			return
		}
		p, err := modelname.ParsePattern(pattern)
		if err != nil {
			return
		}
		want, err := path.Match(pattern, name)
		require.NoError(t, err)
		require.Equal(t, want, p.Matches(name), "%q %q", pattern, name)
		modelname.Parse(name)
	})
}
