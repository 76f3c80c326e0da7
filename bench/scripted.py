"""Recordings with known distributions, to test forecasts and comparisons.

A random generator with a fixed seed draws the latencies of each recording. The
recordings of a kind follow each other in time. The latencies of the six services are
independent.
"""
import math
import pathlib
import random
import subprocess
import tempfile

SERVICES = [(service, route) for route in ("direct", "deferred") for service in ("fifo:90", "fifo:50", "other")]
PERIOD_NS = 10_000_000
# Smallest latency, ns.
SMALLEST = 2_000
# Length of a burst in activations: 5 s.
BURST = 500


def power(shape):
    """Returns a Pareto distribution: the largest of n values grows as n^shape."""
    return lambda generator: (1 - generator.random()) ** -shape


KINDS = {
    "exponential": lambda generator: 1 + generator.expovariate(1),
    "power-0.5": power(0.5),
    # The heaviest tail that a forecast assumes.
    "power-0.75": power(0.75),
    "bursts": power(0.5),
}


def latencies(kind, generator, count):
    """Returns latencies as multiples of SMALLEST."""
    draw = KINDS[kind]
    if kind != "bursts":
        return [draw(generator) for _ in range(count)]
    # All latencies of a burst have a factor in common.
    heights = [draw(generator) for _ in range(math.ceil(count / BURST) + 1)]
    begin = generator.randrange(BURST)
    return [heights[(begin + at) // BURST] * (1 + generator.random()) for at in range(count)]


def script(kind, seed, seconds):
    generator = random.Random(f"{kind} {seed}")
    count = seconds * 1_000_000_000 // PERIOD_NS
    lines = [f"period_ns = {PERIOD_NS}"]
    for service, route in SERVICES:
        steps = ", ".join(f'[["user", {SMALLEST * factor:.0f}]]' for factor in latencies(kind, generator, count))
        lines.append(f'[[line]]\nservice = "{service}"\nroute = "{route}"\nsteps = [{steps}]')
    return "\n".join(lines)


def record(program, folder, pieces, seconds):
    """Makes recordings of each kind, keeps existing ones, and returns all paths."""
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
