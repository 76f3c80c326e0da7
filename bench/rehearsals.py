#!/usr/bin/env python3
"""Compares predicted with counted misses: one recording per load, then rehearsals.

usage: rehearsals.py LAGGARD FOLDER [LOAD ...]

Each rehearsal runs one task on each of two CPUs, so that the tasks do not disturb each
other. The default loads are fileio and kernel, with 20 tasks in 11 minutes. The
recordings and results stay in FOLDER. Prints Markdown tables of all results there, as
in docs/validation/rehearsals.md.
"""
import glob
import json
import os
import platform
import subprocess
import sys
import time

LOADS = ["fileio", "kernel"]
RECORD = "80s"
REHEARSE = "40s"
PERIOD = "500us"
# Services that run the tasks: the first of a pair on CPU 0, the second on CPU 1.
FAST = ("fifo:80", "softirq")
ORDINARY = ("other", "worker")
# (period, compute, buffers or None, deadline or None) of both tasks, and their services.
STREAMS = [
    ("2ms", "400us", None, "2ms", FAST),
    ("4ms", "1ms", 2, None, FAST),
    ("6ms", "1.5ms", 3, None, FAST),
    ("10ms", "2ms", 4, None, FAST),
    ("20ms", "2ms", 2, None, ORDINARY),
]


def task_file(folder, index):
    period, compute, buffers, deadline, services = STREAMS[index]
    text = ""
    for cpu, service in enumerate(services):
        text += f'[[task]]\nname = "{service}"\nservice = "{service}"\ncpu = {cpu}\n'
        text += f'period = "{period}"\ncompute = "{compute}"\n'
        text += f"buffers = {buffers}\n" if buffers else f'deadline = "{deadline}"\n'
    path = os.path.join(folder, f"stream{index}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    return path


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def rehearse(laggard, folder, load):
    before = os.path.join(folder, f"{load}.laggard")
    run([laggard, "record", "-q", "-o", before, "--load", load, "--duration", RECORD,
         "--period", PERIOD, "--episodes", "off", "--services", ",".join(["fifo:80", "softirq", *ORDINARY])])
    for index in range(len(STREAMS)):
        out = os.path.join(folder, f"{load}-{index}.laggard")
        run([laggard, "rehearse", task_file(folder, index), "--load", load, "--from", before,
             "--duration", REHEARSE, "-o", out])


def results(folder):
    for path in sorted(glob.glob(os.path.join(folder, "*", "rehearsal.json"))):
        with open(path, encoding="utf-8") as file:
            report = json.load(file)
        for task in report["tasks"]:
            yield report["load"], task


def ms(ns):
    return f"{ns / 1e6:g}"


def range_of(predicted):
    return f"{predicted['mean']:.1f} [{predicted['low']:.0f}, {predicted['high']:.0f}]"


def factor(value):
    return "-" if value is None else f"{value:.2f}"


def worst(rows, predicted, key, least):
    """Returns the largest factor in either direction of tasks with at least `least` predicted."""
    known = [max(task[key], 1 / task[key]) for _, task in rows if task[key] and predicted(task) >= least]
    return f"{max(known):.2f} of {len(known)}" if known else "-"


def table(rows):
    print("| load | service | period, work, deadline (ms) | underruns predicted | counted | | factor |"
          " rule of the paper | factor | late jobs predicted | counted | |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    for load, task in rows:
        count = task["count"]
        times = ", ".join(ms(count[key]) for key in ("period_ns", "compute_ns", "deadline_ns"))
        print(f"| {load} | {count['service']} | {times} | {range_of(task['predicted_failures'])} |"
              f" {task['failures']:g} | {task['verdict']} | {factor(task['factor'])} |"
              f" {task['paper_failures']:.1f} | {factor(task['paper_factor'])} |"
              f" {range_of(task['predicted_late'])} | {count['late']} | {task['late_verdict']} |")
    inside = sum(task["verdict"] == "inside" for _, task in rows)
    late = sum(task["late_verdict"] == "inside" for _, task in rows)
    print(f"\n{len(rows)} tasks; inside the interval: underruns {inside}, late jobs {late}.")


def summary(rows):
    for least in (0, 5):
        ours = worst(rows, lambda task: task["predicted_failures"]["mean"], "factor", least)
        paper = worst(rows, lambda task: task["paper_failures"], "paper_factor", least)
        print(f"Worst factor of tasks with {least} or more predicted underruns: {ours}; by the rule of the paper: {paper}.")


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    laggard, folder, loads = sys.argv[1], sys.argv[2], sys.argv[3:] or LOADS
    os.makedirs(folder, exist_ok=True)
    start = time.monotonic()
    for load in loads:
        rehearse(laggard, folder, load)
    print(f"{time.strftime('%d %B %Y')}, {os.cpu_count()} CPUs, {platform.system()} {platform.release()}: for each"
          f" load one recording of {RECORD} (`--period {PERIOD}`), then rehearsals of {REHEARSE};"
          f" {(time.monotonic() - start) / 60:.0f} minutes, load average at the end {os.getloadavg()[2]:.1f}.\n")
    rows = list(results(folder))
    ordinary = [row for row in rows if row[1]["count"]["service"] in ORDINARY]
    fast = [row for row in rows if row not in ordinary]
    table(fast)
    summary(fast)
    if ordinary:
        print("\nA normal thread and a work item:\n")
        table(ordinary)


if __name__ == "__main__":
    main()
