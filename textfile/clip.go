package textfile

// Clip shortens what a file says to some bytes, for an error.
func Clip(s string, most int) string {
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
