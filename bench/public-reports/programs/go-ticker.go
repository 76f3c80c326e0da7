// SPDX-License-Identifier: MIT OR Apache-2.0

// A ticker in a program with one processor: the collector of garbage and another goroutine
// take it.
package main

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

type node struct{ left, right *node }

func tree(depth int) *node {
	if depth == 0 {
		return &node{}
	}
	return &node{tree(depth - 1), tree(depth - 1)}
}

func main() {
	runtime.GOMAXPROCS(1)
	keep := tree(20)
	go func() {
		for {
			tree(14)
			time.Sleep(time.Millisecond)
		}
	}()
	const period, deadline = 10 * time.Millisecond, 5 * time.Millisecond
	var cycles, late int
	var worst time.Duration
	due := time.Now().Add(period)
	ticker := time.NewTicker(period)
	end := due.Add(4 * time.Second)
	for due.Before(end) {
		<-ticker.C
		now := time.Now()
		for !due.After(now) {
			response := now.Sub(due)
			cycles++
			if response > deadline {
				late++
			}
			if response > worst {
				worst = response
			}
			due = due.Add(period)
		}
	}
	runtime.KeepAlive(keep)
	fmt.Fprintf(os.Stderr, "TRUTH late=%d of %d worst_ms=%.1f\n", late, cycles, float64(worst)/1e6)
}
