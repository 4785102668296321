package namesrv

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/castor-mq/castor/internal/fastjson"
	"github.com/castor-mq/castor/remoting/body"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cloudwego/netpoll.(*defaultPoll).Wait")) // they serve the process
}

func decodeRoute(t testing.TB, text []byte) *body.TopicRouteData {
	t.Helper()
	if text == nil {
		return nil
	}
	r := new(body.TopicRouteData)
	if err := fastjson.Unmarshal(text, r); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}
