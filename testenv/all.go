package testenv

import "os"

// All reports whether what changes seldom break is tested, too, as every night: PORESTREAM_TEST_ALL is set.
func All() bool { return os.Getenv("PORESTREAM_TEST_ALL") != "" }
