# SPDX-License-Identifier: MIT OR Apache-2.0
"""A callback of an event loop calls time.sleep(): the other timers are late."""
import asyncio
import os
import sys
import time

PERIOD, DEADLINE, CYCLES = 0.02, 0.01, 250
cycles = late = 0
worst = 0.0


async def periodic():
    global cycles, late, worst
    due = time.monotonic() + 0.05
    for _ in range(CYCLES):
        await asyncio.sleep(max(0, due - time.monotonic()))
        response = time.monotonic() - due
        cycles += 1
        late += response > DEADLINE
        worst = max(worst, response)
        due += PERIOD


async def blocking():
    await asyncio.sleep(0.055)
    while True:
        time.sleep(0.035)
        await asyncio.sleep(0.165)


async def main():
    task = asyncio.create_task(blocking())
    await periodic()
    task.cancel()


asyncio.run(main())
print(f"TRUTH late={late} of {cycles} worst_ms={1e3 * worst:.1f}", file=sys.stderr, flush=True)
os._exit(0)
