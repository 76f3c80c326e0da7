#!/usr/bin/env python3
"""How often is a machine told from itself? Comparisons of recordings of which the
truth is known: nothing differs.

usage: alike.py LAGGARD FOLDER [--splits COUNT] [--pieces COUNT] [--seconds COUNT]

Makes recordings of each kind in FOLDER (scripted.py; what is there already
stays), draws four for A and four for B at random, with a fixed seed, as often as
asked, and asks `laggard compare`. Each comparison is of six services: it is wrong
if any of them is better or worse, and may be in 5 of 100. By default 96 pieces of
each kind, 20 s each, and 100 comparisons, in a few minutes. A recording is in
several comparisons, so these are not quite independent.

Exit code 1 where the comparisons of all kinds together are wrong more often than
5 in 100, beyond what chance explains (binomial, one-sided, 5 %).
"""
import argparse
import collections
import json
import math
import random
import subprocess
import sys

import scripted

WRONG = 0.05
SIDE = 4


def verdicts(program, first, second):
    done = subprocess.run(
        (program, "compare", *first, "--with", *second, "--json"), capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{done.args}\n{done.stderr}")
    services = json.loads(done.stdout)["services"]
    return [level["change"]["verdict"] for one in services for level in one["levels"]]


def chance_of_more(wrong, all):
    """P(so many or more are wrong) where each is with the chance WRONG."""
    return sum(math.comb(all, k) * WRONG**k * (1 - WRONG) ** (all - k) for k in range(wrong, all + 1))


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("laggard")
    words.add_argument("folder")
    words.add_argument("--splits", type=int, default=100)
    words.add_argument("--pieces", type=int, default=96)
    words.add_argument("--seconds", type=int, default=20)
    asked = words.parse_args()
    if asked.pieces < 2 * SIDE:
        words.error(f"--pieces is {asked.pieces}; a comparison takes {2 * SIDE}")
    paths = scripted.record(asked.laggard, asked.folder, asked.pieces, asked.seconds)
    print(f"{asked.splits} comparisons of {SIDE} with {SIDE} of each kind, nothing differs\n")
    print(f"{'kind':12} {'wrong':>6} {'of services: better or worse, equal, cannot be told'}")
    all_wrong = all_asked = 0
    for kind in scripted.KINDS:
        of_kind = [path for path in paths if f"/{kind}-" in path]
        draw = random.Random(kind)
        told, wrong = collections.Counter(), 0
        for _ in range(asked.splits):
            drawn = draw.sample(of_kind, 2 * SIDE)
            found = verdicts(asked.laggard, drawn[:SIDE], drawn[SIDE:])
            told.update(found)
            wrong += any(one in ("better", "worse") for one in found)
        changed = told["better"] + told["worse"]
        print(f"{kind:12} {wrong:6} {changed}, {told['equivalent']}, {told['unclear']}", flush=True)
        all_wrong, all_asked = all_wrong + wrong, all_asked + asked.splits
    chance = chance_of_more(all_wrong, all_asked)
    print(f"\n{all_wrong} of {all_asked} are wrong: {100 * all_wrong / all_asked:.1f} %, p {chance:.2g}")
    sys.exit(chance < WRONG)


if __name__ == "__main__":
    main()
