#!/usr/bin/env python3
"""How often is a machine told from itself? Comparisons of recordings between which
nothing was changed.

usage: alike.py LAGGARD FOLDER [--splits COUNT] [--pieces COUNT] [--seconds COUNT]
       alike.py LAGGARD --of DIR... [--splits COUNT]

Draws four recordings for A and four for B at random, with a fixed seed, as often as
asked, and asks `laggard compare`. Each comparison is of all services that were
recorded: it is wrong if any of them is better or worse, and may be in 5 of 100. A
recording is in several comparisons, so these are not quite independent.

With FOLDER the recordings are scripted: it makes those of each kind in FOLDER
(scripted.py; what is there already stays), by default 96 pieces of 20 s of each,
and 100 comparisons, in a few minutes. With --of they are those that are given, made
one after the other on one machine, by load; `backtest.py --record` makes such.

Exit code 1 where the comparisons of all kinds together are wrong more often than
5 in 100, beyond what chance explains (binomial, one-sided, 5 %).
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
    """Each service and level of a comparison, and what became of it."""
    done = subprocess.run(
        (program, "compare", *first, "--with", *second, "--json"), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.args}\n{done.stderr}")
    for one in json.loads(done.stdout)["services"]:
        for level in one["levels"]:
            yield f"{one['service']} {one['route']}", level


def chance_of_more(wrong, all):
    """P(so many or more are wrong) where each is with the chance WRONG."""
    return sum(math.comb(all, k) * WRONG**k * (1 - WRONG) ** (all - k) for k in range(wrong, all + 1))


def load(path):
    """The load of a recording."""
    manifest = json.loads((pathlib.Path(path) / "manifest.json").read_text())
    return (manifest.get("load") or {}).get("name", "no load")


def drawn(program, kind, paths, splits):
    """How many comparisons of recordings of one kind are wrong."""
    draw = random.Random(kind)
    told, services, wrong = collections.Counter(), collections.Counter(), 0
    for _ in range(splits):
        both = draw.sample(paths, 2 * SIDE)
        is_wrong = False
        for service, level in compared(program, both[:SIDE], both[SIDE:]):
            verdict = level["change"]["verdict"]
            told[verdict] += 1
            if verdict in ("better", "worse"):
                services[service] += 1
                is_wrong = True
        wrong += is_wrong
    of = ", ".join(f"{service} {count}" for service, count in services.most_common())
    changed = told["better"] + told["worse"]
    print(f"{kind:12} {wrong:6} {changed}, {told['equivalent']}, {told['unclear']}  {of}", flush=True)
    return wrong


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("laggard")
    words.add_argument("folder", nargs="?")
    words.add_argument("--of", nargs="+", metavar="DIR")
    words.add_argument("--splits", type=int, default=100)
    words.add_argument("--pieces", type=int, default=96)
    words.add_argument("--seconds", type=int, default=20)
    asked = words.parse_args()
    if (asked.folder is None) == (asked.of is None):
        words.error("give a FOLDER for scripted recordings, or those there are (--of)")
    kinds = collections.defaultdict(list)
    if asked.of:
        for path in sorted(asked.of):
            kinds[load(path)].append(path)
    else:
        paths = scripted.record(asked.laggard, asked.folder, asked.pieces, asked.seconds)
        for kind in scripted.KINDS:
            kinds[kind] = [path for path in paths if f"/{kind}-" in path]
    for kind, paths in kinds.items():
        if len(paths) < 2 * SIDE:
            words.error(f"{kind}: {len(paths)} recordings; a comparison takes {2 * SIDE}")
    print(f"{asked.splits} comparisons of {SIDE} with {SIDE} of each kind, nothing was changed\n")
    print(f"{'kind':12} {'wrong':>6} of services: better or worse, equal, cannot be told; which are wrong")
    wrong = sum(drawn(asked.laggard, kind, paths, asked.splits) for kind, paths in kinds.items())
    splits = asked.splits * len(kinds)
    chance = chance_of_more(wrong, splits)
    print(f"\n{wrong} of {splits} are wrong: {100 * wrong / splits:.1f} %, p {chance:.2g}")
    sys.exit(chance < WRONG)


if __name__ == "__main__":
    main()
