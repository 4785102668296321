package remoting

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/castor-mq/castor/internal/lifecycle"
	"github.com/castor-mq/castor/remoting/code"
)

// TestLimitCanChange: a limit that is set later also counts for who waits already.
func TestLimitCanChange(t *testing.T) {
	l := NewLane("test", 1, 10, 0)
	release := make(chan struct{})
	c, out := laneConn(l, func(r *Request) error {
		<-release
		return r.OK(nil, nil)
	})
	if w := l.HeadWait(); w != 0 {
		t.Fatalf("the head of an empty lane waits %v", w)
	}
	for i := range int32(3) {
		ask(t, c, i, "")
	}
	if w := l.HeadWait(); w <= 0 || w > time.Minute {
		t.Fatalf("the head waits %v", w)
	}
	g := lifecycle.New(context.Background())
	l.Run(g)
	l.SetMaxWait(20 * time.Millisecond)
	for _, r := range out.await(t, 2) {
		if r.Opaque == 0 || code.Response(r.Code) != code.SystemBusy || !strings.HasPrefix(string(r.Remark), "[TIMEOUT_CLEAN_QUEUE]") {
			t.Errorf("%d: %d %s", r.Opaque, r.Code, r.Remark)
		}
	}
	close(release)
	out.await(t, 3)
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
}
