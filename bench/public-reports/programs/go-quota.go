// SPDX-License-Identifier: MIT OR Apache-2.0

// A service in a control group with a quota of one CPU: its runtime uses all CPUs of the
// machine, and the kernel stops it until the next period of 100 ms.
package main

import (
	"fmt"
	"os"
	"time"
)

func burst(length time.Duration) {
	for end := time.Now().Add(length); time.Now().Before(end); {
	}
}

func main() {
	const period, deadline, count = 20 * time.Millisecond, 20 * time.Millisecond, 250
	for worker := 0; worker < 2; worker++ {
		go func() {
			for {
				burst(35 * time.Millisecond)
				time.Sleep(165 * time.Millisecond)
			}
		}()
	}
	var cycles, late int
	var worst time.Duration
	due := time.Now().Add(period)
	for ; cycles < count; due = due.Add(period) {
		time.Sleep(time.Until(due))
		response := time.Since(due)
		cycles++
		if response > deadline {
			late++
		}
		worst = max(worst, response)
	}
	fmt.Fprintf(os.Stderr, "TRUTH late=%d of %d worst_ms=%.1f\n", late, cycles, float64(worst)/1e6)
}
