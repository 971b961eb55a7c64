package models

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/porestream/porestream/basecall"
	"github.com/porestream/porestream/basecall/convert"
	"github.com/porestream/porestream/modelfile/folder"
	"github.com/porestream/porestream/modelfile/modelname"
	"github.com/porestream/porestream/signal"
)

// conversion counts what convert has made of the same model. It is part of the cache's
// keys: raise it with every change of what convert writes.
const conversion = 3

// isOriginal reports whether a folder holds a model as Dorado or Bonito have it.
func isOriginal(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, folder.Manifest))
	return errors.Is(err, fs.ErrNotExist) && convert.Is(dir)
}

// openOriginal opens a model as Dorado or Bonito have it. It is converted the first time, and
// what that gives is kept in the user's cache for the next. Where there is no cache that can be
// written to, it is converted every time.
func openOriginal(dir string) (*basecall.Model, error) {
	key, err := originalKey(dir)
	if err != nil {
		return nil, fmt.Errorf("opening model %s: %w", dir, err)
	}
	cached := ""
	if cache, err := os.UserCacheDir(); err == nil {
		cached = filepath.Join(cache, "porestream", "models", key)
		if _, err := os.Stat(cached); err == nil {
			model, err := basecall.OpenModel(cached)
			if err != nil {
				return nil, fmt.Errorf("opening model %s as it was converted before: %w; remove that folder to have it converted again", dir, err)
			}
			return model, nil
		}
	}
	model, err := convert.Convert(dir, convert.Options{})
	if err != nil {
		return nil, fmt.Errorf("opening model: %w", err)
	}
	if cached != "" {
		// Another process may have been first, or the disk is full: the model is here anyway.
		_ = model.Save(cached)
	}
	return model, nil
}

// originalKey returns a key of all that a conversion depends on: the folder's name, its
// files and how they are converted.
func originalKey(dir string) (string, error) {
	name, err := convert.NameOf(dir)
	if err != nil {
		return "", err
	}
	entries, err := os.ReadDir(dir) // in the order of names
	if err != nil {
		return "", err
	}
	all := sha256.New()
	fmt.Fprintf(all, "%d %q\n", conversion, name)
	for _, entry := range entries {
		if entry.IsDir() || !convert.Reads(entry.Name()) {
			continue
		}
		f, err := os.Open(filepath.Join(dir, entry.Name()))
		if err != nil {
			return "", err
		}
		one := sha256.New()
		_, err = io.Copy(one, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return "", fmt.Errorf("reading %s: %w", entry.Name(), err)
		}
		fmt.Fprintf(all, "%q %x\n", entry.Name(), one.Sum(nil))
	}
	return hex.EncodeToString(all.Sum(nil))[:32], nil
}

// Listed is a basecalling model in a folder of models.
type Listed struct {
	Path     string
	Manifest basecall.Manifest // of an original, as it would be converted
	Original bool              // as Dorado or Bonito have it
	// Err says why it can't be used. The manifest is then empty.
	Err error
}

// List lists the basecalling models in a folder by name, which is one itself or has some
// within. Hidden folders are left out, as those of models that are just being written. No network is read.
func List(dir string) ([]Listed, error) {
	if one, ok := listed(dir); ok {
		return []Listed{one}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing models: %w", err)
	}
	var all []Listed
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		if one, ok := listed(filepath.Join(dir, entry.Name())); ok {
			all = append(all, one)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("listing models: %s holds no basecalling model: neither a folder with %s nor one of Dorado or Bonito", dir, folder.Manifest)
	}
	return all, nil
}

// listed returns the basecalling model in a folder, if there is one.
func listed(dir string) (one Listed, ok bool) {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		return Listed{}, false
	}
	one = Listed{Path: dir, Original: isOriginal(dir)}
	if one.Original {
		one.Manifest, one.Err = convert.Describe(dir, convert.Options{})
		return one, true
	}
	fsys := os.DirFS(dir)
	kind, err := folder.KindOf(fsys)
	if errors.Is(err, fs.ErrNotExist) || err == nil && kind != folder.Basecaller {
		return Listed{}, false
	}
	text, err := folder.ReadManifest(fsys)
	if err == nil {
		one.Manifest, err = basecall.ParseManifest(text)
	}
	one.Err = err
	return one, true
}

var speed = regexp.MustCompile(`_(\d+)bps`)

// Fits reports whether the model is for a run: its chemistry, its sample rate and, where the
// model's name states it, the speed that the run's kit gives the strand.
func (l Listed) Fits(run *signal.Run) bool {
	m := l.Manifest
	if l.Err != nil || m.Chemistry != run.Chemistry() || !slices.Contains(m.SampleRates, run.SampleRate) {
		return false
	}
	if m.Chemistry != "r10.4.1" {
		return true
	}
	// One kit has models of its own, whose names state no speed.
	if strings.Contains(m.Name, "_apk_") != strings.HasSuffix(strings.ToUpper(run.Kit), "APK114") {
		return false
	}
	slow := strings.HasSuffix(run.Kit, "-260") || strings.HasSuffix(run.Kit, "_260")
	found := speed.FindStringSubmatch(m.Name)
	return found == nil || (found[1] == "260") == slow
}

// sizes are the words for the size of a network in the names of Dorado's models, in
// the order in which one is chosen where nobody says.
var sizes = []string{"hac", "fast", "sup"}

