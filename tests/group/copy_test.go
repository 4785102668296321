package group

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/castor-mq/castor/internal/dev"
)

// TestOldDisk: a replica that does not know how often it has started runs on an old copy of its disk. It takes note of what the controllers know, and is
// in sync when it has caught up.
func TestOldDisk(t *testing.T) {
	f := start(t, nil)
	const topic = "Past"
	master := f.master("")
	f.makeTopic(master, topic)
	r := f.Brokers[slices.IndexFunc(f.Brokers, func(b *dev.Broker) bool { return b.Addr != master })]
	file := filepath.Join(r.Conf["storePathRootDir"], "brokerIdentity-starts")
	starts := func() int {
		t.Helper()
		text, err := os.ReadFile(file)
		n, e := strconv.Atoi(string(text))
		if err != nil || e != nil {
			t.Fatal(err, e)
		}
		return n
	}
	for i := range 3 {
		f.Kill(r)
		f.Ended(r) // what comes now it does not acknowledge any more
		if i == 2 {
			if err := os.WriteFile(file, []byte("1"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.send(f.master(""), topic, 0, strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
		if err := f.StartAgain(r); err != nil {
			t.Fatal(err)
		}
		f.whole()
	}
	if n := starts(); n != 4 { // the controllers knew of three
		t.Errorf("%d starts are counted", n)
	}
	f.Kill(f.Broker(f.master("")))
	if all := f.texts(f.master(master), topic, 0); !slices.Equal(all, []string{"0", "1", "2"}) {
		t.Error(all)
	}
}
