// Package ready holds the panels that come with Porestream. Each says where its content is from, of when it is, and under which terms.
package ready

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/porestream/porestream/watchlist"
)

//go:embed panels
var panels embed.FS

// Names are the names of the panels, sorted.
func Names() []string {
	entries, err := fs.ReadDir(panels, "panels")
	if err != nil {
		panic(err) // it is in the program
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = strings.TrimSuffix(e.Name(), ".yaml")
	}
	return names
}

// Text is the panel of that name as it is written; nil if there is none.
func Text(name string) []byte {
	text, err := panels.ReadFile("panels/" + name + ".yaml")
	if err != nil {
		return nil
	}
	return text
}

// Open reads the panel of that name, or else the one of that file. A file that has the name of a panel is meant by ./name.
func Open(nameOrPath string) (*watchlist.Panel, error) {
	if Text(nameOrPath) != nil {
		return watchlist.LoadFS(panels, "panels/"+nameOrPath+".yaml", "ready panel "+nameOrPath,
			fmt.Sprintf("if the panel is to change, pore panel show %s > mine.yaml and change that", nameOrPath))
	}
	p, err := watchlist.Load(nameOrPath)
	if errors.Is(err, fs.ErrNotExist) {
		name, _, _ := strings.Cut(filepath.Base(nameOrPath), ".")
		if Text(name) != nil {
			return nil, fmt.Errorf("%w (the ready panel is called %s, without an ending)", err, name)
		}
	}
	if err != nil && !strings.ContainsAny(nameOrPath, "/.") {
		return nil, fmt.Errorf("%w (ready panels are %s)", err, strings.Join(Names(), ", "))
	}
	return p, err
}