// sizeOf returns the word for the size in a model's name; empty if there is none.
func sizeOf(name string) string {
	for _, part := range strings.FieldsFunc(name, func(r rune) bool { return r == '_' || r == '@' || r == '-' }) {
		if slices.Contains(sizes, part) {
			return part
		}
	}
	return ""
}

// Choose returns the model, of some, for all of the runs: of those of a size, "fast",
// "hac" or "sup", or of any if that is empty, hac first, the newest. Its error says in a line what
// is missing.
func Choose(all []Listed, runs []*signal.Run, size string) (Listed, error) {
	if size != "" && !slices.Contains(sizes, size) {
		return Listed{}, fmt.Errorf("choosing a model: %q is no size of models: name one of %s, or a model by its folder and without --models-dir", size, strings.Join(sizes, ", "))
	}
	if len(runs) == 0 {
		return Listed{}, errors.New("choosing a model: the recording holds no reads")
	}
	fitting := slices.Clone(all)
	for i, run := range runs {
		if run.Chemistry() == "" {
			return Listed{}, fmt.Errorf("choosing a model: run %s names neither a flow cell nor a kit that is known, so no model can be chosen for it: name one with --model", run.ID)
		}
		unfit := func(l Listed) bool { return !l.Fits(run) || size != "" && sizeOf(l.Manifest.Name) != size }
		fitting = slices.DeleteFunc(fitting, unfit)
		if len(fitting) == 0 && i > 0 && slices.ContainsFunc(all, func(l Listed) bool { return !unfit(l) }) {
			return Listed{}, fmt.Errorf("choosing a model: none is for all of the recording's runs, of which run %s is %s and run %s is %s: call them one by one", runs[0].ID, wanted(runs[0], size), run.ID, wanted(run, size))
		}
		if len(fitting) == 0 {
			return Listed{}, fmt.Errorf("choosing a model: none is for run %s (%s): there are %s", run.ID, wanted(run, size), describe(all, run))
		}
	}
	slices.SortStableFunc(fitting, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(rankOf(a.Manifest.Name), rankOf(b.Manifest.Name)), compareVersions(b.Manifest.Version, a.Manifest.Version))
	})
	return fitting[0], nil
}

// PassedOverMessage is what the log says of each of [PassedOver].
const PassedOverMessage = "a model that would be chosen can't be used: the next one is"

// PassedOver returns the models, of some, that can't be used and would have been chosen before
// one if they could, by what their folders' names say: of its chemistry and of a size that comes
// before its own, or of its size and newer. size is as for [Choose]. Models of modified bases are none of them.
func PassedOver(all []Listed, chosen Listed, size string) []Listed {
	var passed []Listed
	for _, l := range all {
		name := filepath.Base(l.Path)
		says := modelname.Parse(name)
		if l.Err == nil || ofModifiedBases(name) || says.Chemistry != chosen.Manifest.Chemistry || size != "" && says.Tier != size {
			continue
		}
		if cmp.Or(cmp.Compare(rankOf(name), rankOf(chosen.Manifest.Name)), compareVersions(chosen.Manifest.Version, says.Version)) < 0 {
			passed = append(passed, l)
		}
	}
	return passed
}

// wanted says what model a run needs.
func wanted(run *signal.Run, size string) string {
	text := fmt.Sprintf("%s at %d Hz", run.Chemistry(), run.SampleRate)
	if run.Kit != "" {
		text += ", kit " + run.Kit
	}
	if size != "" {
		text += ", size " + size
	}
	return text
}

// mostNamed bounds the models that an error names: a folder with all of Dorado's has a hundred.
const mostNamed = 8

// describe names models with what they are for, those of a run's chemistry first. Models of modified bases are left out.
func describe(all []Listed, run *signal.Run) string {
	var near, far []string
	for _, l := range all {
		name := filepath.Base(l.Path)
		chemistry := l.Manifest.Chemistry
		var text string
		switch {
		case l.Err == nil:
			rates := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(l.Manifest.SampleRates), "[]")), " or ")
			text = fmt.Sprintf("%s (%s at %s Hz)", l.Manifest.Name, chemistry, rates)
		case ofModifiedBases(name):
			continue
		default:
			chemistry, text = modelname.Parse(name).Chemistry, fmt.Sprintf("%s (can't be used: %v)", name, l.Err)
		}
		if chemistry == run.Chemistry() {
			near = append(near, text)
		} else {
			far = append(far, text)
		}
	}
	names := slices.Concat(near, far)
	switch others := len(names) - mostNamed; {
	case len(names) == 0:
		return "only models of modified bases"
	case others > 1:
		return fmt.Sprintf("%s, and %d others", strings.Join(names[:mostNamed], ", "), others)
	}
	return strings.Join(names, ", ")
}

// ofModifiedBases reports whether a folder's name is that of a model of modified bases, which has two versions.
func ofModifiedBases(name string) bool { return strings.Count(name, "@") > 1 }

// rankOf is where the size that a model's name states stands in the order of choice.
func rankOf(name string) int {
	if i := slices.Index(sizes, sizeOf(name)); i >= 0 {
		return i
	}
	return len(sizes)
}

// compareVersions compares versions such as 4.3.0 number by number.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}
