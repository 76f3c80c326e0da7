#!/usr/bin/env python3
"""Figures of laggard against cyclictest, in one run, as ratios.

usage: bench.py LAGGARD [agreement] [cost] [observer] [attached] [rate] [flight] [memory] [size] [reading]
       [answers] [scale] [top] [guest]

Every figure is measured on this machine, now; nothing is passed or failed. `guest` runs only if it is named.
"""
import contextlib
import fcntl
import json
import os
import pty
import re
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time

SECONDS = 10
PAIRS = 10
LAGGARD = "laggard"


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def cpu_seconds(command):
    """A command's output, and its CPU time, children included."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = run(command)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return done, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def cyclictest(seconds, *more, under=()):
    """Histogram of all threads: {us: count}, and CPU seconds; run by the command `under`, if any."""
    command = [*under, "cyclictest", "-m", "-p", "90", "-i", "1000", "-t", "-a", "-q"]
    done, cpu = cpu_seconds([*command, "-h", "100000", "-D", str(seconds), *more])
    histogram = {}
    for line in done.stdout.splitlines():
        if match := re.match(r"(\d{6})\s+([\d\s]+)$", line):
            histogram[int(match[1])] = sum(map(int, match[2].split()))
    return histogram, cpu


def record(folder, *more, seconds=SECONDS, episodes="off"):
    """Records into a fresh folder; the recording's path and CPU seconds."""
    path = os.path.join(folder, "bench.laggard")
    shutil.rmtree(path, ignore_errors=True)
    command = [LAGGARD, "record", "-q", "-o", path, "--duration", f"{seconds}s"]
    command += ["--episodes", episodes, *more]
    _, cpu = cpu_seconds(command)
    return path, cpu


def show(path):
    return json.loads(run([LAGGARD, "show", "--json", path]).stdout)["recordings"][0]


def manifest(path):
    with open(os.path.join(path, "manifest.json"), encoding="utf-8") as file:
        return json.load(file)


def quantile(edges_and_counts, q):
    """Quantile of [(low, high, count)], linear within a bucket."""
    total = sum(count for _, _, count in edges_and_counts)
    rank = q * total
    for low, high, count in edges_and_counts:
        if rank <= count:
            return low + (high - low) * rank / count
        rank -= count
    return edges_and_counts[-1][1]


def of_cyclictest(histogram):
    """cyclictest cuts to whole microseconds."""
    return [(us, us + 1, count) for us, count in sorted(histogram.items()) if count]


def of_laggard(report, service):
    """Buckets of the direct route, us."""
    for view in report["histograms"]:
        if view["service"] == service and view["route"] == "direct":
            return [
                (2 ** ((bucket - 1) / 64) / 1e3, 2 ** (bucket / 64) / 1e3, count)
                for bucket, count in view["buckets"]
            ]
    sys.exit(f"no service {service} in the recording")


def median(values):
    values = sorted(values)
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2


def spread(values):
    return f"median {median(values):.3f} (min {min(values):.3f}, max {max(values):.3f}, n {len(values)})"


def agreement(folder):
    """fifo:90 against cyclictest, alternating; cyclictest holds CPUs awake."""
    medians, tails = [], []
    for _ in range(PAIRS):
        histogram, _ = cyclictest(SECONDS)
        theirs = of_cyclictest(histogram)
        path, _ = record(folder, "--services", "fifo:90", "--hold-cpu-awake")
        ours = of_laggard(show(path), "fifo:90")
        medians.append(quantile(ours, 0.5) / quantile(theirs, 0.5))
        tails.append(quantile(ours, 0.99) / quantile(theirs, 0.99))
        print(
            f"  laggard {quantile(ours, .5):.2f} us, p99 {quantile(ours, .99):.1f};"
            f" cyclictest {quantile(theirs, .5):.2f} us, p99 {quantile(theirs, .99):.1f}"
        )
    print(f"agreement: fifo:90 / cyclictest, median: {spread(medians)}")
    print(f"agreement: fifo:90 / cyclictest, p99: {spread(tails)}")


