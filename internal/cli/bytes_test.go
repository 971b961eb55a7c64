package cli

import "testing"

func TestBytes(t *testing.T) {
	for _, c := range []struct {
		in   string
		want int64 // 0: refused
		out  string
	}{
		{"1", 1, "1"}, {"1024", 1024, "1KiB"}, {"64MiB", 64 << 20, "64MiB"}, {"10 GiB", 10 << 30, "10GiB"}, {"3TiB", 3 << 40, "3TiB"},
		{"10GB", 10e9, "9765625KiB"}, {"5MB", 5e6, "5000000"}, {"7B", 7, "7"}, {"2KB", 2000, "2000"},
		{"", 0, ""}, {"0", 0, ""}, {"-1", 0, ""}, {"1.5GiB", 0, ""}, {"GiB", 0, ""}, {"1XB", 0, ""}, {"9000000TiB", 0, ""},
	} {
		var b Bytes
		if err := b.Set(c.in); (err == nil) != (c.want > 0) || int64(b) != c.want {
			t.Errorf("%q is %d, %v; want %d", c.in, b, err, c.want)
		} else if err == nil && b.String() != c.out {
			t.Errorf("%q is shown as %s, want %s", c.in, b.String(), c.out)
		}
	}
}
