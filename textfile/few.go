package textfile

import (
	"fmt"
	"strings"
)

// Few lists names in their order, for an error or a log: all of up to six, else five and
// how many more there are; "none" of none.
func Few(names []string) string {
	switch n := len(names); {
	case n == 0:
		return "none"
	case n > 6:
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), n-5)
	}
	return strings.Join(names, ", ")
}
