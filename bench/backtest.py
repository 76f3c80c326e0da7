#!/usr/bin/env python3
"""Do forecasts come true? A back-test on recordings of one machine.

usage: backtest.py LAGGARD [--interleaved] DIR...
       backtest.py LAGGARD --lines DIR...
       backtest.py LAGGARD --record FOLDER [--short] [LOAD...]
       backtest.py LAGGARD --scripted FOLDER [--short]

--record makes a set of recordings in FOLDER and tests all that is there: 30 min
of each load in pieces of 60 s, two hours for the four loads that every machine
has, or of those named; with --short, 24 pieces of 4 s, about 3 min a load.
--scripted makes as many of which the truth is known (scripted.py), in minutes.

--lines tests what is told in every cell: from every 1, 2, 4, ... pieces in a row
and for the pieces that follow, as many as 1/16 to 20 times these, was the largest
latency (of each service, on the worst CPU) a new one as often as the chance said;
did it stay at or below the bounds of 50 and 90 % by ranks; by the assumed tail; and
at or below the upper limit of a fitted level, which is for the level, so 37 % at
least must? Futures overlap and services share their stalls, so cells are not
independent: behind each share is half of its 95 % interval by the jackknife, which
leaves out a tenth of the time of one load after the other.

Else the recordings of each load are put in order of time and halved; or, with
--interleaved, every other one is taken, which keeps a load that changes in both
halves. `laggard forecast` sees the first half only; the second is cut into
blocks of the horizon. Horizons of 1, 2, ... recordings are tried. A horizon is a
number of seconds: a day of use with that many seconds, without time compression. A
compressed hour would also change the rate of events at fixed clock times.

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
import pathlib
import subprocess
import sys

import scripted

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
    if recording["backend"] == "fake":
        load = pathlib.Path(path).stem.rpartition("-")[0]
    return load, recording["started"], recording["duration_ns"] / 1e9, path, lines


def forecast(program, paths, seconds):
    """Returns the cell of a horizon in measured seconds, by line."""
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
# Pieces and seconds of each.
SET, SHORT_SET = (30, 60), (24, 4)
# Horizons in lengths of the recordings that they are forecast from.
RATIOS = (0.0625, 0.25, 0.5, 1, 2, 4, 9, 20)
LINES = ("ranks 0.5", "ranks 0.9", "tail 0.5", "tail 0.9")
# Parts of the time of a load, and how few tell no interval.
PARTS, LEAST_PARTS = 10, 4


def record(program, folder, loads, pieces, seconds):
    """A set of recordings, by load; what is there already stays."""
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
    """From which pieces to forecast which: the past, and the pieces that follow it."""
    length = 1
    while length < len(pieces):
        for ratio in RATIOS:
            ahead = round(length * ratio)
            if not ahead or length + ahead > len(pieces) or ahead / length != ratio:
                continue
            # Neither pasts nor futures are repeated, unless one is shorter.
            for begin in range(0, len(pieces) - length - ahead + 1, min(length, ahead)):
                middle = begin + length
                yield ratio, pieces[begin:middle], pieces[middle:middle + ahead]
        length *= 2


def lines(program, load, pieces):
    """How often each line of a forecast held, by horizon and part of the time."""
    found = collections.defaultdict(lambda: collections.defaultdict(collections.Counter))
    pieces = sorted(pieces, key=lambda piece: piece[1])
    for ratio, past, future in spans(pieces):
        seconds = sum(piece[2] for piece in future)
        part = PARTS * pieces.index(future[0]) // len(pieces)
        at = found[ratio][load, part]
        for line, cell in forecast(program, [piece[3] for piece in past], seconds).items():
            seen = max(piece[4].get(line, 0) for piece in past)
            largest = max(piece[4].get(line, 0) for piece in future)
            at.update(cells=1, new=largest > seen, said=cell["ahead"]["new_largest"])
            for asked in cell["ahead"]["stays_below"]:
                share = f"{asked['share']:.1f}"
                if asked["bound_ns"] is not None:
                    at.update({f"ranks {share}": 1, f"ranks {share} held": largest <= asked["bound_ns"]})
                if asked["assumed_ns"] is not None:
                    at.update({f"tail {share}": 1, f"tail {share} held": largest <= asked["assumed_ns"]})
            if "level_ns" in cell:
                at.update(levels=1, below=largest <= cell["high_ns"])
    print_lines(load, found)
    return found


def summed(counters):
    total = collections.Counter()
    for one in counters:
        total.update(one)
    return total


def share(parts, hits, tries):
    """A share, and half of its 95 % interval: a jackknife over parts of the time."""
    parts = [part for part in parts if part[tries]]
    total = summed(parts)
    if not total[tries]:
        return "-"
    whole = total[hits] / total[tries]
    count = len(parts)
    if count < LEAST_PARTS:
        return f"{whole:.2f} of {total[tries]}"
    without = [(total[hits] - part[hits]) / (total[tries] - part[tries]) for part in parts]
    mean = sum(without) / count
    error = math.sqrt((count - 1) / count * sum((one - mean) ** 2 for one in without))
    return f"{whole:.2f} ±{1.96 * error:.2f} of {total[tries]}"


def print_lines(load, found):
    print(f"\n{load}\n")
    print("| horizon / recordings | cells | a new largest: said | seen | below half, by ranks | 9 of 10, by ranks "
          "| half, tail assumed | 9 of 10, tail assumed | below a fitted level's upper limit |")
    print("|---|---|---|---|---|---|---|---|---|")
    every = collections.defaultdict(collections.Counter)
    for ratio, at in [*sorted(found.items()), ("all", every)]:
        if ratio != "all":
            for part, counts in at.items():
                every[part].update(counts)
        parts = list(at.values())
        cells, said = (sum(part[what] for part in parts) for what in ("cells", "said"))
        columns = [("new", "cells"), *((f"{line} held", line) for line in LINES), ("below", "levels")]
        shares = " | ".join(share(parts, hits, tries) for hits, tries in columns)
        print(f"| {ratio} | {cells} | {said / max(cells, 1):.2f} | {shares} |")


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


def by_load(program, paths):
    loads = collections.defaultdict(list)
    for path in paths:
        piece = summary(program, path)
        loads[piece[0]].append(piece)
    return loads


def main():
    flags = {word for word in sys.argv[1:] if word.startswith("--")}
    words = [word for word in sys.argv[1:] if word not in flags]
    if len(words) < 2 or flags - {"--interleaved", "--lines", "--record", "--scripted", "--short"}:
        sys.exit(__doc__)
    program, *paths = words
    pieces, seconds = SHORT_SET if "--short" in flags else SET
    if "--record" in flags:
        paths = record(program, paths[0], paths[1:] or LOADS, pieces, seconds)
    if "--scripted" in flags:
        paths = scripted.record(program, paths[0], pieces, seconds)
    loads = by_load(program, paths)
    if flags & {"--lines", "--record", "--scripted"}:
        together = collections.defaultdict(dict)
        for load, pieces in loads.items():
            for ratio, at in lines(program, load, pieces).items():
                together[ratio].update(at)
        if len(loads) > 1:
            print_lines("all loads", together)
        return
    for load, pieces in loads.items():
        back_test(program, load, *halves(pieces, "--interleaved" in flags))


if __name__ == "__main__":
    main()
