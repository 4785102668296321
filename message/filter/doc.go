// Package filter owns the two expression languages a subscription may use: a list of tags and an SQL92 selector.
//
// A tag list ("TagA || TagB") becomes [Tags]: the set of Java hash codes a consume queue entry is tested against. A hash
// may collide, so a match is a promise to look at the message, and the client compares the tag itself.
//
// A selector ("region = 'eu' AND price BETWEEN 10 AND 20.5") becomes an [Expr]. The text is scanned (scan.go), parsed and
// checked (parse.go) into a tree of small nodes (node.go), which compute typed values (value.go) from a message's
// properties. The language and its results are those of the rocketmq-filter module of Apache RocketMQ 5.5.0, whose
// answers to several hundred expressions are in testdata; there are three deliberate differences:
//
//   - Text after the longest prefix that parses is an error. Java ignores it, so a typo silently widens the filter.
//   - The literal 0.0 is accepted. Java refuses every float below 4.9E-324.
//   - A boolean on the left of a property (TRUE = p) means the same as on the right. Java throws ClassCastException.
//
// One limit is narrower than Java's: only ASCII digits are digits when a property is read as a number.
//
// Invariants: an Expr and a Tags never change after they are made, keep no memory of the caller, and may be used by any
// number of goroutines. The size of a text and the height of a tree are limited, so neither compiling nor matching
// recurses without bound. Matching allocates nothing.
//
// The package starts no goroutines. Read filter.go first.
package filter
