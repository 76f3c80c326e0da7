"""Injects and records faults on a test host: another kernel, in an emulator.

All faults except `steal` are injected in virtual time on one CPU, so the result does
not depend on the load of this machine. `steal` stops the whole emulator, with two CPUs
in real time; the clock of the guest gives the true times.
"""
import os
import re
import shlex
import shutil
import subprocess
import time

from judging import run
from kinds import KINDS, SKIPPED, ns, provoke_options, record_options

CPU = 0
# At the usual 8 ns, interrupts and stack samples take a tenth of a fault's time.
INSTRUCTION = "2ns"
# Ends a test host that hangs. A busy machine is slow.
DEADLINE = "900s"
# Seconds from the start of the command to the first stall. In this time, programs are
# loaded and the recording warms up.
FIRST_STALL = 5
RECORDING = "/result/r.laggard"
TRUTH = "/result/hits.jsonl"
# Without this option, the kernel preempts itself.
APPEND = {"preempt-off": ["--append", "preempt=none"]}
# Long system calls need more mappings than the kernel allows by default, and
# groups with a quota need the controller.
PRELUDE = "echo 1048576 > /proc/sys/vm/max_map_count\necho +cpu > /sys/fs/cgroup/cgroup.subtree_control\n"
# Fails if the recording fails.
RECORD = f"""laggard record -o {RECORDING} {{options}} &
recording=$!
until [ -e {RECORDING}/manifest.json ]; do kill -0 $recording || exit 1; sleep 0.05; done
sleep 0.5
"""
FINISH = "wait $recording || [ $? = 3 ] || exit 1\n"


class TestHost:
    """A kernel in an emulator: its name on the page, and the recordings made there."""

    part = "test host"
    skipped = SKIPPED
    # Virtual time is not disturbed by a second emulator.
    jobs = 2

    def __init__(self, laggard, testhost, kernel):
        self.laggard, self.testhost, self.kernel = laggard, testhost, kernel

    def make(self, name, load, seconds, path, truth):
        """Records while it injects faults. Returns the error, or an empty string."""
        kind = KINDS[name]
        if kind.from_outside:
            return self.stall(kind, load, seconds, path, truth)
        provoke = ["laggard", "provoke", *provoke_options(name, CPU, seconds), "--json", TRUTH]
        victim = ' --pid "$recording"' if kind.victim else ""
        script = PRELUDE + RECORD.format(options=shlex.join(record_options(kind, seconds + 2, load)))
        script += f"{shlex.join(provoke)}{victim} > /result/output 2>&1; status=$?\n"
        script += FINISH + 'cat /result/output; exit "$status"'
        error = self.boot(path, APPEND.get(name, []), script)
        if error:
            return error
        shutil.move(os.path.join(path, "result", "hits.jsonl"), truth)
        return keep_recording(path)

    def stall(self, kind, load, seconds, path, truth):
        length, every = ns(kind.length), ns(kind.every)
        count = int(seconds * 1e9 / every)
        stalls = [f"{FIRST_STALL * 10**9 + number * every}ns:{length}ns" for number in range(count)]
        options = ["--mode", "smp", "--truth", truth]
        options += [option for stall in stalls for option in ("--stall", stall)]
        # The recording ends after the last stall, whenever it started.
        script = RECORD.format(options=shlex.join(record_options(kind, FIRST_STALL + seconds, load)))
        return self.boot(path, options, script + FINISH) or keep_recording(path)

    def record_calm(self, load, seconds, path):
        """Records without faults."""
        options = shlex.join(record_options(None, seconds, load))
        error = self.boot(path, [], RECORD.format(options=options) + FINISH) or keep_recording(path)
        if error:
            raise SystemExit(error)

    def boot(self, path, options, script):
        """Runs a shell script on a fresh host. Returns its last line if it failed."""
        shutil.rmtree(path, ignore_errors=True)
        command = [self.testhost, "run", "--kernel", self.kernel, "--program", self.laggard]
        command += ["--instruction", INSTRUCTION, "--deadline", DEADLINE, "--results", path, *options, script]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        output = [line for line in done.stdout.splitlines() if line.strip()]
        # The last line of testhost gives the time that it took.
        errors = [line for line in done.stderr.splitlines() if not line.startswith("testhost: status")]
        return (output or errors or [f"testhost ended with {done.returncode}"])[-1]

    def describe(self, seconds):
        """Returns the state of the test host."""
        script = "uname -r; laggard --version"
        done = run([self.testhost, "run", "--kernel", self.kernel, "--program", self.laggard, script])
        release, version = done.stdout.splitlines()[:2]
        return (
            f"{time.strftime('%Y-%m-%d')}, {version}, Linux {release} in QEMU; {seconds:g} s per row, threshold 2 ms."
            " All except `steal`: 1 CPU, virtual time. `steal`: 2 CPUs, real time, while other programs ran"
            f" (load average {load_average()} at the end).\n"
        )


def keep_recording(path):
    """Keeps only the recording of the results of a test host, at `path`."""
    recording = os.path.join(path, *RECORDING.strip("/").split("/"))
    if not os.path.exists(os.path.join(recording, "manifest.json")):
        return "the test host returned no recording"
    aside = f"{path}.aside"
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(recording, aside)
    shutil.rmtree(path)
    os.rename(aside, path)
    return ""


def load_average():
    with open("/proc/loadavg", encoding="utf-8") as file:
        return re.match(r"\S+", file.read())[0]
