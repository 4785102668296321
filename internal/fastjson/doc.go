// Package fastjson reads and writes the JSON dialect of Alibaba's fastjson, which RocketMQ uses for command bodies and for
// its config files. It differs from JSON in map keys: integer keys may stand without quotes ({0:"a"}), and a map keyed by
// objects has the object itself as the key ({{"queueId":0,"topic":"t"}:5}). No JSON library accepts the latter.
//
// It serves the admin and control path: reflection with a cached description per type is fast enough there.
//
// Invariants:
//
//	I1  The writer never emits a blank between tokens (Pretty breaks lines, but still puts none after a colon), because
//	    some clients take bodies apart textually.
//	I2  Members are sorted by name and map entries by key, so equal values have equal text.
//	I3  The reader's recursion is limited by maxDepth, and what it allocates by a multiple of the input's length.
//	I4  The reader copies: nothing it returns aliases the input.
//
// Struct tags are `json:"name"` with the options
//
//	alias=other  the reader also accepts the name other; the writer uses name
//	omitempty    the writer leaves a zero scalar out (Java's null string)
//	nonnil       the writer writes a nil map or slice as an empty one, because a peer dereferences it
//
// Nil pointers, maps and slices are left out otherwise; empty ones are written. Embedded structs are flattened. "-"
// hides a field, and so does a missing tag.
//
// Goroutines: none. Start reading at decode.go and encode.go.
package fastjson
