# SPDX-License-Identifier: MIT OR Apache-2.0
"""The host of a printer loses its CPU to a program of higher priority."""
import os
import select
import signal
import sys
import time

PERIOD, DEADLINE, CYCLES = 0.025, 0.025, 200
CPU = 1


def camera():
    """Takes the CPU for 0.3 s of each second."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    with open("/proc/self/comm", "w") as file:
        file.write("camera")
    while True:
        time.sleep(0.7)
        end = time.monotonic() + 0.3
        while time.monotonic() < end:
            pass


os.sched_setaffinity(0, {CPU})
child = os.fork()
if child == 0:
    camera()
poll = select.poll()
cycles = late = 0
worst = 0.0
due = time.monotonic() + 0.05
for _ in range(CYCLES):
    while (wait := due - time.monotonic()) > 0:
        poll.poll(1e3 * wait + 0.5)
    sum(range(2000))
    response = time.monotonic() - due
    cycles += 1
    late += response > DEADLINE
    worst = max(worst, response)
    due += PERIOD
print(f"TRUTH late={late} of {cycles} worst_ms={1e3 * worst:.1f}", file=sys.stderr, flush=True)
os.kill(child, signal.SIGKILL)
