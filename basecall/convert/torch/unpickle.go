package torch

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"
)

// Values on the unpickler's stack are nil, bool, int64, float64, string, tuple,
// *list, *dict, global, storageRef, tensorRef, or mark.
type (
	tuple  []any
	list   struct{ items []any }
	global string // module and name, joined by a dot
	mark   struct{}
)

// dict is a dictionary, or a module with its attributes. Entries keep their order.
type dict struct {
	keys   []any
	values []any
}

// storageRef is a storage by its persistent id.
type storageRef struct {
	kind   string // such as "torch.FloatStorage"
	key    string
	values int64
}

// tensorRef is a tensor whose values have yet to be read.
type tensorRef struct {
	storage       storageRef
	offset        int64
	shape, stride []int64
}

// Limits on a pickle. A network of a thousand layers stays far below.
const (
	maxPickleBytes = 16 << 20
	maxStack       = 1 << 20
	maxDimensions  = 8
)

// Names that a pickle may call.
const (
	orderedDict      = "collections.OrderedDict"
	rebuildTensor    = "torch._utils._rebuild_tensor_v2"
	rebuildParameter = "torch._utils._rebuild_parameter"
	moduleClasses    = "__torch__." // classes in a TorchScript archive
)

// unpickler runs one pickle.
type unpickler struct {
	text  []byte
	at    int // of the next byte
	stack []any
	memo  map[uint32]any
	// storages are those that the pickle names, by their keys.
	storages map[string]storageRef
}

// unpickle returns the value that a pickle describes.
func unpickle(text []byte) (any, error) {
	u := newUnpickler(text, 0)
	return u.run()
}

// newUnpickler returns one for the pickle that begins at a byte.
func newUnpickler(text []byte, at int) *unpickler {
	return &unpickler{text: text, at: at, memo: make(map[uint32]any), storages: make(map[string]storageRef)}
}

// run returns the value that the pickle describes, and leaves at behind it.
func (u *unpickler) run() (any, error) {
	for {
		start := u.at
		done, err := u.next()
		if err != nil {
			return nil, fmt.Errorf("byte %d: %w", start, err)
		}
		if done {
			return u.stack[0], nil
		}
		if len(u.stack) > maxStack {
			return nil, fmt.Errorf("byte %d: more than %d values", start, maxStack)
		}
	}
}

// next runs one opcode.
func (u *unpickler) next() (done bool, err error) {
	op, err := u.bytes(1)
	if err != nil {
		return false, err
	}
	switch op[0] {
	case 0x80: // PROTO
		version, err := u.bytes(1)
		if err == nil && version[0] != 2 {
			err = fmt.Errorf("protocol %d, not 2", version[0])
		}
		return false, err
	case '.': // STOP
		if len(u.stack) != 1 {
			return false, fmt.Errorf("%d values are left, not one", len(u.stack))
		}
		return true, nil
	case '(':
		u.push(mark{})
	case 'N':
		u.push(nil)
	case 0x88:
		u.push(true)
	case 0x89:
		u.push(false)
	case ')':
		u.push(tuple(nil))
	case ']':
		u.push(&list{})
	case '}':
		u.push(&dict{})
	case 'K', 'M', 'J', 0x8a, 'G':
		return false, u.number(op[0])
	case 'X':
		return false, u.unicode()
	case 'c':
		return false, u.global()
	case 'q', 'r', 'h', 'j':
		return false, u.memoOp(op[0])
	case 0x85, 0x86, 0x87: // TUPLE1 to TUPLE3
		items, err := u.pop(int(op[0]) - 0x84)
		if err == nil {
			u.push(tuple(items))
		}
		return false, err
	case 't':
		items, err := u.popMark()
		if err == nil {
			u.push(tuple(items))
		}
		return false, err
	case 'a', 'e', 's', 'u':
		return false, u.fill(op[0])
	case 0x81, 'R', 'b', 'Q':
		return false, u.build(op[0])
	default:
		return false, fmt.Errorf("opcode 0x%02x is not one that a file of tensors needs", op[0])
	}
	return false, nil
}

func (u *unpickler) push(v any) { u.stack = append(u.stack, v) }

// bytes returns the next n bytes.
func (u *unpickler) bytes(n int) ([]byte, error) {
	if n < 0 || n > len(u.text)-u.at {
		return nil, fmt.Errorf("the pickle ends in the middle of a value")
	}
	b := u.text[u.at : u.at+n]
	u.at += n
	return b, nil
}

