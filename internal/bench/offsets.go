package bench

import "math/bits"

const pageBits = 4096

// page is a bitmap of the offsets from a multiple of pageBits.
type page [pageBits / 64]uint64

// offsetSet is a set of queue offsets. It grows by a page where offsets are, wherever they start.
type offsetSet struct {
	pages   map[int64]*page
	last    *page // the page of the last add
	lastNum int64
}

// add adds an offset, which is not negative, and tells whether it is new.
func (s *offsetSet) add(offset int64) bool {
	num := offset / pageBits
	if s.last == nil || num != s.lastNum {
		if s.pages == nil {
			s.pages = map[int64]*page{}
		}
		if s.pages[num] == nil {
			s.pages[num] = new(page)
		}
		s.last, s.lastNum = s.pages[num], num
	}
	word, bit := offset%pageBits/64, uint64(1)<<(offset%64)
	isNew := s.last[word]&bit == 0
	s.last[word] |= bit
	return isNew
}

// merge adds the offsets of o and returns how many of them were there already.
func (s *offsetSet) merge(o *offsetSet) (twice int64) {
	if s.pages == nil {
		s.pages = map[int64]*page{}
	}
	for num, p := range o.pages {
		mine := s.pages[num]
		if mine == nil {
			mine = new(page)
			s.pages[num] = mine
		}
		for i, w := range p {
			twice += int64(bits.OnesCount64(mine[i] & w))
			mine[i] |= w
		}
	}
	return twice
}

// gaps returns how many offsets between the smallest and the largest are missing.
func (s *offsetSet) gaps() int64 {
	if len(s.pages) == 0 {
		return 0
	}
	lowest, highest, count := int64(-1), int64(0), int64(0)
	for num, p := range s.pages {
		for i, w := range p {
			if w == 0 {
				continue
			}
			count += int64(bits.OnesCount64(w))
			base := num*pageBits + int64(i)*64
			if first := base + int64(bits.TrailingZeros64(w)); lowest < 0 || first < lowest {
				lowest = first
			}
			highest = max(highest, base+63-int64(bits.LeadingZeros64(w)))
		}
	}
	return highest - lowest + 1 - count
}
