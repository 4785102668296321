package group

import (
	"testing"

	"github.com/castor-mq/castor/remoting/code"
)

// TestFullDiskOfTheMaster: a replica with room takes its place, and sends go on.
func TestFullDiskOfTheMaster(t *testing.T) {
	f := start(t, map[string]string{"cleanResourceInterval": "100", "diskMaxUsedSpaceRatio": "95", "diskSpaceCleanForciblyRatio": "100", "diskSpaceWarningLevelRatio": "100"})
	const topic = "Room"
	master := f.master("")
	f.makeTopic(master, topic)
	if err := f.send(master, topic, 0, "before"); err != nil {
		t.Fatal(err)
	}
	f.must(master, code.UpdateBrokerConfig, nil, []byte("diskSpaceWarningLevelRatio=1")) // as if the disk were full to the brim
	next := f.master(master)
	f.until("a send to the new master", func() bool { return f.send(next, topic, 0, "after") == nil })
	f.must(master, code.UpdateBrokerConfig, nil, []byte("diskSpaceWarningLevelRatio=100"))
	f.whole()
}
