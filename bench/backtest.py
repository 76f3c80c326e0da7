#!/usr/bin/env python3
"""Tests forecasts on recordings of one machine: the first ones predict the later ones.

usage: backtest.py LAGGARD [--interleaved] DIR...
       backtest.py LAGGARD --lines DIR...
       backtest.py LAGGARD --record FOLDER [--short] [LOAD...]
       backtest.py LAGGARD --scripted FOLDER [--short]

--record makes recordings in FOLDER and tests all recordings there: 30 min of each load
in pieces of 60 s. The default is the four loads that every machine has, which take two
hours. --short makes 12 pieces of 40 s, 8 min per load. `forecast` accepts no use of less
than 36 s per day, so shorter pieces cannot be tested.
--scripted makes recordings with known distributions instead (scripted.py), in minutes.

--lines tests each cell of a forecast. Each run of 1, 2, 4, ... pieces predicts the
following pieces, whose number is 1/16 to 20 times that of the run. For each service, on
its worst CPU:
 - whether the rate of new largest latencies is the predicted one
 - whether it stayed within the bounds of 50 and 90 % by ranks, and by the assumed tail
 - whether it stayed within the upper limit of a fitted level. That limit is for the
   level, not for the largest latency, so at least 37 % must.
Predicted spans overlap, and stalls delay several services, so cells are not
independent. Each share has half of its 95 % interval, by the jackknife over tenths of
the time of each load.

Without --lines, the recordings of each load are sorted by time and halved. With
--interleaved, every second one is in the first half, so that a load that changes is in
both. `laggard forecast` reads the first half only. The second half is divided into
blocks as long as the horizon: 1, 2, ... recordings. A horizon is a day of use with that
many seconds, without time compression. A compressed hour would also change the rate of
events at fixed clock times.

A return level is exceeded once per horizon on average, so the largest latency of a
block lies above it with probability 1 - 1/e (63 %), and above the upper limit of its
interval less often. Each row counts the maxima inside the interval, and tests whether
more lie above the upper limit than that allows (binomial, one-sided). If so, the
forecast is too low, which chance explains in up to 5 % of the rows. Stalls delay
several services, so their rows are not independent. A method with a question mark
has a doubt: laggard reports that the process changes and that the interval may be too
narrow.
"""
import collections
import json
import math
import pathlib
import subprocess
import sys

import scripted

HORIZONS = (1, 2, 5, 10)
ABOVE_LEVEL = 1 - math.exp(-1)
# One-sided. A row has few blocks, so only a large error is found.
SIGNIFICANT = 0.05


