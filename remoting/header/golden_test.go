package header

import (
	"fmt"
	"maps"
	"testing"

	"github.com/castor-mq/castor/remoting/code"
	"github.com/google/go-cmp/cmp"
)

// hookKeys are ext fields that client hooks add to any request; they belong to no header.
var hookKeys = []string{"AccessKey", "Signature", "SecurityToken", "ReqT"}

// unset are the keys Java leaves out of a header that it writes nevertheless, where we write the zero value: a refused pull
// carries forbiddenType alone.
var unset = map[code.Request][]string{
	code.PullMessage: {"suggestWhichBrokerId", "nextBeginOffset", "minOffset", "maxOffset"},
}

// TestGoldenFrames decodes the ext fields of real frames into their headers and encodes them again.
func TestGoldenFrames(t *testing.T) {
	seen := 0
	for i, x := range readExchanges(t) {
		types := byCode[x.code]
		if len(x.request.ext) > 0 {
			seen++
			checkGolden(t, fmt.Sprintf("%d %v request", i, x.code), types.request, x.request, nil)
		}
		if len(x.reply.ext) > 0 {
			seen++
			response := types.response
			if _, stored := x.reply.ext["msgId"]; x.reply.ext["MSG_REGION"] != "" && !stored {
				response = of[SendContext]
			}
			checkGolden(t, fmt.Sprintf("%d %v response", i, x.code), response, x.reply, unset[x.code])
		}
	}
	if seen < 400 {
		t.Errorf("only %d headers seen", seen)
	}
}

func checkGolden(t *testing.T, name string, header func() Header, f frame, mayAdd []string) {
	t.Helper()
	want := maps.Clone(f.ext)
	for _, k := range hookKeys {
		delete(want, k)
	}
	if len(want) == 0 {
		return
	}
	if header == nil {
		t.Errorf("%s: no header is declared for %v", name, want)
		return
	}
	h := header()
	for k, v := range f.ext {
		if err := Set(h, []byte(k), []byte(v)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, enc := range []Encoding{JSON, Binary} {
		var w Writer
		w.Reset(nil, enc)
		h.AppendFields(&w)
		got, err := written(&w)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for k, v := range want {
			if _, ok := got[k]; v == "" && !ok {
				got[k] = "" // an empty value and none are the same
			}
		}
		for _, k := range mayAdd {
			if _, ok := want[k]; !ok && got[k] == "0" {
				delete(got, k)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s, encoding %d (-frame +ours):\n%s", name, enc, d)
		}
	}
}