def cost(folder):
    """CPU time, BPF included, against cyclictest's at the same rate: all of it, and without start-up."""

    def ours(seconds):
        path, threads = record(
            folder, "--services", "irq,fifo:90", "--no-dither", "--hold-cpu-awake", seconds=seconds
        )
        return threads + sum(one["run_ns"] for one in manifest(path)["cost"]["programs"]) / 1e9

    whole, running = [], []
    for _ in range(PAIRS // 3):
        short = ours(SECONDS), cyclictest(SECONDS)[1]
        long = ours(3 * SECONDS), cyclictest(3 * SECONDS)[1]
        whole.append(short[0] / short[1])
        running.append((long[0] - short[0]) / (long[1] - short[1]))
        print(f"  {SECONDS} s: laggard {short[0]:.3f} s, cyclictest {short[1]:.3f} s of CPU")
        print(f"  {3 * SECONDS} s: laggard {long[0]:.3f} s, cyclictest {long[1]:.3f} s of CPU")
    print(f"cost: (laggard + BPF) / cyclictest, one thread per CPU, all its stages: {spread(whole)}")
    print(f"cost: the same without start-up: {spread(running)}")
    path, _ = record(folder, episodes="on")
    for one in manifest(path)["cost"]["programs"]:
        if one["runs"]:
            print(f"  {one['name']}: {one['run_ns'] / one['runs']:.0f} ns a run, {one['runs']} runs")


@contextlib.contextmanager
def awake():
    """No CPU sleeps meanwhile: one loop each that any other thread may interrupt. Waking a
    CPU costs more than what is compared, and who measures keeps it from sleeping."""
    loops = [
        subprocess.Popen(["chrt", "--idle", "0", "taskset", "-c", str(cpu), "sh", "-c", "while :; do :; done"])
        for cpu in os.sched_getaffinity(0)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def observer(folder):
    """An independent cyclictest with and without laggard recording all services, no CPU asleep."""
    path = os.path.join(folder, "observer.laggard")
    for episodes in ("off", "on"):
        ratios = {0.5: [], 0.9: []}
        for _ in range(PAIRS // 2):
            with awake():
                alone, _ = cyclictest(SECONDS, "-p", "80")
                shutil.rmtree(path, ignore_errors=True)
                command = [LAGGARD, "record", "-q", "-o", path, "--episodes", episodes]
                recording = subprocess.Popen([*command, "--duration", f"{SECONDS + 4}s"])
                time.sleep(2)
                watched, _ = cyclictest(SECONDS, "-p", "80")
                recording.wait()
            watched, alone = of_cyclictest(watched), of_cyclictest(alone)
            for q, pairs in ratios.items():
                pairs.append(quantile(watched, q) / quantile(alone, q))
        for q, pairs in ratios.items():
            print(f"observer: p{100 * q:.0f}, watched / alone, episodes {episodes}: {spread(pairs)}")


def attached(_folder):
    """What cyclictest says of itself, attached against alone, in turns, no CPU asleep."""
    ratios = {(episodes, q): [] for episodes in ("off", "on") for q in (0.5, 0.9)}
    for _ in range(PAIRS):
        with awake():
            alone = of_cyclictest(cyclictest(SECONDS, "-p", "80")[0])
            for episodes in ("off", "on"):
                attach = [LAGGARD, "attach", "--episodes", episodes, "--"]
                watched = of_cyclictest(cyclictest(SECONDS, "-p", "80", under=attach)[0])
                for q in (0.5, 0.9):
                    ratios[episodes, q].append(quantile(watched, q) / quantile(alone, q))
    for (episodes, q), pairs in ratios.items():
        print(f"attached: p{100 * q:.0f}, attached / alone, episodes {episodes}: {spread(pairs)}")


def rate(folder):
    """10 kHz per CPU for 60 s; then the shortest period without loss."""
    path, _ = record(folder, "--services", "irq,fifo:90", "--period", "100us", seconds=60)
    report = show(path)
    rows = {row["service"]: row for row in report["services"]}
    fifo = rows["fifo:90"]
    lost = {name: count for name, count in report["losses"].items() if count}
    print(
        f"rate: 100us for 60 s: {fifo['latency']['samples']} samples, {fifo['missed']} missed,"
        f" ring full {report['losses']['ring_full']}, all losses {lost or 'none'}"
    )
    for period in (80, 60, 50, 40, 30, 20, 10):
        path, _ = record(folder, "--services", "irq,fifo:90", "--period", f"{period}us")
        losses = manifest(path)["losses"]
        row = next(row for row in show(path)["services"] if row["service"] == "fifo:90")
        print(
            f"rate: {period}us: {row['latency']['samples']} samples, {row['missed']} missed,"
            f" ring full {losses['ring_full']}, not written {losses['not_written']}"
        )


def own_cost(path):
    """CPU share of a recording: programs of the flight recorder, all of laggard."""
    whole = manifest(path)["cost"]
    programs = whole["programs"]
    flight = sum(one["run_ns"] for one in programs if one["name"].startswith("flight "))
    threads = whole["measuring_cpu_ns"] + whole["other_cpu_ns"]
    everything = threads + sum(one["run_ns"] for one in programs)
    return [100 * time / whole["wall_ns"] for time in (flight, everything)]


def hackbench():
    """Wall seconds of a fixed amount of messages between threads."""
    command = ["hackbench", "-T", "-g", "4", "-l", "3000"]
    return float(re.search(r"Time: ([\d.]+)", run(command).stdout)[1])


def flight(folder):
    """What the flight recorder adds: CPU under fileio at 1 kHz, and slowdown of hackbench."""
    added, programs = [], []
    for _ in range(PAIRS // 3):
        shares = {}
        for episodes in ("off", "on"):
            path, _ = record(folder, "--load", "fileio", episodes=episodes)
            shares[episodes] = own_cost(path)
        programs.append(shares["on"][0])
        added.append(shares["on"][1] - shares["off"][1])
    print(f"flight: its programs under fileio, % of one CPU: {spread(programs)}")
    print(f"flight: all that it adds under fileio, % of one CPU: {spread(added)}")
    path = os.path.join(folder, "flight.laggard")
    slower = []
    for _ in range(PAIRS // 2):
        times = {}
        for episodes in ("off", "on"):
            shutil.rmtree(path, ignore_errors=True)
            command = [LAGGARD, "record", "-q", "-o", path, "--episodes", episodes]
            recording = subprocess.Popen([*command, "--duration", "60s"])
            time.sleep(2)
            times[episodes] = hackbench()
            recording.send_signal(signal.SIGINT)
            recording.wait()
        slower.append(times["on"] / times["off"])
    print(f"flight: time of hackbench, with / without the flight recorder: {spread(slower)}")
    for wanted in (10, 100, 1000):
        more = ["--threshold", "1us", "--max-episodes-per-minute", str(60 * wanted)]
        path, _ = record(folder, "--load", "fileio", *more, episodes="on")
        with open(os.path.join(path, "episodes.json"), encoding="utf-8") as file:
            notes = json.load(file)
        whole = manifest(path)
        print(
            f"flight: at most {wanted} episodes a second: {notes['kept'] / SECONDS:.0f} kept,"
            f" {100 * notes['overwritten'] / max(1, notes['kept']):.0f} % of them with gaps,"
            f" {100 * whole['cost']['other_cpu_ns'] / whole['cost']['wall_ns']:.1f} % of a CPU"
            f" for collecting and writing, ring full {whole['losses']['ring_full']}"
        )


def resident(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmRSS")) / 1024


def memory(folder):
    """Resident size by the minute for ten minutes."""
    path = os.path.join(folder, "memory.laggard")
    recording = subprocess.Popen([LAGGARD, "record", "-q", "-o", path, "--duration", "605s"])
    sizes = []
    for _ in range(10):
        time.sleep(60)
        sizes.append(resident(recording.pid))
    recording.wait()
    print("memory: MB resident by the minute: " + " ".join(f"{size:.1f}" for size in sizes))


def size(folder):
    """Bytes per activation in closed segments."""
    for load in ("idle", "fileio"):
        path, _ = record(folder, "--load", load, seconds=30)
        segments = manifest(path)["segments"]
        rows = sum(one["rows"] for one in segments)
        written = sum(one["bytes"] for one in segments)
        print(f"size: {load}: {written / rows:.2f} bytes per activation ({rows} activations)")


STAGES = "irq irq_elsewhere irq_thread expire raise softirq signal waking running user worker kthread"
# Exact quantiles, which DuckDB finds by keeping every value.
DUCKDB_EXACT = """
def figures(of):
    return (f"count({of}), min({of}), avg({of}), max({of}), "
            f"quantile_disc({of}, [0.5, 0.99, 0.999, 0.9999])")
"""
# Counts by the buckets of docs/reference/recording-format.md, as laggard has them.
DUCKDB_BUCKETS = """
def figures(of):
    return (f"count({of}), min({of}), avg({of}), max({of}), "
            f"histogram(ceil(64 * log2(greatest({of}, 1)))::SMALLINT)")
"""
DUCKDB = """
import json, sys, duckdb
stages = sys.argv[2].split()
latency = " + ".join(f"coalesce({stage}_ns, 0)" for stage in stages)
columns = ", ".join(figures(f"{stage}_ns") for stage in stages)
duckdb.sql("SET threads = 2; SET enable_progress_bar = false")
rows = duckdb.sql(f"SELECT service, route, {figures(latency)}, {columns} "
                  f"FROM '{sys.argv[1]}/samples/*.parquet' GROUP BY ALL").fetchall()
print(json.dumps([row[:7] for row in rows]))
"""
ROWS = 100_000_000


def big_recording(folder):
    """A recording of 100 million samples; made when it is not there."""
    big = os.environ.get("LAGGARD_BENCH_FOLDER") or os.path.join(folder, "big")
    path = os.path.join(big, "all")
    if not os.path.isdir(path):
        command = ["cargo", "bench", "-q", "-p", "laggard-record", "--bench", "throughput"]
        run([*command, "--", str(ROWS), big], cwd=os.path.dirname(os.path.dirname(LAGGARD)) or ".")
    return path


def instructions(command):
    """Instructions that a command executes, on one thread, by valgrind."""
    with tempfile.TemporaryDirectory() as folder:
        valgrind = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out"]
        done = run([*valgrind, *command], env={**os.environ, "LAGGARD_THREADS": "1"})
    return int(re.search(r"Collected : (\d+)", done.stderr)[1])


# Episodes, events in each, CPUs: longer episodes, then more of them, then more CPUs.
CROWDS = {
    "events in an episode": [(100, 1_000, 1), (10, 10_000, 1), (1, 100_000, 1)],
    "episodes": [(100, 20, 1), (1_000, 20, 1), (10_000, 20, 1)],
    "CPUs": [(5_000, 20, 1), (5_000, 20, 16), (5_000, 20, 256)],
}


def crowded(folder, episodes, events, cpus):
    """A recording with so many late wakeups, each with so many events; made once."""
    path = os.path.join(folder, f"crowded-{episodes}-{events}-{cpus}.laggard")
    if not os.path.isdir(path):
        command = ["cargo", "run", "-q", "--release", "-p", "laggard-made", "--example", "crowded", "--"]
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        run([*command, path, str(episodes), str(events), str(cpus)], cwd=root)
    return path


def growth(folder):
    """Instructions per event of answers with causes: flat, however long episodes are, and how many."""
    drawn = os.path.join(folder, "growth.svg")
    commands = {
        "show": lambda path: ["show", path],
        "why --json": lambda path: ["why", "--json", path],
        "forecast": lambda path: ["forecast", path],
        "why --perfetto": lambda path: ["why", "--perfetto", drawn, path],
        "report": lambda path: ["report", "-o", drawn, path],
        "report --figure": lambda path: ["report", "-o", drawn, path, "--figure", "distribution"],
    }
    for name, command in commands.items():
        without = {}
        for what, crowds in CROWDS.items():
            each = []
            for episodes, events, cpus in crowds:
                # To start, and to read samples, takes no more for more events.
                if cpus not in without:
                    without[cpus] = instructions([LAGGARD, *command(crowded(folder, 1, 5, cpus))])
                whole = instructions([LAGGARD, *command(crowded(folder, episodes, events, cpus))])
                each.append((whole - without[cpus]) / (episodes * events))
            sizes = ", ".join("x".join(map(str, crowd)) for crowd in crowds)
            # What reads no episode takes next to nothing for each event.
            ratio = f"; last / first {each[-1] / each[0]:.2f}" if each[0] >= 10 else ""
            print(
                f"answers: {name}: instructions per event by {what} (episodes x events x CPUs: {sizes}):"
                f" {', '.join(f'{one:.0f}' for one in each)}{ratio}"
            )


def answers(folder):
    """Instructions per event; forecast and qos of 100 million samples, and of ten seconds: time and memory."""
    growth(folder)
    small, _ = record(folder)
    for path, name in ((small, "10 s"), (big_recording(folder), f"{ROWS} samples")):
        for command in (["forecast"], ["qos", "--app", "jack-256"]):
            runs = [measured([LAGGARD, *command, "--json", path]) for _ in range(3)]
            print(
                f"answers: {command[0]} of {name}: seconds {spread([run[0] for run in runs])};"
                f" peak MB {spread([run[1] for run in runs])}"
            )


def agree(report, exact):
    """Whether show says of every group what DuckDB does: counts, means and largest alike,
    quantiles at the upper edge of their bucket, at most 1.09 % above."""
    # The service irq has no rows of its own: it is read from those of the others.
    services = (row for row in report["services"] if row["service"] != "irq")
    rows = {(row["service"], row["route"]): row["latency"] for row in services}
    worst = 1.0
    for service, route, count, _, mean, largest, quantiles in exact:
        ours = rows.pop((service, route))
        if ours["samples"] != count or ours["largest_ns"] != largest or abs(ours["mean_ns"] - mean) > 1:
            sys.exit(f"reading: {service} {route}: show says {ours}, DuckDB {count}, {mean}, {largest}")
        said = {share["q"]: share["ns"] for share in ours["quantiles"]}
        for q, true in zip((0.5, 0.99, 0.999, 0.9999), quantiles):
            worst = max(worst, said[q] / true)
            if not true <= said[q] <= min(largest, true * 2 ** (1 / 64) + 1):
                sys.exit(f"reading: {service} {route}: the quantile {q} is {true} ns, show says {said[q]}")
    if rows:
        sys.exit(f"reading: DuckDB found nothing of {list(rows)}")
    return worst


def reading(folder):
    """show of 100 million samples against DuckDB, by service and by stage: exact quantiles, and bucket counts."""
    try:
        import duckdb  # noqa: F401  (only whether it is there)
    except ImportError:
        print("reading: skipped: no DuckDB; pip install duckdb")
        return
    path = big_recording(folder)
    exact = run([sys.executable, "-c", DUCKDB_EXACT + DUCKDB, path, STAGES]).stdout
    worst = agree(show(path), json.loads(exact))
    print(f"reading: the same figures; a quantile of show is at most {worst:.4f} of the exact one")
    for name, figures in (("exact quantiles", DUCKDB_EXACT), ("bucket counts", DUCKDB_BUCKETS)):
        ratios, sizes = [], []
        for _ in range(3):
            ours, ours_mb = measured([LAGGARD, "show", "--json", path])
            theirs, theirs_mb = measured([sys.executable, "-c", figures + DUCKDB, path, STAGES])
            ratios.append(ours / theirs)
            sizes.append(ours_mb / theirs_mb)
            print(f"  laggard {ours:.1f} s, {ours_mb:.0f} MB; DuckDB, {name}, {theirs:.1f} s, {theirs_mb:.0f} MB")
        print(f"reading: wall time, laggard / DuckDB with {name}: {spread(ratios)}")
        print(f"reading: peak memory, laggard / DuckDB with {name}: {spread(sizes)}")


def on_a_terminal(command):
    """Runs a command on a terminal of 120 x 40; CPU seconds."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color"}
    child = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment)
    os.close(theirs)
    drawn = []

    def read():
        try:
            while some := os.read(ours, 65536):
                drawn.append(len(some))
        except OSError:  # the terminal closes with its last user
            pass

    reader = threading.Thread(target=read)
    reader.start()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    reader.join()
    os.close(ours)
    if child.returncode not in (0, 1, 3) or sum(drawn) < 10_000:
        sys.exit(f"{' '.join(command)} ended with {child.returncode} and drew {sum(drawn)} bytes")
    return usage.ru_utime + usage.ru_stime


def top(folder):
    """CPU time of the live view against record's, same lines, 20 s each, alternating."""
    path = os.path.join(folder, "top.laggard")
    plain, keeping = [], []
    for _ in range(3):
        _, recording = record(folder, seconds=20, episodes="auto")
        watching = on_a_terminal([LAGGARD, "top", "--duration", "20s"])
        shutil.rmtree(path, ignore_errors=True)
        both = on_a_terminal([LAGGARD, "top", "--duration", "20s", "-o", path])
        print(f"  record {recording:.2f} s, top {watching:.2f} s, top -o {both:.2f} s of CPU")
        plain.append(watching / recording)
        keeping.append(both / recording)
    print(f"top: CPU, top / record: {spread(plain)}")
    print(f"top: CPU, top that records too / record: {spread(keeping)}")


def resources(command):
    """Wall seconds, CPU seconds and peak MB of a command."""
    start = time.monotonic()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode not in (0, 1, 3):
        sys.exit(f"{' '.join(command[:2])} ended with {child.returncode}")
    return time.monotonic() - start, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def measured(command):
    """Wall seconds and peak MB of a command."""
    wall, _, peak = resources(command)
    return wall, peak


# Lengths of the recordings in seconds, and numbers of tasks: 1, 10 and 100 times as much.
LENGTHS = (10, 100, 1_000)
TASKS = (50, 500, 5_000)


def scaled(folder, seconds):
    """A recording of the default services on two CPUs for `seconds`; made once."""
    path = os.path.join(folder, f"scaled-{seconds}.laggard")
    if not os.path.isdir(path):
        command = ["cargo", "run", "-q", "--release", "-p", "laggard-made", "--example", "scaled", "--"]
        root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        run([*command, path, str(seconds)], cwd=root)
    return path


def task_set(folder, count):
    """Tasks with different periods that take half of a CPU together."""
    path = os.path.join(folder, f"tasks-{count}.toml")
    with open(path, "w", encoding="utf-8") as file:
        file.write('service = "fifo:90"\noverhead = "1us"\npermitted = "1h"\n')
        for number in range(count):
            period = 10_000 + 100 * number
            file.write(f'[[task]]\nname = "t{number}"\nperiod = "{period}us"\n')
            file.write(f'compute = "{500 * period // count}ns"\n')
    return path


def scale(folder):
    """CPU time and peak memory of each answer, for 1, 10 and 100 times the data, as a table."""
    folder = os.environ.get("LAGGARD_BENCH_FOLDER") or folder
    page = os.path.join(folder, "scale.html")
    required = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "requirements/linuxcnc.toml")
    longest = [scaled(folder, seconds) for seconds in LENGTHS]
    few, many = longest[0], [task_set(folder, count) for count in TASKS]
    commands = {
        "show": [["show", path] for path in longest],
        "show --all": [["show", "--all", path] for path in longest],
        "why": [["why", path] for path in longest],
        "qos": [["qos", path] for path in longest],
        "forecast": [["forecast", path] for path in longest],
        "compare": [
            ["compare", path, "--with", scaled(folder, seconds + 1)] for path, seconds in zip(longest, LENGTHS)
        ],
        "check": [["check", "-r", required, path] for path in longest],
        "report": [["report", "-o", page, path] for path in longest],
        "sched, 50 to 5,000 tasks": [["sched", "--tasks", tasks, few] for tasks in many],
    }
    print("| command | CPU, s: 1x | 10x | 100x | 100x / 10x | memory, MB: 1x | 10x | 100x |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|")
    for name, sizes in commands.items():
        runs = [resources([LAGGARD, *command]) for command in sizes]
        seconds = [cpu for _, cpu, _ in runs]
        cpu = " | ".join(f"{one:.2f}" for one in seconds)
        peaks = " | ".join(f"{peak:.0f}" for _, _, peak in runs)
        print(f"| `{name}` | {cpu} | {seconds[2] / seconds[1]:.1f} | {peaks} |", flush=True)


# Program for SCHED_IDLE: counts the loops that the other programs leave time for, for 6 s.
LEFT = r"""
#include <stdio.h>
#include <time.h>
static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}
int main(void)
{
	double start = now();
	long count = 0;
	do {
		for (int i = 0; i < 1000; i++)
			__asm__ volatile("");
		count++;
	} while (now() < start + 6);
	printf("%.9f\n", (now() - start) / count);
}
"""
GUEST = {
    "nothing": "",
    "`cyclictest -p 90 -i 1000 -m`": "cyclictest -q -D 30 -p 90 -m -i 1000",
    "`rtla timerlat hist -u -p 1000 -P f:90`": "rtla timerlat hist -u -p 1000 -P f:90 -d 30s -D",
    "`record --services fifo:90 --stages none`": (
        "laggard record -q -s fifo:90 -p 1ms --episodes off --stages none -d 30s"
    ),
    "`record --services fifo:90`": "laggard record -q -s fifo:90 -p 1ms --episodes off -d 30s",
    "`record --services irq,fifo:90`": "laggard record -q -s irq,fifo:90 -p 1ms --episodes off -d 30s",
    "the same with the flight recorder": "laggard record -q -s irq,fifo:90 -p 1ms --episodes on -d 30s",
}


def guest(folder):
    """Instructions per wakeup of laggard and other programs, at 1 kHz in a test host with virtual time.

    LAGGARD_BENCH_HOST is the kernel of the host, LAGGARD_BENCH_RTLA an rtla that is built with BPF. After the start of
    a program, a SCHED_IDLE thread counts for 6 s how much time it gets. An instruction takes 8 ns there.
    """
    with open(os.path.join(folder, "left.c"), "w") as file:
        file.write(LEFT)
    left, program = os.path.join(folder, "left"), os.path.join(folder, "laggard")
    run(["gcc", "-O2", "-static", "-o", left, f"{left}.c"])
    run(["strip", "-o", program, LAGGARD])
    rtla = os.environ.get("LAGGARD_BENCH_RTLA")
    host = os.environ.get("LAGGARD_BENCH_HOST", "7.2-rt")
    tree = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    run(["cargo", "build", "-q", "--workspace", "--bin", "testhost"], cwd=tree)
    testhost = [os.path.join(tree, "target/debug/testhost"), "run", "--kernel", host]
    seconds = {}
    for name, command in GUEST.items():
        copied = rtla if rtla and command.startswith("rtla") else program
        script = f"cd /result; ({command or ':'}) >log 2>&1 & sleep 22; chrt -i 0 /left; grep 'Loading BPF' log || :"
        output = run([*testhost, "--deadline", "400s", "--program", copied, "--file", f"{left}:/left", script]).stdout
        seconds[name] = float(re.search(r"^0\.\d+", output, re.M)[0])
        per_wakeup = 1e-3 * (1 - seconds["nothing"] / seconds[name]) / 8e-9
        print(f"| {name} | {per_wakeup:,.0f} | {'BPF' if 'Loading BPF' in output else ''} |", flush=True)


def main():
    global LAGGARD
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    LAGGARD = os.path.abspath(sys.argv[1])
    parts = {
        part.__name__: part
        for part in (
            agreement, cost, observer, attached, rate, flight, memory, size, reading, answers, scale, top, guest
        )
    }
    wanted = sys.argv[2:] or [name for name in parts if name != "guest"]
    with tempfile.TemporaryDirectory() as folder:
        for name in wanted:
            if name not in parts:
                sys.exit(f"no part `{name}`; use {', '.join(parts)}")
            print(f"{name}: {parts[name].__doc__}")
            parts[name](folder)


if __name__ == "__main__":
    main()
