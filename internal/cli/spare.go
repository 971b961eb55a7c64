package cli

import (
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// SpareInputs refuses an output that is a file which the command reads, by an argument or another of its flags: its user would lose the file to a
// slip of the hand. args are those arguments of which the output is no new version; outputs are the flags that name what is written. What is no plain file, as /dev/stdout, may be both.
func SpareInputs(flags *pflag.FlagSet, args []string, outputs ...string) error {
	for _, name := range outputs {
		path := flags.Lookup(name).Value.String()
		written, err := os.Stat(path)
		if err != nil || !written.Mode().IsRegular() {
			continue
		}
		is := func(read string) bool {
			info, err := os.Stat(read)
			return err == nil && os.SameFile(info, written)
		}
		by := ""
		if slices.ContainsFunc(args, is) {
			by = "an argument"
		}
		flags.Visit(func(f *pflag.Flag) {
			if by == "" && !slices.Contains(outputs, f.Name) && slices.ContainsFunc(files(f.Value), is) {
				by = "--" + f.Name
			}
		})
		if by != "" {
			return Usagef("--%s %s would replace a file that is read, by %s: name another file", name, path, by)
		}
	}
	return nil
}

// files are what a flag's value may name: all of it, its parts between commas, and what stands behind a name and =.
func files(value pflag.Value) []string {
	all := []string{value.String()}
	if several, is := value.(pflag.SliceValue); is {
		all = several.GetSlice()
	}
	for _, one := range slices.Clone(all) {
		if _, behind, ok := strings.Cut(one, "="); ok {
			all = append(all, behind)
		}
		if strings.Contains(one, ",") {
			all = append(all, strings.Split(one, ",")...)
		}
	}
	return all
}
