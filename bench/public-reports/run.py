#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reproduces public reports of late programs, and writes docs/validation/public-reports.md.

Each program counts the cycles that it ended late. During the same run, laggard, cyclictest,
`perf sched` and bpftrace measure; rtla runs if the kernel has its tracer. A row compares the
answers with the program's count and with the cause that the program was built to have.

    sudo bench/public-reports/run.py --laggard target/release/laggard [--only NAME ...] [--output FILE]
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field

HERE = pathlib.Path(__file__).resolve().parent
DOCUMENT = HERE.parent.parent / "docs/validation/public-reports.md"
# Share of the program's misses that laggard has to report.
MIN_REPORTED = 0.9
# Causes of each thread that are searched for the true one.
MAX_CAUSES = 4


@dataclass
class Report:
    name: str
    source: str
    # Program: its file in programs/, and the thread with the cycles.
    program: str
    thread: str
    deadline: str
    cause: str
    # Words that laggard has to have among the causes in its JSON; each of them.
    expected: tuple
    # The same in the output of bpftrace: kernel functions of the longest wait.
    stack: str
    options: tuple = ()
    group: dict = field(default_factory=dict)
    nice: int = 0
    # Whether the misses are counted from a schedule that the program does not keep.
    period_ms: float | None = None
    # Period of the timer whose cycles the program counts, if its thread has several timers.
    timer_ms: float | None = None


