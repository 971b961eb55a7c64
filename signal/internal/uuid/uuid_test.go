package uuid

import "testing"

func TestUUID(t *testing.T) {
	const text = "b55fd122-72a4-44ea-890b-9531f1920a2c"
	id, ok := Parse(text)
	if !ok || Format(id) != text || id[0] != 0xb5 || id[15] != 0x2c {
		t.Errorf("%x, %v", id, ok)
	}
	for _, s := range []string{"", "x", text[1:], text + "0", "B55FD122-72a4-44ea-890b-9531f1920a2c", "b55fd122 72a4-44ea-890b-9531f1920a2c", "g55fd122-72a4-44ea-890b-9531f1920a2c"} {
		if id, ok := Parse(s); ok {
			t.Errorf("%q is %x", s, id)
		}
	}
}
