// Package bugs names faults that can be put into the code on purpose, to see that the simulation (tests/sim) finds them: each stands
// where it would be made, as if bugs.X { ... }. Without the build tag bugs they are constants, and nothing of them is compiled.
package bugs
