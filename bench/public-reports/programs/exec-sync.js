// SPDX-License-Identifier: MIT OR Apache-2.0
// A timer of 20 ms in an event loop, which execSync() blocks until a program has ended.
const { execSync } = require("child_process");
const period = 20, deadline = 10, count = 250;
let cycles = 0, late = 0, worst = 0, due = performance.now() + 50;

function tick() {
  for (; due <= performance.now() && cycles < count; due += period) {
    const response = performance.now() - due;
    cycles++;
    if (response > deadline) late++;
    worst = Math.max(worst, response);
  }
  if (cycles === count) {
    console.error(`TRUTH late=${late} of ${cycles} worst_ms=${worst.toFixed(1)}`);
    process.exit(0);
  }
  setTimeout(tick, due - performance.now());
}
setTimeout(tick, 50);
setInterval(() => execSync("sleep 0.06"), 500);
