//go:build bugs

package sim

import (
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/bugs"
)

// bugSeeds is how many seeds a bug may take if SEEDS does not say.
const bugSeeds = 2000

// TestBugsAreCaught puts one fault after the other into the code, and runs seeds until one of them finds it, the one that found it before first. BUG is a
// list of names.
func TestBugsAreCaught(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	most := number64(t, "SEEDS", bugSeeds)
	for _, b := range bugs.All {
		if only := os.Getenv("BUG"); only != "" && !strings.Contains(","+only+",", ","+b.Name+",") {
			continue
		}
		began, found, seed := time.Now(), "", uint64(0)
		for n := uint64(0); found == "" && n <= most; n++ {
			if seed = n; n == 0 {
				seed = b.Seed
			}
			*b.On = true
			found, _, _ = run(t, seed)
			*b.On = false
			if found != "" {
				if without, _, _ := run(t, seed); without != "" {
					t.Fatalf("seed %d fails without %s, too: %s", seed, b.Name, without)
				}
			}
		}
		took := time.Since(began).Round(100 * time.Millisecond)
		if found == "" {
			t.Errorf("%-20s not found by %d seeds in %v", b.Name, most, took)
		} else {
			t.Logf("%-20s found by seed %d, %v: %.150s", b.Name, seed, took, found)
		}
	}
}
