/* Stands in for zlib when minimap2 is built as a library.
 *
 * Porestream hands minimap2 sequences from memory and never asks it to open a
 * file, so its file readers only have to compile. With this header a machine
 * needs no zlib development files. Files are read as they are, uncompressed.
 */
#ifndef PORESTREAM_ZLIB_SHIM_H
#define PORESTREAM_ZLIB_SHIM_H
#include <stdio.h>

typedef FILE *gzFile;

static inline gzFile gzopen(const char *path, const char *mode) { return fopen(path, mode); }
static inline gzFile gzdopen(int fd, const char *mode) { return fdopen(fd, mode); }
static inline int gzread(gzFile f, void *buf, unsigned n) { return (int)fread(buf, 1, n, f); }
static inline int gzclose(gzFile f) { return fclose(f); }

#endif
