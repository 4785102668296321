package broker

import (
	"testing"
	"time"
)

func TestPromise(t *testing.T) {
	for _, c := range []struct {
		p    promise
		want string
	}{
		{promise{flush: 500 * time.Millisecond}, "one broker has the message, in memory, on disk about 500ms later; there is no other copy"},
		{promise{syncFlush: true}, "one broker has the message, on disk; there is no other copy"},
		{promise{group: true, set: 3}, "this broker is a replica: the master acknowledges"},
		{promise{group: true, master: true, set: 1, minInSync: 2}, "nothing is acknowledged: 1 replica is in sync, 2 are needed (minInSyncReplicas)"},
		{promise{group: true, master: true, set: 1, minInSync: 1, syncFlush: true}, "the master alone has the message, on disk: no other replica is in sync"},
		{promise{group: true, master: true, set: 3, minInSync: 2, syncFlush: true}, "all 3 replicas in sync have the message, on disk; it survives the loss of 2 of them"},
		{promise{group: true, master: true, set: 3, minInSync: 2, copies: 3, syncFlush: true}, "all 3 replicas in sync have the message, on disk; it survives the loss of 2 of them"},
		{promise{group: true, master: true, set: 3, minInSync: 2, copies: 1, syncFlush: true}, "1 of 3 replicas in sync have the message, on disk; a switch can lose it (allAckInSyncStateSet=false)"},
	} {
		if got := c.p.String(); got != c.want {
			t.Errorf("%+v\n got %s\nwant %s", c.p, got, c.want)
		}
	}
}