def laggard_json(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def summary(program, path):
    """Returns load, start, length in s, path, and the largest latency of each line in ns."""
    recording = laggard_json(program, "show", "--json", path)["recordings"][0]
    lines = {
        (service["service"], service["route"]): service["latency"]["largest_ns"]
        for service in recording["services"]
        if service["latency"]["samples"]
    }
    load = (recording["load"] or {}).get("name", "no load")
    if recording["backend"] == "fake":
        load = pathlib.Path(path).stem.rpartition("-")[0]
    return load, recording["started"], recording["duration_ns"] / 1e9, path, lines


def forecast(program, paths, seconds):
    """Returns the forecast for a horizon in s, by line."""
    usage = f"{seconds / 3600:.9f},7,1"
    answer = laggard_json(
        program, "forecast", "--json", "--horizon", "day", "--usage", usage, *paths
    )
    return {
        (service["service"], service["route"]): service["cells"][0]
        for load in answer["loads"]
        for service in load["services"]
    }


LOADS = ("idle", "fileio", "draw", "fp")
# (pieces, seconds of each) per load.
SET, SHORT_SET = (30, 60), (12, 40)
# Horizons, relative to the length of the recordings that predict them.
RATIOS = (0.0625, 0.25, 0.5, 1, 2, 4, 9, 20)
LINES = ("ranks 0.5", "ranks 0.9", "tail 0.5", "tail 0.9")
# Parts of the time of a load, and the least number of parts for an interval.
PARTS, LEAST_PARTS = 10, 4


def record(program, folder, loads, pieces, seconds):
    """Makes recordings under each load, keeps existing ones, and returns all paths."""
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for load in loads:
        for piece in range(pieces):
            path = folder / f"{load}-{piece:03}.laggard"
            if not path.exists():
                command = (program, "record", "--quiet", "-d", f"{seconds}s", "--load", load, "-o", str(path))
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode not in (0, 3):
                    sys.exit(f"{' '.join(command)}\n{done.stderr}")
    return sorted(str(path) for path in folder.glob("*.laggard"))


def spans(pieces):
    """Yields (ratio, pieces that predict, pieces that follow)."""
    length = 1
    while length < len(pieces):
        for ratio in RATIOS:
            ahead = round(length * ratio)
            if not ahead or length + ahead > len(pieces) or ahead / length != ratio:
                continue
            # The step is the shorter of both, so the longer ones overlap.
            for begin in range(0, len(pieces) - length - ahead + 1, min(length, ahead)):
                middle = begin + length
                yield ratio, pieces[begin:middle], pieces[middle:middle + ahead]
        length *= 2


def lines(program, load, pieces):
    """Counts the correct bounds of forecasts, by horizon and part of the time."""
    found = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    pieces = sorted(pieces, key=lambda piece: piece[1])
    for ratio, past, future in spans(pieces):
        seconds = sum(piece[2] for piece in future)
        part = PARTS * pieces.index(future[0]) // len(pieces)
        at = found[ratio][load, part]
        for line, cell in forecast(program, [piece[3] for piece in past], seconds).items():
            seen = max(piece[4].get(line, 0) for piece in past)
            largest = max(piece[4].get(line, 0) for piece in future)
            at.update(cells=1, new=largest > seen, predicted=cell["ahead"]["new_largest"])
            for bound in cell["ahead"]["stays_below"]:
                share = f"{bound['share']:.1f}"
                if bound["bound_ns"] is not None:
                    at.update({f"ranks {share}": 1, f"ranks {share} correct": largest <= bound["bound_ns"]})
                if bound["assumed_ns"] is not None:
                    at.update({f"tail {share}": 1, f"tail {share} correct": largest <= bound["assumed_ns"]})
            if "level_ns" in cell:
                at.update(levels=1, below=largest <= cell["high_ns"])
    print_lines(load, found)
    return found


def sum_of(counters):
    total = collections.Counter()
    for counter in counters:
        total.update(counter)
    return total


def share(parts, hits, tries):
    """Returns a share, and half of its 95 % interval by the jackknife over parts of the time."""
    parts = [part for part in parts if part[tries]]
    total = sum_of(parts)
    if not total[tries]:
        return "-"
    whole = total[hits] / total[tries]
    count = len(parts)
    if count < LEAST_PARTS:
        return f"{whole:.2f} of {total[tries]}"
    without = [(total[hits] - part[hits]) / (total[tries] - part[tries]) for part in parts]
    mean = sum(without) / count
    error = math.sqrt((count - 1) / count * sum((estimate - mean) ** 2 for estimate in without))
    return f"{whole:.2f} ±{1.96 * error:.2f} of {total[tries]}"


def print_lines(load, found):
    print(f"\n{load}\n")
    print("| horizon / recordings | cells | new largest: predicted | observed | within 50 %, ranks | within 90 %, ranks "
          "| within 50 %, assumed tail | within 90 %, assumed tail | within the limit of a fitted level |")
    print("|---|---|---|---|---|---|---|---|---|")
    total = collections.defaultdict(collections.Counter)
    for ratio, at in [*sorted(found.items()), ("all", total)]:
        if ratio != "all":
            for part, counts in at.items():
                total[part].update(counts)
        parts = list(at.values())
        cells, predicted = (sum(part[key] for part in parts) for key in ("cells", "predicted"))
        columns = [("new", "cells"), *((f"{line} correct", line) for line in LINES), ("below", "levels")]
        shares = " | ".join(share(parts, hits, tries) for hits, tries in columns)
        print(f"| {ratio} | {cells} | {predicted / max(cells, 1):.2f} | {shares} |")


def at_least(hits, tries, p):
    """Returns the probability of at least `hits` of `tries` with probability `p` each."""
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
          "| above | too low |")
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
            is_too_low = at_least(above, len(blocks), ABOVE_LEVEL) < SIGNIFICANT
            doubt = bool(cell["doubts"])
            totals.update(maxima=len(blocks), below=below, inside=inside, above=above, too_low=is_too_low,
                          doubted=doubt, too_low_doubted=is_too_low and doubt)
            level, low, high = (cell[key] / 1e6 for key in ("level_ns", "low_ns", "high_ns"))
            route = "" if line[1] == "direct" else f" {line[1]}"
            print(f"| {seconds / 60:.0f} min | {line[0]}{route} | {cell['method']}{'?' if doubt else ''} "
                  f"| {level:.3g} ms ({low:.3g} to {high:.3g}) | {len(blocks)} | {below} "
                  f"| {inside} | {above} | {'yes' if is_too_low else 'no'} |")
    given = totals["cells"] - totals["refused"]
    print(f"\n{load}: {totals['cells']} cells, {totals['refused']} refused, {given} forecasts; of "
          f"{totals['maxima']} maxima {totals['below']} below, {totals['inside']} inside, "
          f"{totals['above']} above; {totals['too_low']} forecasts were too low "
          f"({totals['too_low_doubted']} of the {totals['doubted']} with a doubt); chance explains up to "
          f"{SIGNIFICANT * given:.0f}")


def count(cell, maxima):
    low, high = cell["low_ns"], cell["high_ns"]
    below = sum(largest < low for largest in maxima)
    above = sum(largest > high for largest in maxima)
    return below, len(maxima) - below - above, above


def by_load(program, paths):
    loads = collections.defaultdict(list)
    for path in paths:
        piece = summary(program, path)
        loads[piece[0]].append(piece)
    return loads


def main():
    flags = {argument for argument in sys.argv[1:] if argument.startswith("--")}
    arguments = [argument for argument in sys.argv[1:] if argument not in flags]
    if len(arguments) < 2 or flags - {"--interleaved", "--lines", "--record", "--scripted", "--short"}:
        sys.exit(__doc__)
    program, *paths = arguments
    pieces, seconds = SHORT_SET if "--short" in flags else SET
    if "--record" in flags:
        paths = record(program, paths[0], paths[1:] or LOADS, pieces, seconds)
    if "--scripted" in flags:
        paths = scripted.record(program, paths[0], pieces, seconds)
    loads = by_load(program, paths)
    if flags & {"--lines", "--record", "--scripted"}:
        of_all = collections.defaultdict(dict)
        for load, pieces in loads.items():
            for ratio, at in lines(program, load, pieces).items():
                of_all[ratio].update(at)
        if len(loads) > 1:
            print_lines("all loads", of_all)
        return
    for load, pieces in loads.items():
        back_test(program, load, *halves(pieces, "--interleaved" in flags))


if __name__ == "__main__":
    main()