REPORTS = [
    Report("inversion", "OpenEtherCATsociety/SOEM#193", "inversion.c", "control", "2ms",
           "lock of `logger`, which `vision` keeps off the CPU",
           ("lock", "logger", "vision"), "futex"),
    Report("interpreter-lock", "python/cpython#90204", "interpreter-lock.py", "main", "4ms",
           "lock of the Python interpreter", ("lock",), "futex", nice=-15),
    Report("executor", "ros2/ros2#1026", "executor.c", "executor", "10ms",
           "`sleep_for` in the callback of another timer", ("nanosleep",), "nanosleep", timer_ms=20),
    Report("asyncio", "home-assistant/core#94236", "asyncio-sleep.py", "main", "10ms",
           "`time.sleep` in a callback of the event loop", ("nanosleep",), "nanosleep", nice=-15, timer_ms=20),
    Report("log-pipe", "coreos/bugs#990", "log-pipe.c", "control", "5ms",
           "full pipe of the log", ("write", "pipe"), "pipe_write|pipe"),
    Report("fsync", "mavlink-router/mavlink-router#176", "fsync.c", "router", "2ms",
           "`fsync` in the main loop", ("fsync",), "fsync"),
    Report("disk-stream", "yvanvds/yse-soundengine#185", "disk-stream.c", "audio", "2ms",
           "read from the disk in the audio callback", ("pread64",), "filemap|read_pages|pread|folio"),
    Report("fork-copy", "redis/redis#1154", "fork-copy.c", "database", "2ms",
           "copies of pages after a `fork`", ("page_fault",), "fault|clone|copy_process"),
    Report("mmap-lock", "golang/go#33092", "mmap-lock.c", "allocator", "3ms",
           "`mmap_lock`, which `mapper` holds", ('"is_mmap": true', "mapper"), "rwsem|mmap"),
    Report("rwlock", "pocoproject/poco#1611", "rwlock.c", "writer", "2ms",
           "read-write lock, which readers hold", ("lock", "reader"), "futex"),
    Report("memory-limit", "FootprintAI/Containarium#1454", "memory-limit.c", "sentinel", "4ms",
           "reclaim at the memory limit of the control group", ("reclaim",),
           "try_to_free|reclaim", group={"memory": 48}),
    Report("cpu-quota", "kubernetes/kubernetes#67577", "cpu-quota.c", "service", "20ms",
           "CPU quota of the control group", ("throttled",), "never", group={"quota": 0.2}, nice=-15),
    Report("deadline-budget", "util-linux/util-linux#4347", "deadline-budget.c", "controller", "8ms",
           "budget of SCHED_DEADLINE", ("deadline_throttled",), "never"),
    Report("posix-timer", "eclipse-timpani/timpani#124", "posix-timer.c", "timpani", "5ms",
           "work of the thread, longer than its period", ("own_work|overrun",), "never"),
    Report("drift", "machines-in-motion/real_time_tools#14", "drift.c", "spinner", "2ms",
           "relative sleep after the work", ("relative",), "never", ("--period", "1ms"), period_ms=1.0),
    Report("go-ticker", "golang/go#18534", "go-ticker.go", "any", "5ms",
           "other goroutines and the garbage collector on the same processor",
           ("own_work|overrun",), "never", nice=-15),
    Report("housekeeper", "brettwooldridge/HikariCP#668", "Housekeeper.java", "housekeeper", "10ms",
           "long task on the same executor", ("own_work|overrun",), "never", nice=-15,
           timer_ms=20),
    Report("save-database", "eclipse-mosquitto/mosquitto#840", "save-database.c", "broker", "10ms",
           "`write` and `fsync` of the database in the main loop", ("fsync|write",), "fsync|write"),
    Report("locked-log", "apache/logging-log4cxx#190", "locked-log.c", "control", "2ms",
           "lock of `logger`, which writes to the disk", ("lock", "logger"), "futex"),
    Report("slow-reader", "nats-io/nats-server#2679", "slow-reader.c", "publisher", "10ms",
           "full socket buffer of a slow subscriber", ("sendto", "subscriber"), "sock_alloc_send|unix_stream|sk_stream"),
    Report("trim", "amule-org/amule#1156", "trim.c", "core", "10ms",
           "`malloc_trim`, then page faults", ("page_fault",), "fault|madvise"),
    Report("timer-slack", "openjdk/jdk#13889", "timer-slack.c", "tick", "40us",
           "timer slack of 50 us", ("timer_slack",), "never"),
    Report("reactor", "Klipper3d/klipper#1659", "reactor.py", "main", "25ms",
           "preempted by `camera`, a SCHED_FIFO program", ("camera",), "never"),
    Report("exec-sync", "nodejs/node-v0.x-archive#15447", "exec-sync.js", "main", "10ms",
           "`execSync` waits for a child process", ('"sh"|"sleep"|child',), "epoll|wait", nice=-15, timer_ms=20),
    Report("gc-pause", "criteo/garmadon#28", "GcPause.java", "ticker", "10ms",
           "garbage collection stops the thread", ("VM Thread",), "futex", nice=-15),
    Report("back-pressure", "hiero-ledger/hiero-consensus-node#13502", "BackPressure.java", "timer", "10ms",
           "another task of the same Timer waits for a full queue", ("futex|lock",), "futex", nice=-15, timer_ms=20),
    Report("sigev-threads", "eclipse-iceoryx/iceoryx#161", "sigev-threads.c", "roudi", "10ms",
           "long function of a POSIX timer, whose next calls wait for its mutex", ("own_work", "lock"), "futex"),
    Report("frame-spin", "OpenRCT2/OpenRCT2#4647", "frame-spin.c", "game", "16667us",
           "long frames of a loop that sleeps and spins", ("own_work|overrun",), "never"),
    Report("fair-server", "ros-realtime/ros-realtime-rpi4-image#28", "fair-server.c", "control", "2ms",
           "RT throttling (the fair server)", ("fair_server|throttled",), "never"),
    Report("pool", "FgForrest/evitaDB#1534", "pool.cpp", "any", "10ms",
           "long jobs occupy the pool of the timers", ("own_work|equal",), "never"),
    Report("rate", "robotpy/mostrobotpy#111", "rate.py", "main", "20ms",
           "`time.sleep` in the body of a loop that `time.sleep` paces", ('"kind": "sleep"',), "nanosleep", nice=-15),
    Report("speed-limiter", "mupen64plus/mupen64plus-core#250", "speed-limiter.c", "emulator", "16667us",
           "long frames of a loop that catches up", ("own_work|overrun",), "never"),
    Report("go-quota", "golang/go#33803", "go-quota.go", "any", "20ms",
           "CPU quota of the control group", ("throttled",), "never", group={"quota": 0.3}, nice=-15),
]

BPFTRACE = """
tracepoint:sched:sched_switch /args->prev_comm == "%s"/ {
    @since[args->prev_pid] = nsecs; @stack[args->prev_pid] = kstack(16); }
tracepoint:sched:sched_switch /@since[args->next_pid]/ {
    $time = (nsecs - @since[args->next_pid]) / 1000;
    @longest = max($time); @off[@stack[args->next_pid]] = sum($time); delete(@since[args->next_pid]); }
END { print(@longest); print(@off, 3); clear(@off); clear(@stack); clear(@since); clear(@longest); }
"""


