// Package body holds the JSON bodies of remoting commands as plain structs, named as the Java classes they mirror. They
// are written and read by internal/fastjson, whose package comment explains the tags.
//
// Reading is tolerant: clients of other languages leave members out, write numbers as strings, enum names in any case
// or enums as ordinals. What a peer must find is always written: maps and lists that clients dereference carry the tag
// nonnil, so a nil one becomes an empty one. Members of the Java classes that may be null are omitted when empty.
//
// Two bodies have more than one form: EncodeRoute writes a route for old or new clients, and RegisterBrokerBody also
// exists as compressed binary text (register.go).
//
// Java sets are slices here; their order carries no meaning.
package body
