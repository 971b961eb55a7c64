//go:build unix

package folder

import (
	"io/fs"
	"syscall"
)

func fileID(info fs.FileInfo) FileID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}
	}
	return FileID{Device: uint64(st.Dev), Inode: st.Ino} //nolint:unconvert // Dev is signed on some systems
}
