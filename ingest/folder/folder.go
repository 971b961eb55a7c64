package folder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFiles bounds what is followed, at a few hundred bytes each.
const maxFiles = 1 << 20

// listing is what the folders hold.
type listing struct {
	entries []Entry
	dirs    []string
	// faults are the errors of folders that can't be listed, by path.
	faults map[string]error
}

// list lists folders and what is below them, and single files. Files that go away meanwhile are not
// there; a folder that can't be listed is a fault, and the others are listed.
func list(roots []string, files Files) (l listing, err error) {
	l.faults = make(map[string]error)
	for _, root := range roots {
		if info, err := os.Stat(root); err == nil && info.Mode().IsRegular() {
			path := filepath.Clean(root)
			l.entries = append(l.entries, Entry{Path: path, ID: fileID(info), Size: info.Size(), Mod: info.ModTime()})
			l.dirs = append(l.dirs, filepath.Dir(path))
			continue
		}
		err := filepath.WalkDir(root+string(filepath.Separator), func(path string, d fs.DirEntry, err error) error {
			path = filepath.Clean(path)
			switch {
			case errors.Is(err, fs.ErrNotExist) && path != filepath.Clean(root):
				return nil
			case err != nil:
				l.faults[path] = reason(err)
				return nil
			case d.IsDir():
				l.dirs = append(l.dirs, path)
				return nil
			case classify(path, files) == otherFile:
				return nil
			}
			// A link counts as the file that it leads to.
			info, err := os.Stat(path)
			if err != nil || !info.Mode().IsRegular() {
				return nil //nolint:nilerr // gone meanwhile, or a link to nowhere
			}
			if len(l.entries) == maxFiles {
				return fmt.Errorf("%s: more than %d files: watch fewer folders", root, maxFiles)
			}
			l.entries = append(l.entries, Entry{Path: path, ID: fileID(info), Size: info.Size(), Mod: info.ModTime()})
			return nil
		})
		if err != nil {
			return l, err
		}
	}
	return l, nil
}

// reason drops the operation and the path of an error.
func reason(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}
