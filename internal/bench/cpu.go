package bench

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"
)

// clockTick is the unit of processor times in /proc: USER_HZ is 100 on every Linux platform that Go supports.
const clockTick = time.Second / 100

// cpuTimes is processor time spent so far, user and system.
type cpuTimes struct {
	brokers time.Duration // by all watched processes
	client  time.Duration // by this process
}

func (c cpuTimes) since(o cpuTimes) cpuTimes {
	return cpuTimes{brokers: c.brokers - o.brokers, client: c.client - o.client}
}

// readCPU reads the times of the processes pids, which needs Linux unless there are none, and of this process.
func readCPU(pids []int) (cpuTimes, error) {
	var sum cpuTimes
	for _, pid := range pids {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return sum, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		t, err := parseStat(stat)
		if err != nil {
			return sum, fmt.Errorf("processor time of process %d: %w", pid, err)
		}
		sum.brokers += t
	}
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		return sum, fmt.Errorf("own processor time: %w", err)
	}
	sum.client = time.Duration(own.Utime.Nano() + own.Stime.Nano())
	return sum, nil
}

// parseStat returns utime + stime, fields 14 and 15 of proc_pid_stat(5). The second field is a name in parentheses that may
// hold blanks and parentheses itself.
func parseStat(stat []byte) (time.Duration, error) {
	const utime = 14 - 3 // the fields after the name start with the third
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < utime+2 {
		return 0, fmt.Errorf("%d fields in %q", len(fields), stat)
	}
	var ticks int64
	for _, f := range fields[utime : utime+2] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick, nil
}
