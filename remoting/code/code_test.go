package code

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// upstream holds the constants read from the classes of RocketMQ 5.5.0.
type upstream struct {
	RequestCode             map[string]int32
	ResponseCode            map[string]int32
	RemotingSysResponseCode map[string]int32
	CurrentVersion          int32
	CurrentVersionText      string
}

func readUpstream(t *testing.T) upstream {
	t.Helper()
	raw, err := os.ReadFile("testdata/codes.json")
	if err != nil {
		t.Fatal(err)
	}
	var u upstream
	if err := json.Unmarshal(raw, &u); err != nil {
		t.Fatal(err)
	}
	maps.Copy(u.ResponseCode, u.RemotingSysResponseCode)
	return u
}

func byName[C ~int32](names map[C]string) map[string]int32 {
	m := map[string]int32{}
	for c, name := range names {
		m[name] = int32(c)
	}
	return m
}

func TestCodesAreUpstreams(t *testing.T) {
	u := readUpstream(t)
	u.RequestCode[HandOver.String()] = int32(HandOver) // ours
	if d := cmp.Diff(u.RequestCode, byName(requestNames)); d != "" {
		t.Errorf("request codes (-upstream +ours):\n%s", d)
	}
	if d := cmp.Diff(u.ResponseCode, byName(responseNames)); d != "" {
		t.Errorf("response codes (-upstream +ours):\n%s", d)
	}
	if int32(Current) != u.CurrentVersion || Current.String() != u.CurrentVersionText {
		t.Errorf("Current = %d %s, upstream %d %s", Current, Current, u.CurrentVersion, u.CurrentVersionText)
	}
}

// TestConstantsMatchNames compares the letters of each constant's name with those of Java's in the table.
func TestConstantsMatchNames(t *testing.T) {
	for _, name := range []string{"request.go", "response.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		pairs := 0
		ast.Inspect(file, func(n ast.Node) bool {
			kv, ok := n.(*ast.KeyValueExpr)
			if !ok {
				return true
			}
			pairs++
			constant := kv.Key.(*ast.Ident).Name
			java := strings.Trim(kv.Value.(*ast.BasicLit).Value, `"`)
			if strings.ToUpper(constant) != strings.ReplaceAll(java, "_", "") {
				t.Errorf("%s is named %s", constant, java)
			}
			return true
		})
		if pairs < 60 {
			t.Errorf("%s: only %d names found", name, pairs)
		}
	}
}

func TestString(t *testing.T) {
	for _, tc := range []struct {
		got  fmt.Stringer
		want string
	}{
		{SendMessageV2, "SEND_MESSAGE_V2"},
		{PopMessage, "POP_MESSAGE"},
		{Request(999), "999"},
		{Success, "SUCCESS"},
		{RPCTimeOut, "RPC_TIME_OUT"},
		{Response(-7), "-7"},
		{NodeJS, "NODE_JS"},
		{Language(200), "OTHER"},
	} {
		if got := tc.got.String(); got != tc.want {
			t.Errorf("got %q, want %q", got, tc.want)
		}
	}
}

func TestFromBinary(t *testing.T) {
	for wire, want := range map[int16]Request{
		3442: PopMessage, 3443: AckMessage, 3444: PeekMessage, 3445: ChangeMessageInvisibleTime, 3446: Notification,
		3447: PollingInfo, 3448: PopRollback, 3462: PopLiteMessage, 3471: TriggerLiteDispatch, 3543: BatchAckMessage,
		10: SendMessage, 5001: SwitchTimerEngine, 999: 999, 3449: 3449, 0: 0, -1: -1, math.MinInt16: math.MinInt16,
	} {
		if got := FromBinary(wire); got != want {
			t.Errorf("FromBinary(%d) = %v, want %v", wire, got, want)
		}
	}
	for c := range Requests() {
		if got := FromBinary(int16(c)); got != c {
			t.Errorf("%v comes back from 16 bits as %v", c, got)
		}
	}
}

func TestVersionString(t *testing.T) {
	for v, want := range map[Version]string{
		0: "V3_0_0_SNAPSHOT", 15: "V3_0_0_FINAL", 16: "V3_0_1_SNAPSHOT", V3_0_7Snapshot: "V3_0_7_SNAPSHOT", V3_0_11: "V3_0_11",
		45: "V3_0_15", 46: "V3_1_0_SNAPSHOT", V3_1_8Snapshot: "V3_1_8_SNAPSHOT", 65: "V3_1_9", 85: "V3_2_9", 86: "V3_3_1_SNAPSHOT",
		V3_4_9: "V3_4_9", 211: "V3_9_9", 212: "V4_0_0_SNAPSHOT", 213: "V4_0_0", V4_1_0Snapshot: "V4_1_0_SNAPSHOT", 253: "V4_2_0",
		317: "V4_5_2", 333: "V4_6_0", V4_9_4: "V4_9_4", 409: "V4_9_8", V5_0_0: "V5_0_0", 433: "V5_1_0", V5_3_1: "V5_3_1",
		479: "V5_3_3", 493: "V5_4_0", V5_5_0: "V5_5_0", 611: "V5_9_9", HigherVersion: "HIGHER_VERSION", 99999: "HIGHER_VERSION",
		-3: "Version(-3)",
	} {
		if got := v.String(); got != want {
			t.Errorf("version %d is %s, want %s", v, got, want)
		}
	}
}

func TestParseLanguage(t *testing.T) {
	for l := range languageNames {
		if got := ParseLanguage(strings.ToLower(Language(l).String())); got != Language(l) {
			t.Errorf("language %d comes back as %d", l, got)
		}
	}
	if got := ParseLanguage("KOTLIN"); got != Other {
		t.Errorf("an unknown language is %d", got)
	}
}

func TestError(t *testing.T) {
	err := fmt.Errorf("create topic: %w", New(InvalidParameter, "topic %q is too long", "x"))
	var e *Error
	if !errors.As(err, &e) || e.Code != InvalidParameter || e.Remark != `topic "x" is too long` {
		t.Fatalf("got %#v", e)
	}
	if want := `create topic: INVALID_PARAMETER: topic "x" is too long`; err.Error() != want {
		t.Errorf("got %q, want %q", err, want)
	}
}
