package filter

import "testing"

func TestHashCode(t *testing.T) {
	for s, want := range map[string]int32{"TagA": 2598919, "TagB": 2598920, "café": 3045921, "订单": 1129459, "😀": 1772899,
		"polygenelubricants": -2147483648, "Aa": 2112, "BB": 2112, "": 0} {
		if got := HashCode(s); got != want {
			t.Errorf("HashCode(%q) = %d, want %d", s, got, want)
		}
		if got := HashCode([]byte(s)); got != want {
			t.Errorf("HashCode([]byte(%q)) = %d, want %d", s, got, want)
		}
	}
}