def build(report, directory):
    """Returns the command that runs the program."""
    source = HERE / "programs" / report.program
    match source.suffix:
        case ".c":
            target = directory / report.name
            subprocess.run(["cc", "-O1", "-o", target, source, "-lpthread"], check=True)
            return [str(target)]
        case ".cpp":
            target = directory / report.name
            subprocess.run(["c++", "-O1", "-std=c++17", "-o", target, source, "-lpthread"], check=True)
            return [str(target)]
        case ".js":
            return [shutil.which("node"), str(source)]
        case ".go":
            target = directory / report.name
            environment = {**os.environ, "GO111MODULE": "off"}
            subprocess.run(["go", "build", "-o", target, source], check=True, env=environment)
            return [str(target)]
        case ".java":
            subprocess.run(["javac", "-d", directory, source], check=True)
            return [shutil.which("java"), "-XX:+UseSerialGC", "-cp", str(directory), source.stem]
        case _:
            return [os.path.realpath(sys.executable), str(source)]


class Group:
    """Control group with a limit, of version 1 or 2."""

    def __init__(self, report):
        self.directories = []
        for what, value in report.group.items():
            self.limit(what, value, f"laggard-report-{report.name}")

    def limit(self, what, value, name):
        controller = {"memory": "memory", "quota": "cpu"}[what]
        root = pathlib.Path("/sys/fs/cgroup")
        is_v2 = (root / "cgroup.controllers").exists()
        directory = root / ("" if is_v2 else controller) / name
        if is_v2:
            (root / "cgroup.subtree_control").write_text(f"+{controller}")
        directory.mkdir(exist_ok=True)
        self.directories.append(directory)
        match what, is_v2:
            case "memory", True:
                (directory / "memory.max").write_text(str(value << 20))
            case "memory", False:
                (directory / "memory.limit_in_bytes").write_text(str(value << 20))
            case _, True:
                (directory / "cpu.weight").write_text("10000")
                (directory / "cpu.max").write_text(f"{int(value * 100_000)} 100000")
            case _, False:
                (directory / "cpu.shares").write_text("262144")
                (directory / "cpu.cfs_period_us").write_text("100000")
                (directory / "cpu.cfs_quota_us").write_text(str(int(value * 100_000)))

    def enter(self):
        """Returns the start of a command that runs another one in the group."""
        files = " ".join(f"{directory}/cgroup.procs" for directory in self.directories)
        return ["sh", "-c", f'for f in {files}; do echo $$ > $f; done; exec "$@"', "sh"] if files else []

    def close(self):
        for directory in self.directories:
            directory.rmdir()


def started(command, log):
    return subprocess.Popen(command, stdout=open(log, "w"), stderr=subprocess.STDOUT)


def stopped(process, number=signal.SIGINT):
    process.send_signal(number)
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for_start(directory, others):
    """Waits until the tools measure: bpftrace compiles its programs first."""
    for _ in range(120):
        if "bpftrace" not in others or "Attaching" in (directory / "bpftrace").read_text():
            break
        time.sleep(0.5)
    time.sleep(2)


def reproduce(report, laggard, directory):
    """Runs the program once under all tools, and returns the row's answers."""
    command = build(report, directory)
    comm = {"main": pathlib.Path(command[0]).name[:15], "any": report.name}.get(report.thread, report.thread)
    group = Group(report)
    others = {}
    if shutil.which("bpftrace"):
        others["bpftrace"] = started(["bpftrace", "-e", BPFTRACE % comm], directory / "bpftrace")
    if shutil.which("perf"):
        others["perf"] = started(["perf", "sched", "record", "-o", directory / "perf.data"], directory / "perf")
    if shutil.which("cyclictest"):
        others["cyclictest"] = started(
            ["cyclictest", "-m", "-q", "-t1", "-p80", "-i1000"], directory / "cyclictest")
    wait_for_start(directory, others)
    words = [laggard, "attach", "--json", "-d", "30s", "--deadline", report.deadline, *report.options]
    if report.nice:
        command = ["nice", "-n", str(report.nice), *command]
    run = subprocess.run([*words, "--", *group.enter(), *command], capture_output=True, text=True, timeout=120,
                         cwd=directory)
    for process in others.values():
        stopped(process)
    group.close()
    truth = re.search(r"TRUTH late=(\d+) of (\d+) worst_ms=([\d.]+)", run.stderr)
    if not truth:
        raise SystemExit(f"{report.name}: the program printed no count\n{run.stderr}")
    misses, cycles, worst = int(truth[1]), int(truth[2]), float(truth[3])
    answers = {"laggard": answer(report, json.loads(run.stdout), misses, cycles, worst)}
    answers |= other_answers(report, comm, directory, others)
    return misses, cycles, worst, answers


