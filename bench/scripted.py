"""Recordings whose truth is known, to try forecasts on: what is late comes from a
script, drawn by a random generator with a fixed seed.

Of each kind there are pieces like those of a machine, one after the other. Six
services are late independently of each other.
"""
import math
import pathlib
import random
import subprocess
import tempfile

SERVICES = [(service, route) for route in ("direct", "deferred") for service in ("fifo:90", "fifo:50", "other")]
PERIOD_NS = 10_000_000
# The least latency, ns.
LEAST = 2_000
# How long a burst lasts, in activations: 5 s.
BURST = 500


def power(shape):
    """Of the largest of n it is known that it grows as n^shape."""
    return lambda chance: (1 - chance.random()) ** -shape


KINDS = {
    "exponential": lambda chance: 1 + chance.expovariate(1),
    "power-0.5": power(0.5),
    # As heavy a tail as a forecast assumes at most.
    "power-0.75": power(0.75),
    "bursts": power(0.5),
}


def latencies(kind, chance, count):
    draw = KINDS[kind]
    if kind != "bursts":
        return [draw(chance) for _ in range(count)]
    # What is late in a burst is so by a factor that the whole burst has.
    heights = [draw(chance) for _ in range(math.ceil(count / BURST) + 1)]
    begin = chance.randrange(BURST)
    return [heights[(begin + at) // BURST] * (1 + chance.random()) for at in range(count)]


def script(kind, seed, seconds):
    chance = random.Random(f"{kind} {seed}")
    count = seconds * 1_000_000_000 // PERIOD_NS
    lines = [f"period_ns = {PERIOD_NS}"]
    for service, route in SERVICES:
        steps = ", ".join(f'[["user", {LEAST * late:.0f}]]' for late in latencies(kind, chance, count))
        lines.append(f'[[line]]\nservice = "{service}"\nroute = "{route}"\nsteps = [{steps}]')
    return "\n".join(lines)


def record(program, folder, pieces, seconds):
    """A set of recordings of each kind; what is there already stays."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for kind in KINDS:
        for piece in range(pieces):
            path = folder / f"{kind}-{piece:03}.laggard"
            if path.exists():
                continue
            with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
                file.write(script(kind, piece, seconds))
                file.flush()
                subprocess.run(
                    (program, "record", "--quiet", "-d", f"{seconds}s", f"--backend=fake:{file.name}", "-o", str(path)),
                    check=True, capture_output=True,
                )
    return sorted(str(path) for path in folder.glob("*.laggard"))
