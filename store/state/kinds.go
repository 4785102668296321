package state

import "strconv"

// Kind tells what a change does. The numbers are on disk: they are never given a second meaning. 6, 16 to 18 and 20 belonged
// to kinds that nothing ever made.
type Kind uint8

// The kinds of change. Each is made by the function of the same name.
const (
	KindTopicPut       Kind = 1
	KindTopicDelete    Kind = 2
	KindGroupPut       Kind = 3
	KindGroupDelete    Kind = 4
	KindOffsetPut      Kind = 5
	KindResetPut       Kind = 7
	KindResetTake      Kind = 8
	KindLockPut        Kind = 9
	KindLockDelete     Kind = 10
	KindDelayOffsetPut Kind = 11
	KindRequestModePut Kind = 12
	KindFilterPut      Kind = 13
	KindFilterDead     Kind = 14
	KindForbiddenPut   Kind = 15
	KindDeletedBefore  Kind = 19

	kindEnd Kind = 20
)

// Versioned names a table that has a DataVersion of its own.
type Versioned uint8

const (
	unversioned Versioned = iota

	VersionTopics
	VersionGroups
	VersionOffsets
	VersionDelayOffsets

	versionedEnd
)

// field is one encoded part of a change.
type field uint8

const (
	fieldGroup field = iota
	fieldTopic
	fieldQueueID
	fieldOffset
	fieldClientID
	fieldTimeMs
	fieldBits
	fieldCleanOffsets
	fieldTopicConfig // brings the topic's name with it
	fieldGroupConfig // brings the group's name with it
	fieldRequestMode // brings the topic and the group with it
	fieldFilter      // brings the topic and the group with it
)

// kind describes a kind of change. The kinds with a key are rows: such a change puts one row of a table, which lasts until
// a change of the same kind and key replaces it or one without a key removes it.
type kind struct {
	name    string
	fields  []field   // in the order of the encoding
	key     []field   // what identifies the row: at most two names and the queue
	version Versioned // what a changed row of this kind counts in
}

var kinds = [kindEnd]kind{
	KindTopicPut:       {"TopicPut", []field{fieldTopicConfig}, []field{fieldTopic}, VersionTopics},
	KindTopicDelete:    {"TopicDelete", []field{fieldTopic}, nil, 0},
	KindGroupPut:       {"GroupPut", []field{fieldGroupConfig}, []field{fieldGroup}, VersionGroups},
	KindGroupDelete:    {"GroupDelete", []field{fieldGroup, fieldCleanOffsets}, nil, 0},
	KindOffsetPut:      {"OffsetPut", []field{fieldGroup, fieldTopic, fieldQueueID, fieldOffset}, queueKey, VersionOffsets},
	KindResetPut:       {"ResetPut", []field{fieldGroup, fieldTopic, fieldQueueID, fieldOffset}, queueKey, 0},
	KindResetTake:      {"ResetTake", []field{fieldGroup, fieldTopic, fieldQueueID}, nil, 0},
	KindLockPut:        {"LockPut", []field{fieldGroup, fieldTopic, fieldQueueID, fieldClientID, fieldTimeMs}, queueKey, 0},
	KindLockDelete:     {"LockDelete", []field{fieldGroup, fieldTopic, fieldQueueID}, nil, 0},
	KindDelayOffsetPut: {"DelayOffsetPut", []field{fieldQueueID, fieldOffset}, []field{fieldQueueID}, VersionDelayOffsets},
	KindRequestModePut: {"RequestModePut", []field{fieldRequestMode}, []field{fieldTopic, fieldGroup}, 0},
	KindFilterPut:      {"FilterPut", []field{fieldFilter}, []field{fieldTopic, fieldGroup}, 0},
	KindFilterDead:     {"FilterDead", []field{fieldTopic, fieldGroup, fieldTimeMs}, nil, 0},
	KindForbiddenPut:   {"ForbiddenPut", []field{fieldGroup, fieldTopic, fieldBits}, []field{fieldGroup, fieldTopic}, VersionGroups},
	KindDeletedBefore:  {"DeletedBefore", []field{fieldTopic, fieldOffset}, []field{fieldTopic}, 0},
}

var queueKey = []field{fieldGroup, fieldTopic, fieldQueueID}

// known tells whether k has a meaning.
func (k Kind) known() bool { return k < kindEnd && kinds[k].name != "" }

// isRow tells whether a change of this kind puts a row.
func (k Kind) isRow() bool { return k.known() && kinds[k].key != nil }

// String returns the name of the kind.
func (k Kind) String() string {
	if !k.known() {
		return "kind " + strconv.Itoa(int(k))
	}
	return kinds[k].name
}

// rowKey returns what identifies the row that c puts.
func (c *Change) rowKey() key {
	var (
		k     key
		names [2]string
		n     int
	)
	for _, f := range kinds[c.Kind].key {
		switch f {
		case fieldQueueID:
			k.queueID = c.QueueID
			continue
		case fieldGroup:
			names[n] = c.Group
		case fieldTopic:
			names[n] = c.Topic
		}
		n++
	}
	k.first, k.second = names[0], names[1]
	return k
}
