#!/usr/bin/env python3
"""Do forecasts come true? A back-test on recordings of one machine.

usage: backtest.py LAGGARD [--interleaved] DIR...

The recordings of each load are put in order of time and halved; or, with
--interleaved, every other one is taken, which keeps a load that changes in both
halves. `laggard forecast` sees the first half only; the second is cut into
blocks of the horizon. Horizons of 1, 2, ... recordings are tried, by a usage pattern whose
compression makes "an hour of use" as long as that.

A return level is exceeded once per horizon on average, so the largest latency
of a block lies above it with probability 1 - 1/e (63 %), and above the upper
limit of its interval less often. Counted is therefore not only how many maxima
lie in the interval but whether more lie above the upper limit than that allows
(binomial, one-sided): a forecast that promises too much, by chance in up to 5 %
of the rows. The services share their stalls, so their rows are not independent.
A method with a question mark is a forecast with a doubt: laggard says that the
peaks are not those of a steady process and that the interval may be too narrow.
"""
import collections
import json
import math
import subprocess
import sys

HORIZONS = (1, 2, 5, 10)
ABOVE_LEVEL = 1 - math.exp(-1)
# One-sided; the blocks of one row are few, so only a gross error is found.
SIGNIFICANT = 0.05


def laggard_json(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def summary(program, path):
    """Load, start, length in s, and the largest latency of each line."""
    recording = laggard_json(program, "show", "--json", path)["recordings"][0]
    lines = {
        (service["service"], service["route"]): service["latency"]["largest_ns"]
        for service in recording["services"]
        if service["latency"]["samples"]
    }
    load = (recording["load"] or {}).get("name", "no load")
    return load, recording["started"], recording["duration_ns"] / 1e9, path, lines


def forecast(program, paths, seconds):
    """The cell of a horizon of so many measured seconds, by line."""
    usage = f"24,7,{3600 / seconds:.9f}"
    answer = laggard_json(
        program, "forecast", "--json", "--horizon", "hour", "--usage", usage, *paths
    )
    return {
        (service["service"], service["route"]): service["cells"][0]
        for load in answer["loads"]
        for service in load["services"]
    }


def tail(hits, tries, p):
    """P(at least `hits` of `tries`) with probability `p` each."""
    return sum(
        math.comb(tries, k) * p**k * (1 - p) ** (tries - k) for k in range(hits, tries + 1)
    )


def halves(pieces, interleaved):
    pieces = sorted(pieces, key=lambda piece: piece[1])
    if interleaved:
        return pieces[::2], pieces[1::2]
    half = len(pieces) // 2
    return pieces[:half], pieces[half:]


def back_test(program, load, first, second):
    print(f"\n{load}: forecast from {sum(p[2] for p in first) / 60:.1f} min, tested on "
          f"{sum(p[2] for p in second) / 60:.1f} min\n")
    print("| horizon | service | method | level (interval) | blocks | maxima below | inside "
          "| above | promises too much |")
    print("|---|---|---|---|---|---|---|---|---|")
    totals = collections.Counter()
    for blocks_of in HORIZONS:
        blocks = [second[i:i + blocks_of] for i in range(0, len(second), blocks_of)]
        blocks = [block for block in blocks if len(block) == blocks_of]
        if len(blocks) < 2:
            break
        seconds = sum(piece[2] for piece in second) / len(second) * blocks_of
        cells = forecast(program, [piece[3] for piece in first], seconds)
        for line, cell in cells.items():
            totals["cells"] += 1
            if cell["method"] == "refused":
                totals["refused"] += 1
                continue
            below, inside, above = count(cell, [
                max(piece[4].get(line, 0) for piece in block) for block in blocks
            ])
            false = tail(above, len(blocks), ABOVE_LEVEL) < SIGNIFICANT
            doubt = bool(cell["doubts"])
            totals.update(maxima=len(blocks), below=below, inside=inside, above=above, false=false,
                          doubted=doubt, false_doubted=false and doubt)
            level, low, high = (cell[key] / 1e6 for key in ("level_ns", "low_ns", "high_ns"))
            route = "" if line[1] == "direct" else f" {line[1]}"
            print(f"| {seconds / 60:.0f} min | {line[0]}{route} | {cell['method']}{'?' if doubt else ''} "
                  f"| {level:.3g} ms ({low:.3g} to {high:.3g}) | {len(blocks)} | {below} "
                  f"| {inside} | {above} | {'yes' if false else 'no'} |")
    given = totals["cells"] - totals["refused"]
    print(f"\n{load}: {totals['cells']} cells, {totals['refused']} refused, {given} forecasts; of "
          f"{totals['maxima']} maxima {totals['below']} below, {totals['inside']} inside, "
          f"{totals['above']} above; {totals['false']} forecasts promised too much "
          f"({totals['false_doubted']} of the {totals['doubted']} with a doubt); by chance up to "
          f"{SIGNIFICANT * given:.0f} may")


def count(cell, maxima):
    low, high = cell["low_ns"], cell["high_ns"]
    below = sum(largest < low for largest in maxima)
    above = sum(largest > high for largest in maxima)
    return below, len(maxima) - below - above, above


def main():
    words = [word for word in sys.argv[1:] if word != "--interleaved"]
    if len(words) < 3:
        sys.exit(__doc__)
    program, *paths = words
    loads = collections.defaultdict(list)
    for path in paths:
        piece = summary(program, path)
        loads[piece[0]].append(piece)
    for load, pieces in loads.items():
        back_test(program, load, *halves(pieces, "--interleaved" in sys.argv))


if __name__ == "__main__":
    main()