def answer(report, document, misses, cycles, worst):
    """Text of laggard's answer, and whether count, cause and worst cycle are right."""
    rows = document["rows"]
    if report.thread == "main":
        rows = [row for row in rows if row["tid"] == row["process"]]
    elif report.thread != "any":
        rows = [row for row in rows if row["name"] == report.thread]
    counted = sum((row.get("deadline") or {}).get("misses", 0) for row in rows)
    slowest = max((row.get("response") or {}).get("largest_ns", 0) for row in rows) / 1e6 if rows else 0
    if report.timer_ms is not None:
        timers = [timer for row in rows for timer in row.get("timers", [])
                  if abs(timer.get("period_ns", 0) / 1e6 - report.timer_ms) < 0.02 * report.timer_ms]
        counted = sum(timer["misses"] for timer in timers)
        slowest = max((timer["largest_ns"] for timer in timers), default=0) / 1e6
    text = " ".join(causes(row) for row in rows)
    is_named = all(re.search(word, text) for word in report.expected)
    if report.period_ms is not None:
        periods = [row["period_ns"] / 1e6 for row in rows if row.get("period_ns")]
        is_counted = any(period > 1.02 * report.period_ms for period in periods)
        is_worst = True
        figure = f"period {periods[0]:.2f} ms" if periods else "no period"
    elif not any(row.get("deadline") for row in rows):
        is_counted, is_worst, figure = False, False, "no count"
    else:
        is_counted = counted >= MIN_REPORTED * misses and counted <= 1.1 * misses + 2
        is_worst = abs(slowest - worst) <= 0.1 * worst + 0.5
        figure = f"{counted} of {cycles} missed, worst {slowest:.1f} ms"
    return {"figure": figure, "count": is_counted, "worst": is_worst, "cause": is_named, "text": text}


def causes(row):
    """The largest causes of a thread's misses, and whether it sleeps for a time, as JSON."""
    taken = (row.get("deadline") or {}).get("taken", [])[:MAX_CAUSES]
    return json.dumps([taken, {"relative": True} if row["sleeps_relative"] else {}])


def other_answers(report, comm, directory, others):
    """Answers of the other tools: a figure, and whether the text names the cause."""
    answers = {}
    if "cyclictest" in others:
        log = (directory / "cyclictest").read_text()
        largest = re.findall(r"Max:\s*(\d+)", log)
        answers["cyclictest"] = {"figure": f"max {int(largest[-1]) / 1000:.1f} ms" if largest else "failed",
                                 "cause": False}
    if "perf" in others:
        latency = subprocess.run(["perf", "sched", "latency", "-p", "-i", directory / "perf.data"],
                                 capture_output=True, text=True, errors="replace").stdout
        delays = [float(line.split("max:")[1].split("ms")[0]) for line in latency.splitlines()
                  if line.strip().startswith(f"{comm}:") and "max:" in line]
        figure = f"max delay {max(delays):.1f} ms" if delays else "failed"
        answers["perf sched"] = {"figure": figure, "cause": False}
    if "bpftrace" in others:
        log = (directory / "bpftrace").read_text()
        largest = re.search(r"@longest: (\d+)", log)
        figure = f"off CPU {int(largest[1]) / 1000:.1f} ms" if largest else "failed"
        answers["bpftrace"] = {"figure": figure, "cause": bool(largest and re.search(report.stack, log))}
    return answers


