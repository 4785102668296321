// Package goclient runs the official Go client against a broker and checks what an application sees.
//
// It is a module of its own, so that the broker does not depend on the client. The tests need a running
// name server and broker, named by the environment variables NAMESRV and BROKER_ADDR; without them they are
// skipped. run.py reports them in the form that all interop suites share.
//
// Every test works on topics and groups with random names and removes the topics it made, so the tests run in
// parallel and on a broker that is in use. Start reading at harness_test.go.
package goclient
