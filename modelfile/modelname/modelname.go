// Package modelname parses the name of a basecalling model, which states its chemistry,
// tier and version. It also matches the patterns by which a variant model says for which
// basecallers' reads it was made.
package modelname

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Name holds the parts of the name of a basecalling model. Parts that it doesn't state are empty.
type Name struct {
	Chemistry string // as in manifests of basecalling models: r9.4, r10.4.1, rna004
	Tier      string // fast, hac or sup
	Version   string // 5.0.0 of @v5.0.0, or the date of Guppy's model_version_id
}

// chemistries are how models' names call pores, and what manifests call them.
var chemistries = map[string]string{
	"r9.4": "r9.4", "r9.4.1": "r9.4", "r10.3": "r10.3", "r10.4": "r10.4", "r10.4.1": "r10.4.1", "rna002": "rna002", "rna004": "rna004",
}

var (
	// versioned is a name of Dorado's: a version behind @v, and then perhaps modified bases.
	versioned = regexp.MustCompile(`^([^@]*)@v(\d+(?:\.\d+)*)`)
	// dated is an id of Guppy's: when it was trained, what for, the width of its network, a hash.
	dated = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2})_(.*)$`)
)

// widths are the tiers of Guppy's models by the width of their networks.
var widths = map[string]string{"96": "fast", "384": "hac", "768": "sup", "1024": "sup"}

// Parse reads a name in the habits of Dorado (dna_r10.4.1_e8.2_400bps_hac@v5.0.0), of Guppy
// (dna_r9.4.1_450bps_hac.cfg, 2021-05-17_dna_r9.4.1_minion_384_d37a2ab9) and of this project
// (r9.4-fast). Case doesn't count, nor do folders before the name.
func Parse(name string) Name {
	var n Name
	text := strings.ToLower(path.Base(strings.ReplaceAll(strings.TrimSpace(name), `\`, "/")))
	for _, suffix := range []string{".cfg", ".jsn", ".json"} {
		text = strings.TrimSuffix(text, suffix)
	}
	if found := versioned.FindStringSubmatch(text); found != nil {
		text, n.Version = found[1], found[2]
	}
	date := dated.FindStringSubmatch(text)
	if date != nil {
		n.Version, text = date[1], date[2]
	}
	words := strings.FieldsFunc(text, func(r rune) bool { return r == '_' || r == '-' })
	for _, word := range words {
		switch {
		case word == "fast" || word == "hac" || word == "sup":
			if n.Tier == "" {
				n.Tier = word
			}
		case date != nil && n.Tier == "" && widths[word] != "":
			n.Tier = widths[word]
		case n.Chemistry == "" && chemistries[word] != "":
			n.Chemistry = chemistries[word]
		}
	}
	if len(words) > 0 && words[0] == "rna" && !strings.HasPrefix(n.Chemistry, "rna") {
		n.Chemistry = "" // RNA in a pore for DNA
	}
	return n
}

// Pattern matches the names of basecalling models that a variant model knows. It is either
// CHEMISTRY/TIER/VERSION, whose parts are matched against those of a name, or a name. In both
// * stands for any text.
type Pattern struct{ text string }

// ParsePattern reads a pattern.
func ParsePattern(text string) (Pattern, error) {
	parts := strings.Split(text, "/")
	if len(parts) != 1 && len(parts) != 3 {
		return Pattern{}, fmt.Errorf("pattern %q is neither CHEMISTRY/TIER/VERSION nor a name", text)
	}
	for _, part := range parts {
		if part == "" || strings.ContainsAny(part, "[]?\\ \t") {
			return Pattern{}, fmt.Errorf("pattern %q: %q is empty or has other signs than * in it", text, part)
		}
	}
	return Pattern{strings.ToLower(text)}, nil
}

// String is the pattern as it was written, in lower case.
func (p Pattern) String() string { return p.text }

// Matches reports whether a name is one of the pattern's.
func (p Pattern) Matches(name string) bool {
	parts := strings.Split(p.text, "/")
	if len(parts) == 1 {
		return like(p.text, strings.ToLower(name))
	}
	n := Parse(name)
	// A chemistry or tier that a name doesn't state matches nothing, whatever the pattern.
	return n.Chemistry != "" && n.Tier != "" && like(parts[0], n.Chemistry) && like(parts[1], n.Tier) && like(parts[2], n.Version)
}

// like reports whether text matches a pattern with *.
func like(pattern, text string) bool {
	first, rest, many := strings.Cut(pattern, "*")
	if !many {
		return pattern == text
	}
	if !strings.HasPrefix(text, first) {
		return false
	}
	text = text[len(first):]
	for {
		var next string
		if next, rest, many = strings.Cut(rest, "*"); !many {
			return strings.HasSuffix(text, next)
		}
		i := strings.Index(text, next)
		if i < 0 {
			return false
		}
		text = text[i+len(next):]
	}
}
