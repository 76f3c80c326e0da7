#!/usr/bin/env python3
"""Tests whether `laggard why` finds and names the faults that `laggard provoke` injects.

usage: python3 bench/prove LAGGARD [--kinds softirq,thread] [--loads none,fileio]
                [--duration 12s] [--page docs/validation/accuracy.md] [--keep FOLDER [--again]]
                [--host 6.12 --testhost PROGRAM]
       python3 bench/prove LAGGARD --judge KIND RECORDING HITS

For every kind and load, `laggard record` and `laggard provoke` run at the same time, on
this machine or on a test host. The answer of `why --json` is compared with the times
that provoke wrote. Prints a Markdown table, and writes it into the page between its
marks.

docs/validation/accuracy.md describes the columns. The script does not judge them.
"""
import argparse
import concurrent.futures
import contextlib
import os
import shutil
import signal
import sys
import tempfile

import judging
import page
from kinds import KINDS, SKIPPED, ns
from machine import Machine, take_priority, mappings
from testhost import TestHost


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("laggard", help="the program")
    parser.add_argument("--kinds", default=",".join([*KINDS, *SKIPPED, "undisturbed"]))
    parser.add_argument("--loads", default="none,fileio")
    parser.add_argument("--duration", default="12s")
    parser.add_argument("--page", help="page into which the table is written, between its marks")
    parser.add_argument("--keep", help="folder that keeps the recordings and the times of the faults")
    parser.add_argument("--again", action="store_true", help="read the recordings in the folder of --keep again, and record nothing")
    parser.add_argument("--judge", nargs=3, metavar=("KIND", "RECORDING", "HITS"))
    parser.add_argument("--host", metavar="KERNEL", help="use a test host with this kernel, such as 6.12")
    parser.add_argument("--testhost", default="target/debug/testhost", help="program that boots the test host")
    parser.add_argument(
        "--mappings",
        type=int,
        metavar="COUNT",
        help="raise vm.max_map_count to this value during the run; long system calls (preempt-off) need it",
    )
    parser.add_argument(
        "--busy", action="store_true", help="give this run priority over other programs; Ctrl-C does not reach it"
    )
    parser.add_argument("--verbose", action="store_true", help="show each fault that was missed")
    return parser.parse_args()


def prove(place, args, name, load, folder):
    """Returns the verdict of a row, or the reason for a missing verdict."""
    seconds = ns(args.duration) / 1e9
    if name in place.skipped:
        return f"skipped: {place.skipped[name]}"
    path, truth = (os.path.join(folder, f"{name}-{load}.{end}") for end in ("laggard", "jsonl"))
    if name == "undisturbed":
        if not args.again:
            place.record_calm(load, seconds, path)
        return judging.judge_calm(place.laggard, path)
    error = "" if args.again else place.make(name, load, seconds, path, truth)
    if error or not os.path.exists(truth):
        return f"skipped: {error or 'not recorded'}"
    hits = judging.read_truth(truth)
    return judging.judge(place.laggard, KINDS[name], path, hits) if hits else "skipped: no fault"


def prove_all(place, args, folder):
    """Returns all rows as text."""
    wanted = [
        (name, load)
        for name in args.kinds.split(",")
        for load in (args.loads.split(",") if name not in place.skipped else [""])
    ]
    rows, calm = [], []
    with concurrent.futures.ThreadPoolExecutor(place.jobs) as pool:
        verdicts = pool.map(lambda row: prove(place, args, *row, folder), wanted)
        for (name, load), verdict in zip(wanted, verdicts):
            if isinstance(verdict, judging.Calm):
                calm.append(page.calm_row(load, verdict))
                print(calm[-1], file=sys.stderr, flush=True)
                continue
            rows.append(page.row(name, load, verdict))
            print(rows[-1], file=sys.stderr, flush=True)
            if args.verbose and isinstance(verdict, judging.Verdict):
                for fault in verdict.missed[:8]:
                    print("   ", fault, file=sys.stderr)
    return page.both_tables(rows, calm)


def judge_one(laggard, name, recording, truth):
    verdict = judging.judge(laggard, KINDS[name], recording, judging.read_truth(truth))
    print(page.table(page.COLUMNS, [page.row(name, "-", verdict)]))
    for fault in verdict.missed:
        print(fault)


def main():
    args = arguments()
    laggard = os.path.abspath(args.laggard)
    if args.judge:
        return judge_one(laggard, *args.judge)
    if args.busy:
        take_priority()
    place = TestHost(laggard, os.path.abspath(args.testhost), args.host) if args.host else Machine(laggard)
    folder = args.keep or tempfile.mkdtemp(prefix="laggard-prove-")
    os.makedirs(folder, exist_ok=True)
    # Like Ctrl-C, so that every change is restored.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    try:
        with mappings(args.mappings) if args.mappings else contextlib.nullcontext():
            text = prove_all(place, args, folder)
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
    text = f"{place.describe(ns(args.duration) / 1e9)}\n{text}"
    print(text)
    if args.page:
        page.write_page(args.page, place.part, text)


if __name__ == "__main__":
    main()
