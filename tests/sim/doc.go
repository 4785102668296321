// Package sim runs a whole group inside one test, in virtual time (testing/synctest): three replicas (replica.Node over store.Store over
// a file system in memory), their network, the controllers (the real State and Liveness, without raft), producers, readers and a
// consumer, and everything that can go wrong with them, drawn from one seed.
//
//	sim_test.go          seeds, the faults, the end of a run
//	machine_test.go      a machine: disk, process, kill, power loss, restart, the broker's glue around a Node
//	network_test.go      connections with delay, cuts, half-open ends
//	controllers_test.go  the quorum as brokers see it, and a broker's membership
//	clients_test.go      who appends, reads and commits
//	truth_test.go        what was confirmed, and the checks
//	history_test.go      what clients did and saw, for porcupine
//	bugs_test.go         faults put into the code on purpose (-tags bugs), which a run must find
//
//	go test ./tests/sim -run TestGroup                 a few hundred short seeds
//	SEEDS=5000 SEED=1000 go test ./tests/sim -run TestGroup    seeds from 1000 on
//	SEED=17 go test ./tests/sim -run TestGroup -v      one seed, with its events
//
// # What is not repeatable
//
// Faults, sizes, delays and times come from the seed. Which of two goroutines that can run at the same virtual instant does so
// first is the scheduler's choice: GOMAXPROCS(1) makes it mostly the same, but preemption and system calls (files in memory are
// memfds, state.db is a file) still change it. A failing seed fails again in most runs, not in all: run it some times.
//
// # What it cannot see
//
// A disk that is slow: synctest stops the clock while anybody waits for a mutex, and the store holds mutexes over I/O. A stopped process
// (pause) has its network, its controllers and its clients frozen, but its own timers go on. state.db is a file of the machine: a
// power loss keeps what bbolt has written so far in order, it never tears it. Raft, the remoting protocol, member.Member's own order of steps, the
// routes, the watchdog and the forwarding of requests are not part of it. Races of memory need make race.
package sim
