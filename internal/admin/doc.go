// Package admin is Castor's mqadmin: the administration tool of RocketMQ's users, with the commands, options and output that they and
// their scripts know, and without a JVM to start.
//
// It owns no state and talks to servers by remoting commands only, so it administers any broker and name server that speaks them.
//
// A command is a row of a table (commands.go and the table at the top of each file named after a domain): its name, its options as
// data, and a function. The parser, the help texts and docs/admin.md are made from the rows. The names and forms of options are those
// of RocketMQ's tool, kept in testdata/commands.json, against which a test compares the table.
//
// What is printed has the columns of RocketMQ's tool. Commands that list things also write JSON, which is an extra of this tool. Unlike
// RocketMQ's tool this one ends with 1 after every failure and says in one line on stderr what went wrong.
//
// Goroutines: those of the remoting.Client, which Main closes. Start reading at main.go, then server.go.
package admin