// pop takes the last n values off the stack; the slice is the caller's.
func (u *unpickler) pop(n int) ([]any, error) {
	if n > len(u.stack) {
		return nil, fmt.Errorf("%d values wanted, %d there", n, len(u.stack))
	}
	items := append([]any(nil), u.stack[len(u.stack)-n:]...)
	for _, v := range items {
		if _, is := v.(mark); is {
			return nil, fmt.Errorf("a mark where a value is wanted")
		}
	}
	u.stack = u.stack[:len(u.stack)-n]
	return items, nil
}

// popMark takes the values behind the last mark, and the mark.
func (u *unpickler) popMark() ([]any, error) {
	for i := len(u.stack) - 1; i >= 0; i-- {
		if _, is := u.stack[i].(mark); is {
			items := append([]any(nil), u.stack[i+1:]...)
			u.stack = u.stack[:i]
			return items, nil
		}
	}
	return nil, fmt.Errorf("no mark")
}

// number pushes a number.
func (u *unpickler) number(op byte) error {
	size := map[byte]int{'K': 1, 'M': 2, 'J': 4, 'G': 8, 0x8a: 1}[op]
	b, err := u.bytes(size)
	if err != nil {
		return err
	}
	switch op {
	case 'K':
		u.push(int64(b[0]))
	case 'M':
		u.push(int64(binary.LittleEndian.Uint16(b)))
	case 'J':
		u.push(int64(int32(binary.LittleEndian.Uint32(b))))
	case 'G':
		u.push(math.Float64frombits(binary.BigEndian.Uint64(b)))
	default: // LONG1: a length and so many bytes, two's complement
		if b[0] > 8 {
			return fmt.Errorf("a number of %d bytes", b[0])
		}
		if b, err = u.bytes(int(b[0])); err != nil {
			return err
		}
		v := int64(0)
		for i, x := range b {
			v |= int64(x) << (8 * i)
		}
		if n := len(b); n > 0 && n < 8 && b[n-1] >= 0x80 {
			v -= 1 << (8 * n)
		}
		u.push(v)
	}
	return nil
}

func (u *unpickler) unicode() error {
	b, err := u.bytes(4)
	if err != nil {
		return err
	}
	n := binary.LittleEndian.Uint32(b)
	if n > maxPickleBytes {
		return fmt.Errorf("a string of %d bytes", n)
	}
	if b, err = u.bytes(int(n)); err != nil {
		return err
	}
	if !utf8.Valid(b) {
		return fmt.Errorf("a string that is not UTF-8")
	}
	u.push(string(b))
	return nil
}

// global pushes a name, given by two lines. Nothing is looked up.
func (u *unpickler) global() error {
	var lines [2]string
	for i := range lines {
		n := strings.IndexByte(string(u.text[u.at:min(len(u.text), u.at+256)]), '\n')
		if n < 0 {
			return fmt.Errorf("a name without end")
		}
		lines[i] = string(u.text[u.at : u.at+n])
		u.at += n + 1
	}
	u.push(global(lines[0] + "." + lines[1]))
	return nil
}

// memoOp stores the last value under a number, or pushes what is stored.
func (u *unpickler) memoOp(op byte) error {
	size := 1
	if op == 'r' || op == 'j' {
		size = 4
	}
	b, err := u.bytes(size)
	if err != nil {
		return err
	}
	key := uint32(b[0])
	if size == 4 {
		key = binary.LittleEndian.Uint32(b)
	}
	if op == 'h' || op == 'j' {
		v, known := u.memo[key]
		if !known {
			return fmt.Errorf("nothing is stored under %d", key)
		}
		u.push(v)
		return nil
	}
	if len(u.stack) == 0 {
		return fmt.Errorf("nothing to store")
	}
	v := u.stack[len(u.stack)-1]
	if _, is := v.(mark); is {
		return fmt.Errorf("a mark can't be stored")
	}
	u.memo[key] = v
	return nil
}

// fill adds to a list (a: one value, e: those behind the mark) or to a dictionary
// (s: one pair, u: pairs behind the mark).
func (u *unpickler) fill(op byte) error {
	var items []any
	var err error
	switch op {
	case 'a':
		items, err = u.pop(1)
	case 's':
		items, err = u.pop(2)
	default:
		items, err = u.popMark()
	}
	if err != nil {
		return err
	}
	if len(u.stack) == 0 {
		return fmt.Errorf("nothing to fill")
	}
	switch to := u.stack[len(u.stack)-1].(type) {
	case *list:
		if op == 'a' || op == 'e' {
			to.items = append(to.items, items...)
			return nil
		}
	case *dict:
		if (op == 's' || op == 'u') && len(items)%2 == 0 {
			for i := 0; i < len(items); i += 2 {
				to.keys, to.values = append(to.keys, items[i]), append(to.values, items[i+1])
			}
			return nil
		}
	}
	return fmt.Errorf("entries for what holds none")
}

