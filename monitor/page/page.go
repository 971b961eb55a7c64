// Package page serves the live page: the assets, which are part of the program, and
// the view of package monitor as JSON and server-sent events. ../API.md is the
// contract between the two.
package page

import (
	"embed"
	"io/fs"
)

//go:embed assets
var embedded embed.FS

// Assets are the files of the page, index.html among them.
func Assets() fs.FS {
	assets, err := fs.Sub(embedded, "assets")
	if err != nil {
		panic(err) // the folder is embedded
	}
	return assets
}
