package minimap

// #include <minimap.h>
import "C"

// Version is the version of the minimap2 library, for example "2.31-r1302".
func Version() string { return C.MM_VERSION }