// build makes a value of those on the stack.
func (u *unpickler) build(op byte) error {
	if op == 'Q' { // BINPERSID
		args, err := u.pop(1)
		if err != nil {
			return err
		}
		storage, err := makeStorage(args[0])
		if err != nil {
			return err
		}
		if known, again := u.storages[storage.key]; again && known != storage {
			return fmt.Errorf("storage %q is of %d values of type %s here and of %d of type %s before", storage.key, storage.values, storage.kind, known.values, known.kind)
		}
		u.storages[storage.key] = storage
		u.push(storage)
		return nil
	}
	args, err := u.pop(2)
	if err != nil {
		return err
	}
	if op == 'b' { // BUILD: a module gets its attributes, a state dict its versions
		state, isDict := args[1].(*dict)
		object, ok := args[0].(*dict)
		if !ok || !isDict {
			return fmt.Errorf("attributes for what has none")
		}
		if len(object.keys) == 0 {
			*object = *state
		}
		u.push(object)
		return nil
	}
	name, ok := args[0].(global)
	items, isTuple := args[1].(tuple)
	if !ok || !isTuple {
		return fmt.Errorf("a call of what is no name")
	}
	var v any
	switch {
	case op == 0x81 && strings.HasPrefix(string(name), moduleClasses), op == 'R' && name == orderedDict:
		if len(items) > 0 {
			return fmt.Errorf("%s is called with arguments", name)
		}
		v = &dict{}
	case op == 'R' && name == rebuildTensor:
		v, err = makeTensor(items)
	case op == 'R' && name == rebuildParameter && len(items) >= 1:
		t, ok := items[0].(tensorRef)
		if !ok {
			return fmt.Errorf("a parameter of no tensor")
		}
		v = t
	default:
		return fmt.Errorf("%s is called, which a file of tensors doesn't need", name)
	}
	if err != nil {
		return err
	}
	u.push(v)
	return nil
}

// makeStorage takes a storage's persistent id apart.
func makeStorage(id any) (storageRef, error) {
	t, ok := id.(tuple)
	if !ok || len(t) < 5 || len(t) > 6 || t[0] != "storage" {
		return storageRef{}, fmt.Errorf("a persistent id that is no storage")
	}
	if len(t) == 6 && t[5] != nil { // before PyTorch 1.6, and not since 0.4
		return storageRef{}, fmt.Errorf("a storage that is a part of another")
	}
	kind, ok1 := t[1].(global)
	key, ok2 := t[2].(string)
	values, ok3 := t[4].(int64)
	if !ok1 || !ok2 || !ok3 || values < 0 {
		return storageRef{}, fmt.Errorf("a storage whose id is not ('storage', type, key, device, size)")
	}
	return storageRef{string(kind), key, values}, nil
}

// makeTensor takes the arguments of _rebuild_tensor_v2 apart and checks that they
// stay within the storage.
func makeTensor(args tuple) (tensorRef, error) {
	if len(args) < 4 {
		return tensorRef{}, fmt.Errorf("a tensor of %d arguments", len(args))
	}
	storage, ok1 := args[0].(storageRef)
	offset, ok2 := args[1].(int64)
	shape, ok3 := integers(args[2])
	stride, ok4 := integers(args[3])
	if !ok1 || !ok2 || !ok3 || !ok4 || len(shape) != len(stride) {
		return tensorRef{}, fmt.Errorf("a tensor whose arguments are not (storage, offset, shape, strides)")
	}
	if len(shape) > maxDimensions {
		return tensorRef{}, fmt.Errorf("a tensor of %d dimensions", len(shape))
	}
	if offset < 0 || offset > maxValues {
		return tensorRef{}, fmt.Errorf("a tensor at offset %d of its storage", offset)
	}
	last := offset // of so many dimensions it doesn't overflow: 2^29 + 8 x 2^58
	empty := false
	for i, n := range shape {
		if n < 0 || n > maxValues || stride[i] < 0 || stride[i] > maxValues {
			return tensorRef{}, fmt.Errorf("a tensor of shape %d and strides %d", shape, stride)
		}
		empty = empty || n == 0
		last += (n - 1) * stride[i]
	}
	if !empty && last >= storage.values {
		return tensorRef{}, fmt.Errorf("a tensor of shape %d, strides %d and offset %d reaches beyond its storage of %d values", shape, stride, offset, storage.values)
	}
	return tensorRef{storage, offset, shape, stride}, nil
}

// integers returns the integers in a tuple.
func integers(v any) ([]int64, bool) {
	t, ok := v.(tuple)
	if !ok {
		return nil, false
	}
	x := make([]int64, len(t))
	for i := range t {
		if x[i], ok = t[i].(int64); !ok {
			return nil, false
		}
	}
	return x, true
}
