package filter

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestHashCode(t *testing.T) {
	for s, want := range map[string]int32{
		"":                   0,
		"TagA":               2598919,
		"TagB":               2598920,
		"café":               3045921,
		"订单":                 1129459,
		"😀":                  1772899,
		"polygenelubricants": -2147483648,
		"Aa":                 2112,
		"BB":                 2112,
		"TopicTest#KEY1":     -1656969516,
	} {
		if got := HashCode(s); got != want {
			t.Errorf("HashCode(%q) = %d, want %d", s, got, want)
		}
		if got := HashCode([]byte(s)); got != want {
			t.Errorf("HashCode([]byte(%q)) = %d, want %d", s, got, want)
		}
	}
}

func TestHashCodeIsOverUTF16Units(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) })).Draw(t, "s")
		var want int32
		for _, unit := range utf16.Encode([]rune(s)) {
			want = 31*want + int32(unit)
		}
		if got := HashCode(s); got != want {
			t.Fatalf("HashCode(%q) = %d, want %d", s, got, want)
		}
		if got := HashCode([]byte(s)); got != want {
			t.Fatalf("HashCode([]byte(%q)) = %d, want %d", s, got, want)
		}
	})
}

func TestHashCodeDoesNotAllocate(t *testing.T) {
	s := "TagA-订单-😀-\xff"
	b := []byte(s)
	if n := testing.AllocsPerRun(100, func() { HashCode(s); HashCode(b) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestParseTags(t *testing.T) {
	// The results of Java's FilterAPI.buildSubscriptionData.
	for _, c := range []struct {
		sub   string
		all   bool
		names []string
		codes []int32
	}{
		{sub: "", all: true},
		{sub: "*", all: true},
		{sub: " * ", names: []string{"*"}, codes: []int32{42}},
		{sub: " "},
		{sub: "|| ||"},
		{sub: "a||", names: []string{"a"}, codes: []int32{97}},
		{sub: "||a", names: []string{"a"}, codes: []int32{97}},
		{sub: "b || a||\tb\n", names: []string{"a", "b"}, codes: []int32{97, 98}},
		{sub: "a b||c", names: []string{"a b", "c"}, codes: []int32{99, 94307}},
		{sub: "|", names: []string{"|"}, codes: []int32{124}},
		{sub: "|||", names: []string{"|"}, codes: []int32{124}},
		{sub: "\u00a0x\u00a0", names: []string{"\u00a0x\u00a0"}, codes: []int32{157640}},
		{sub: "* || TagA", names: []string{"*", "TagA"}, codes: []int32{42, 2598919}},
		{sub: "BB||Aa", names: []string{"Aa", "BB"}, codes: []int32{2112}},
	} {
		tags, err := ParseTags(c.sub)
		if err != nil {
			t.Errorf("ParseTags(%q): %v", c.sub, err)
			continue
		}
		if tags.All() != c.all {
			t.Errorf("ParseTags(%q).All() = %v", c.sub, tags.All())
		}
		if diff := cmp.Diff(c.names, tags.Names()); diff != "" {
			t.Errorf("ParseTags(%q).Names() (-want +got):\n%s", c.sub, diff)
		}
		if diff := cmp.Diff(c.codes, tags.Codes()); diff != "" {
			t.Errorf("ParseTags(%q).Codes() (-want +got):\n%s", c.sub, diff)
		}
	}
}

func TestParseTagsRefuses(t *testing.T) {
	for _, sub := range []string{"||", "||||", strings.Repeat("x", maxTextBytes+1)} {
		var want *CompileError
		if _, err := ParseTags(sub); !errors.As(err, &want) {
			t.Errorf("ParseTags(%.10q) = %v, want a CompileError", sub, err)
		}
	}
}

func TestTagsMatchCode(t *testing.T) {
	for _, c := range []struct {
		sub  string
		code int64
		want bool
	}{
		{"TagA || TagB", 2598919, true},
		{"TagA || TagB", 2598920, true},
		{"TagA || TagB", 2598921, false},
		{"TagA", 0, false}, // A message without tags.
		{"*", 0, true},     //
		{"", -5, true},     //
		{" ", 0, false},    // A list without tags subscribes to nothing.
		{"polygenelubricants", -1 << 31, true},
		{"TagA", 1<<32 + 2598919, true},     // Only the low half counts.
		{"Aa", int64(HashCode("BB")), true}, // A collision is left to the client.
		{"\x01\x02 || \x00", 0, false},      // Control characters are trimmed away.
	} {
		tags, err := ParseTags(c.sub)
		if err != nil {
			t.Fatal(err)
		}
		if got := tags.MatchCode(c.code); got != c.want {
			t.Errorf("%q.MatchCode(%d) = %v", c.sub, c.code, got)
		}
	}
}

func FuzzParseTags(f *testing.F) {
	for _, s := range []string{"", "*", "a || b", "||", "|| ||", "订单||😀", "\xff||\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, sub string) {
		tags, err := ParseTags(sub)
		if err != nil {
			return
		}
		for _, name := range tags.Names() {
			if !strings.Contains(sub, name) || !tags.MatchCode(int64(HashCode(name))) {
				t.Errorf("ParseTags(%q) has the tag %q", sub, name)
			}
		}
		if len(tags.Codes()) > len(tags.Names()) {
			t.Errorf("ParseTags(%q) has more codes than names", sub)
		}
	})
}
