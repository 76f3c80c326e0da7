# SPDX-License-Identifier: MIT OR Apache-2.0
"""A thread that computes holds the lock of the interpreter."""
import os
import sys
import threading
import time

PERIOD, DEADLINE, CYCLES = 0.02, 0.004, 200


def compute():
    x = 0
    while True:
        x = (x * 31 + 7) % 1000003


threading.Thread(target=compute, daemon=True).start()
cycles = late = 0
worst = 0.0
due = time.monotonic() + 0.05
for _ in range(CYCLES):
    time.sleep(max(0, due - time.monotonic()))
    response = time.monotonic() - due
    cycles += 1
    late += response > DEADLINE
    worst = max(worst, response)
    due += PERIOD
print(f"TRUTH late={late} of {cycles} worst_ms={1e3 * worst:.1f}", file=sys.stderr, flush=True)
os._exit(0)
