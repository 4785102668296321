package message

import (
	"encoding/hex"
	"net/netip"
	"testing"
)

// vectors are the records of the store reference: V1, V1 with an IPv6 born host, V1 with a record checksum.
var vectors = []struct {
	name  string
	draft Draft
	hex   string
}{
	{"v1", Draft{}, "0000007bdaa320a73610a686000000010000000000000000000000050000000000000400000000000000018bcfe568000a0000010000c3500000018bcfe5687b0a00000200002a9f0000000000000000000000000000000568656c6c6f09546f706963546573740012544147530154616741024b455953016b3102"},
	{"born v6", Draft{BornHost: netip.MustParseAddrPort("[::1]:50000")}, "00000087daa320a73610a686000000010000000000000000000000050000000000000400000000100000018bcfe56800000000000000000000000000000000010000c3500000018bcfe5687b0a00000200002a9f0000000000000000000000000000000568656c6c6f09546f706963546573740012544147530154616741024b455953016b3102"},
	{"crc", Draft{CRC: true}, "0000008fdaa320a73610a686000000010000000000000000000000050000000000000400000000000000018bcfe568000a0000010000c3500000018bcfe5687b0a00000200002a9f0000000000000000000000000000000568656c6c6f09546f706963546573740026544147530154616741024b455953016b31025f5f435243333223013534313739393134333002"},
}

func fill(d Draft) *Draft {
	d.Topic, d.QueueID, d.BornTimestamp, d.Body = "TopicTest", 1, 1700000000000, []byte("hello")
	if !d.BornHost.IsValid() {
		d.BornHost = netip.MustParseAddrPort("10.0.0.1:50000")
	}
	d.StoreHost = netip.MustParseAddrPort("10.0.0.2:10911")
	d.Properties = []byte("TAGS\x01TagA\x02")
	d.MoreProperties = []byte("KEYS\x01k1\x02")
	return &d
}

func TestEncodeMatchesTheVectors(t *testing.T) {
	for _, v := range vectors {
		d := fill(v.draft)
		if err := d.Prepare(); err != nil {
			t.Fatal(err)
		}
		b := d.Encode(nil, 5, 1024, 1700000000123)
		if got := hex.EncodeToString(b); got != v.hex {
			t.Errorf("%s:\n got %s\nwant %s", v.name, got, v.hex)
		}
		if len(b) != d.Size() {
			t.Errorf("%s: %d bytes, announced %d", v.name, len(b), d.Size())
		}
		var r View
		if err := r.Parse(b); err != nil {
			t.Fatal(err)
		}
		if err := r.Verify(1024); err != nil {
			t.Errorf("%s: %v", v.name, err)
		}
		if string(r.Topic()) != "TopicTest" || string(r.Body()) != "hello" || r.QueueOffset() != 5 || r.BornHost() != d.BornHost ||
			r.StoreHost() != d.StoreHost || r.StoreTimestamp() != 1700000000123 || string(r.Properties().Lookup("KEYS")) != "k1" {
			t.Errorf("%s: read back %s %s %v", v.name, r.Topic(), r.Body(), r.Properties().Map())
		}
	}
}

func TestEveryFlippedBitOfALongRecordIsNoticedOrHarmless(t *testing.T) {
	d := fill(Draft{CRC: true})
	_ = d.Prepare()
	b := d.Encode(nil, 5, 1024, 1700000000123)
	property := len(b) - crcReserve - 1 // the checksum with the separator before it: without that there is no checksum
	for i := range len(b) * 8 {
		b[i/8] ^= 1 << (i % 8)
		var r View
		if err := r.Parse(b); err == nil && r.Verify(1024) == nil && i/8 < property {
			t.Errorf("bit %d of byte %d goes unnoticed", i%8, i/8)
		}
		b[i/8] ^= 1 << (i % 8)
	}
}

func TestID(t *testing.T) {
	host := netip.MustParseAddrPort("10.0.0.2:10911")
	id := string(AppendID(nil, host, 1024))
	if id != "0A00000200002A9F0000000000000400" {
		t.Fatal(id)
	}
	h, off, err := ParseID(id)
	if err != nil || h != host || off != 1024 {
		t.Fatal(h, off, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		b, _ := hex.DecodeString(v.hex)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r View
		if r.Parse(b) != nil {
			return
		}
		_ = r.Verify(r.PhyOffset())
		_, _, _, _ = r.BornHost(), r.StoreHost(), r.Body(), r.Topic()
		r.Properties().Each(func(name, value []byte) bool { return true })
		_ = r.ReconsumeTimes() + int32(r.PreparedOffset())
	})
}

func FuzzBatch(f *testing.F) {
	f.Add(AppendBatchItem(AppendBatchItem(nil, 1, []byte("a"), Props("TAGS\x01x\x02")), 2, nil, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		batch := Batch(b)
		var again []byte
		for {
			it, ok, err := batch.Next()
			if err != nil {
				return
			}
			if !ok {
				break
			}
			again = AppendBatchItem(again, it.Flag, it.Body, it.Properties)
		}
		if len(again) != len(b) {
			t.Fatalf("%d bytes became %d", len(b), len(again))
		}
	})
}

// TestValueThatLooksLikeAChecksum: only a property of its own is one.
func TestValueThatLooksLikeAChecksum(t *testing.T) {
	for text, valid := range map[string]bool{
		"a\x01b__CRC32#\x011234567890\x02":     true,
		"\x01__CRC32#\x011234567890\x02":       true,
		"__CRC32#\x011234567890\x02":           false, // no client's: the broker drops it from what it is sent
		"a\x01b\x02__CRC32#\x011234567890\x02": false,
	} {
		d := fill(Draft{})
		d.Properties, d.MoreProperties = []byte(text), nil
		if err := d.Prepare(); err != nil {
			t.Fatal(err)
		}
		var v View
		if err := v.Parse(d.Encode(nil, 5, 1024, 1700000000123)); err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(1024); (err == nil) != valid {
			t.Errorf("properties %q: %v", text, err)
		}
	}
}
