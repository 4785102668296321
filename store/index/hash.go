package index

import (
	"encoding/binary"
	"unicode/utf16"
	"unicode/utf8"
)

// TopicHash is the state of Java's String.hashCode after "topic#". The tag index of RocketMQ 5.5 keeps a tag under the key
// "T#tag", so HashTopic("topic#T") serves the tags of a topic.
type TopicHash struct{ state uint32 }

// HashTopic computes the TopicHash of a topic.
func HashTopic(topic string) TopicHash {
	return TopicHash{31*hashCode(0, []byte(topic)) + '#'}
}

// keyHash is IndexFile.indexKeyHashMethod of "topic#key": the absolute value of the hash code, 0 for the one that has none.
func (t TopicHash) keyHash(key []byte) int32 {
	h := int32(hashCode(t.state, key))
	if h < 0 {
		h = -h
	}
	return max(h, 0)
}

const (
	pow2 = 31 * 31
	pow4 = pow2 * pow2
	pow8 = pow4 * pow4 % (1 << 32)
)

// hashCode continues String.hashCode, h = 31*h + unit over UTF-16 code units, with a UTF-8 text. Eight ASCII bytes are one step:
// neighbours are combined in lanes of a word, first to 16 and then to 32 bits, and only one multiplication depends on the step
// before. A byte that is not part of valid UTF-8 counts as U+FFFD.
func hashCode(h uint32, text []byte) uint32 {
	for len(text) >= 8 {
		v := binary.LittleEndian.Uint64(text)
		if v&0x8080808080808080 != 0 {
			return hashRunes(h, text)
		}
		v = v&0x00ff00ff00ff00ff*31 + v>>8&0x00ff00ff00ff00ff
		v = v&0x0000ffff0000ffff*pow2 + v>>16&0x0000ffff0000ffff
		h = h*pow8 + uint32(v)*pow4 + uint32(v>>32)
		text = text[8:]
	}
	for i, c := range text {
		if c >= utf8.RuneSelf {
			return hashRunes(h, text[i:])
		}
		h = 31*h + uint32(c)
	}
	return h
}

func hashRunes(h uint32, text []byte) uint32 {
	for len(text) > 0 {
		r, size := utf8.DecodeRune(text)
		if utf16.RuneLen(r) == 2 {
			high, low := utf16.EncodeRune(r)
			h = 31*h + uint32(high)
			r = low
		}
		h = 31*h + uint32(r)
		text = text[size:]
	}
	return h
}