def rtla():
    """Whether rtla runs here, or the reason why it does not."""
    if not shutil.which("rtla"):
        return "not installed"
    run = subprocess.run(["rtla", "timerlat", "hist", "-d", "1s"], capture_output=True, text=True, timeout=30)
    return None if run.returncode == 0 else (run.stdout + run.stderr).strip().splitlines()[0]


def link(source):
    repository, number = source.split("#")
    kind = "issues"
    return f"[{repository}#{number}](https://github.com/{repository}/{kind}/{number})"


def mark(is_right):
    return "yes" if is_right else "**no**"


def page(results, rtla_error):
    right = [result for result in results if all(result[4]["laggard"][key] for key in ("count", "worst", "cause"))]
    tools = ("cyclictest", "perf sched", "bpftrace")
    named = {tool: sum(result[4].get(tool, {}).get("cause", False) for result in results) for tool in tools}
    system = os.uname()
    lines = [
        "# Public reports, reproduced",
        "",
        "Each row is a public report of a late program. A small program in `bench/public-reports/programs` has the",
        "reported cause, and counts the cycles that it ended after its deadline. `make public-reports` runs all of them",
        "and rewrites this page. laggard, cyclictest, `perf sched` and bpftrace measure during the same run.",
        "",
        f"**laggard: {len(right)} of {len(results)} rows right** (count, worst cycle and cause). The stacks of"
        f" bpftrace contain",
        f"the cause in {named['bpftrace']} of {len(results)} rows. cyclictest and `perf sched latency` name no cause.",
        "",
        f"Linux {system.release}, {os.cpu_count()} CPUs, load average {os.getloadavg()[0]:.1f} at the end.",
        f"rtla: {rtla_error.rstrip('!') if rtla_error else 'ran, but measures its own thread only'}.",
        "Programs at SCHED_OTHER (Python, node, Go, Java) also lost CPU time to other programs.",
        "",
        "- Count: laggard reports 90 to 110 % of the program's misses. Worst: within 10 % (or 0.5 ms).",
        "- Cause: the largest causes of the thread have the words of the second table.",
        "- cyclictest measures its own thread, `perf sched latency` the time from wakeup to run. bpftrace prints",
        "  the longest time off the CPU, and the three kernel stacks with the most of it.",
        "",
        "| report | missed (program) | worst | laggard | count | worst | cause | cyclictest | perf sched | bpftrace |",
        "|---|--:|--:|---|---|---|---|---|---|---|",
    ]
    for report, misses, cycles, worst, answers in results:
        ours = answers["laggard"]
        others = [answers.get(tool, {"figure": "not installed", "cause": False}) for tool in tools]
        cells = [other["figure"] + (", cause" if other["cause"] else "") for other in others]
        lines.append(
            f"| {link(report.source)} | {misses} of {cycles} | {worst:.1f} ms | {ours['figure']} |"
            f" {mark(ours['count'])} | {mark(ours['worst'])} | {mark(ours['cause'])} | {' | '.join(cells)} |")
    lines += ["", "| report | program | true cause | expected in laggard's answer |", "|---|---|---|---|"]
    for report, *_ in results:
        expected = ", ".join(word.replace("|", " or ") for word in report.expected)
        lines.append(f"| {link(report.source)} | `{report.program}` | {report.cause} | {expected} |")
    return "\n".join(lines) + "\n"


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--laggard", default="target/release/laggard")
    arguments.add_argument("--only", nargs="*", help="names of reports")
    arguments.add_argument("--output", type=pathlib.Path, default=DOCUMENT)
    arguments = arguments.parse_args()
    laggard = str(pathlib.Path(arguments.laggard).resolve())
    results = []
    for report in REPORTS:
        if arguments.only and report.name not in arguments.only:
            continue
        with tempfile.TemporaryDirectory() as directory:
            misses, cycles, worst, answers = reproduce(report, laggard, pathlib.Path(directory))
        ours = answers["laggard"]
        print(f"{report.name}: {misses} of {cycles}, worst {worst:.1f} ms; laggard: {ours['figure']};"
              f" count {ours['count']}, worst {ours['worst']}, cause {ours['cause']}", flush=True)
        if not all(ours[key] for key in ("count", "worst", "cause")):
            print("    " + ours["text"][:900])
        results.append((report, misses, cycles, worst, answers))
    text = page(results, rtla())
    if arguments.only:
        print(text)
    else:
        arguments.output.write_text(text)


main()
