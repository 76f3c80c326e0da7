# SPDX-License-Identifier: MIT OR Apache-2.0
"""A loop keeps its rate with time.sleep(); one call in its body also sleeps (retries a device)."""
import os
import sys
import time

PERIOD, DEADLINE, CYCLES = 0.02, 0.02, 250
cycles = late = 0
worst = 0.0
due = time.monotonic() + 0.05
for i in range(CYCLES):
    wait = due - time.monotonic()
    if wait > 0:
        time.sleep(wait)
    if i % 25 == 20:
        time.sleep(0.09)
    response = time.monotonic() - due
    cycles += 1
    late += response > DEADLINE
    worst = max(worst, response)
    due += PERIOD
print(f"TRUTH late={late} of {cycles} worst_ms={1e3 * worst:.1f}", file=sys.stderr, flush=True)
os._exit(0)
