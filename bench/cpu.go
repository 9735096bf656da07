package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// ticksPerSecond is the unit of /proc's CPU times; Linux shows it to programs as 100.
const ticksPerSecond = 100

// cpuSeconds are the CPU seconds that processes have used. One that is missing is not
// known.
type cpuSeconds map[string]float64

func (c cpuSeconds) since(before cpuSeconds) cpuSeconds {
	used := cpuSeconds{}
	for name, seconds := range c {
		if earlier, ok := before[name]; ok {
			used[name] = seconds - earlier
		}
	}
	return used
}

// readCPU reads the processes by name; 0 stands for one that is not known. Of Postgres,
// whose connections are processes, it reads the whole tree.
func readCPU(pids map[string]int) cpuSeconds {
	c := cpuSeconds{}
	for name, pid := range pids {
		read := processCPU
		if name == processPostgres {
			read = treeCPU
		}
		if seconds, ok := read(pid); ok {
			c[name] = seconds
		}
	}
	return c
}

// procStat are the fields of /proc/PID/stat that follow the command's name.
type procStat []string

// Positions in a procStat; see proc(5), where state is the third field.
const (
	statParent      = 1
	statOwnTime     = 11 // user, then system
	statReapedTime  = 13 // of children that ended and were waited for: user, then system
	statFieldsAtAll = 15
)

func readStat(pid int) (procStat, bool) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if pid == 0 || err != nil {
		return nil, false
	}
	name := strings.LastIndexByte(string(text), ')') // the name itself may hold one
	fields := strings.Fields(string(text)[name+1:])
	return fields, len(fields) >= statFieldsAtAll
}

func (s procStat) seconds(position int) float64 {
	user, _ := strconv.ParseFloat(s[position], 64)
	system, _ := strconv.ParseFloat(s[position+1], 64)
	return (user + system) / ticksPerSecond
}

func processCPU(pid int) (float64, bool) {
	stat, ok := readStat(pid)
	if !ok {
		return 0, false
	}
	return stat.seconds(statOwnTime), true
}

// treeCPU sums a process, its children, and those that it had.
func treeCPU(pid int) (float64, bool) {
	stat, ok := readStat(pid)
	if !ok {
		return 0, false
	}
	sum := stat.seconds(statOwnTime) + stat.seconds(statReapedTime)
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, false
	}
	for _, entry := range entries {
		child, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if stat, ok := readStat(child); ok && stat[statParent] == strconv.Itoa(pid) {
			sum += stat.seconds(statOwnTime)
		}
	}
	return sum, true
}

// parentOf returns the process that started pid; 0 if that is not known.
func parentOf(pid int) int {
	stat, ok := readStat(pid)
	if !ok {
		return 0
	}
	parent, _ := strconv.Atoi(stat[statParent])
	return parent
}

// loadAverage is the machine's load over one and five minutes; empty if it is not known.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 2 {
		return ""
	}
	return fields[0] + " " + fields[1]
}
