// Package race tells tests whether the race detector watches them: it allocates, and makes a program ten times slower.
package race
