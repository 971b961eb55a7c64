package torch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// How the files of PyTorch before 1.6 begin: a pickle of a number that stands for
// nothing else. After it come the pickles of the format's version, of the machine that
// wrote it, of what was saved, and of the list of its storages' keys; and for each of
// these, in order, the number of its values, 8 bytes, and the values.
const (
	legacyMagic   = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19."
	legacyVersion = 1001
)

// How a tar archive is known.
const (
	tarMagic   = "ustar"
	tarMagicAt = 257
)

// readLegacy reads the pickles of such a file, and returns what was saved and how to
// read the bytes of its storages.
func readLegacy(r io.ReaderAt, size int64) (root any, storage readStorage, err error) {
	// Pickles don't say how long they are. Storages are behind them, so the text may
	// reach into these.
	text := make([]byte, min(size, maxPickleBytes))
	if _, err := r.ReadAt(text, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, nil, err
	}
	at := len(legacyMagic)
	next := func(what string) (any, map[string]storageRef, error) {
		u := newUnpickler(text, at)
		v, err := u.run()
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", what, err)
		}
		at = u.at
		return v, u.storages, nil
	}
	version, _, err := next("version")
	if err != nil {
		return nil, nil, err
	}
	number, ok := version.(int64)
	if !ok {
		return nil, nil, fmt.Errorf("the version of its format is a %T, not a number", version)
	}
	if number != int64(legacyVersion) {
		return nil, nil, fmt.Errorf("the version of its format is %d, not %d", number, legacyVersion)
	}
	machine, _, err := next("machine")
	if err != nil {
		return nil, nil, err
	}
	if !isLittleEndian(machine) {
		return nil, nil, errors.New("it doesn't say that it is little-endian; no other files are read")
	}
	root, storages, err := next("tensors")
	if err != nil {
		return nil, nil, err
	}
	keys, _, err := next("storages")
	if err != nil {
		return nil, nil, err
	}
	places, err := placeStorages(r, size, int64(at), keys, storages)
	if err != nil {
		return nil, nil, err
	}
	return root, func(ref storageRef, size int64) ([]byte, error) {
		place, there := places[ref.key]
		if !there {
			return nil, fmt.Errorf("storage %s is missing", ref.key)
		}
		data := make([]byte, size) // within the file, as placeStorages has seen
		if _, err := r.ReadAt(data, place); err != nil && !errors.Is(err, io.EOF) {
			return nil, err
		}
		return data, nil
	}, nil
}

// isLittleEndian reports whether the description of a machine says so.
func isLittleEndian(machine any) bool {
	d, ok := machine.(*dict)
	if !ok {
		return false
	}
	for i, key := range d.keys {
		if key == "little_endian" {
			return d.values[i] == true
		}
	}
	return false
}

// placeStorages returns where in the file the values of each storage begin: behind
// at, in the order of the keys.
func placeStorages(r io.ReaderAt, size, at int64, keys any, storages map[string]storageRef) (map[string]int64, error) {
	list, ok := keys.(*list)
	if !ok {
		return nil, errors.New("behind the tensors is no list of storages")
	}
	places := make(map[string]int64, len(storages))
	for _, item := range list.items {
		key, ok := item.(string)
		ref, named := storages[key]
		_, again := places[key]
		if !ok || !named || again {
			if !ok { // not to be printed: what a pickle holds can hold itself many times over
				return nil, fmt.Errorf("the list of storages holds a %T, not a name", item)
			}
			return nil, fmt.Errorf("the list of storages holds %.100q, which no tensor uses or which it holds twice", key)
		}
		decoder, known := decoders[ref.kind]
		if !known {
			return nil, fmt.Errorf("storage %s: values of type %s are not read", key, ref.kind)
		}
		var count [8]byte
		if n, err := r.ReadAt(count[:], at); n < len(count) {
			if errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("the file ends before storage %s: it is truncated", key)
			}
			return nil, err
		}
		if n := int64(binary.LittleEndian.Uint64(count[:])); n != ref.values {
			return nil, fmt.Errorf("storage %s has %d values, but its tensors say %d", key, n, ref.values)
		}
		at += int64(len(count))
		// A product that doesn't overflow: a file of so many values is larger than any.
		if ref.values > (size-at)/int64(decoder.size) {
			return nil, fmt.Errorf("the file ends within storage %s: it is truncated", key)
		}
		places[key] = at
		at += ref.values * int64(decoder.size)
	}
	if at != size {
		return nil, fmt.Errorf("%d bytes follow the last storage", size-at)
	}
	return places, nil
}
