package contain

import (
	"errors"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPanicsBecomeErrors(t *testing.T) {
	require.NoError(t, Call(func() error { return nil }))
	require.ErrorIs(t, Call(func() error { return io.EOF }), io.EOF)

	err := Call(func() error { panic("out of range") })
	var caught *PanicError
	require.ErrorAs(t, err, &caught)
	require.EqualError(t, err, "a bug in ingest (panic: out of range)")
	require.Contains(t, string(caught.Stack), "contain_test.go")

	var none []int
	err = Call(func() error { none[len(none)] = 1; return nil })
	require.ErrorContains(t, err, "index out of range")

	require.True(t, errors.Is(Call(func() error { panic(io.ErrClosedPipe) }), io.ErrClosedPipe))
}
