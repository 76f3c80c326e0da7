#!/usr/bin/env python3
"""Measures how often `laggard compare` reports a change where nothing was changed.

usage: alike.py LAGGARD FOLDER [--splits COUNT] [--pieces COUNT] [--seconds COUNT]
       alike.py LAGGARD --of DIR... [--splits COUNT]

Selects four recordings for A and four for B at random, with a fixed seed, and runs
`laggard compare`, 100 times by default. A comparison covers all recorded services. It
is wrong if any of them is better or worse, which may happen in 5 of 100. A recording
is in several comparisons, so these are not quite independent.

FOLDER: makes scripted recordings of each kind there (scripted.py), by default 96 of
20 s each, which takes a few minutes. Existing recordings are kept.
--of DIR...: uses these recordings, which were made one after the other on one machine,
grouped by load. `backtest.py --record` makes such recordings.

The exit code is 1 if the comparisons of all kinds together are wrong significantly more
often than 5 in 100 (binomial test, one-sided, 5 %).
"""
import argparse
import collections
import json
import math
import pathlib
import random
import subprocess
import sys

import scripted

WRONG = 0.05
SIDE = 4


def compared(program, first, second):
    """Yields each service and level of a comparison."""
    done = subprocess.run(
        (program, "compare", *first, "--with", *second, "--json"), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.args}\n{done.stderr}")
    for service in json.loads(done.stdout)["services"]:
        for level in service["levels"]:
            yield f"{service['service']} {service['route']}", level


def at_least(wrong, count):
    """Returns the probability of `wrong` or more wrong comparisons of `count`."""
    return sum(math.comb(count, k) * WRONG**k * (1 - WRONG) ** (count - k) for k in range(wrong, count + 1))


def load(path):
    """Returns the name of the load of a recording."""
    manifest = json.loads((pathlib.Path(path) / "manifest.json").read_text())
    return (manifest.get("load") or {}).get("name", "no load")


def count_wrong(program, kind, paths, splits):
    """Returns the number of wrong comparisons of recordings of one kind, and prints a row."""
    generator = random.Random(kind)
    verdicts, services, wrong = collections.Counter(), collections.Counter(), 0
    for _ in range(splits):
        both = generator.sample(paths, 2 * SIDE)
        is_wrong = False
        for service, level in compared(program, both[:SIDE], both[SIDE:]):
            verdict = level["change"]["verdict"]
            verdicts[verdict] += 1
            if verdict in ("better", "worse"):
                services[service] += 1
                is_wrong = True
        wrong += is_wrong
    names = ", ".join(f"{service} {count}" for service, count in services.most_common())
    changed = verdicts["better"] + verdicts["worse"]
    print(f"{kind:12} {wrong:6} {changed}, {verdicts['equivalent']}, {verdicts['unclear']}  {names}", flush=True)
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("laggard")
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--of", nargs="+", metavar="DIR")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--pieces", type=int, default=96)
    parser.add_argument("--seconds", type=int, default=20)
    args = parser.parse_args()
    if (args.folder is None) == (args.of is None):
        parser.error("give either FOLDER or --of")
    kinds = collections.defaultdict(list)
    if args.of:
        for path in sorted(args.of):
            kinds[load(path)].append(path)
    else:
        paths = scripted.record(args.laggard, args.folder, args.pieces, args.seconds)
        for kind in scripted.KINDS:
            kinds[kind] = [path for path in paths if f"/{kind}-" in path]
    for kind, paths in kinds.items():
        if len(paths) < 2 * SIDE:
            parser.error(f"{kind}: {len(paths)} recordings; a comparison needs {2 * SIDE}")
    print(f"{args.splits} comparisons of {SIDE} with {SIDE} recordings of each kind, without a change\n")
    print(f"{'kind':12} {'wrong':>6} services: better or worse, equivalent, unclear; wrong services")
    wrong = sum(count_wrong(args.laggard, kind, paths, args.splits) for kind, paths in kinds.items())
    splits = args.splits * len(kinds)
    probability = at_least(wrong, splits)
    print(f"\n{wrong} of {splits} are wrong: {100 * wrong / splits:.1f} %, p {probability:.2g}")
    sys.exit(probability < WRONG)


if __name__ == "__main__":
    main()
