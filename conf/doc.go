// Package conf holds the configuration of every Castor process: one struct per component (Broker, Namesrv, Controller),
// whose field tags are the only declaration of a key.
//
// Tag form:
//
//	conf:"key"          the key, spelled as Apache RocketMQ spells it
//	default:"text"      its default; a leading ~ stands for the home directory of the process's user
//	min:"n" max:"n"     the range of a number, ends included
//	unit:"ms"           ms, s, h, B (sizes also accept k, m, g), % ...
//	enum:"A,B|1"        the words allowed, in any case; after a bar stands another spelling of the same word
//	form:"name"         a textual form, see forms in values.go
//	apply:"..."         what a change at run time does, see Apply
//
// The field's doc comment is the key's documentation: docs/configuration.md is generated from it (internal/gen/confdocs).
// A field is called like its key with a capital first letter; types are string, bool, int32 (Java's int) and int64 (long).
//
// Files are java.util.Properties (properties.go). One flat key space feeds a component, as in Java's
// MixAll.properties2Object; but a value that does not parse stops the start with file, line and expected type, and nothing
// is passed over in silence: keys that only Java has and keys nobody has are listed in a Report.
//
// A loaded configuration is immutable. Update makes the next one by copy; EditFile then changes only the changed keys in
// the user's file and keeps its comments and order. No package-level state, no goroutines; only Load touches the machine.
//
// Read broker.go first, then load.go and update.go. javakeys.txt lists the keys of Apache RocketMQ 5.5.0.
package conf
