"""Makes and records faults on a test host: another kernel, in an emulator.

All but `steal` in virtual time, on one CPU: the result is the same however
busy this machine is. `steal` on two CPUs in real time: the whole emulator is
stopped, and what the guest's clock showed then is the truth.
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
# A limit against hanging, not an expectation: a busy machine is slow.
DEADLINE = "900s"
# From the command's begin to the first stall, s: programs are loaded and the
# recording warms up.
FIRST_STALL = 5
RECORDING = "/result/r.laggard"
TRUTH = "/result/hits.jsonl"
# This kernel preempts itself unless it is told not to.
APPEND = {"preempt-off": ["--append", "preempt=none"]}
# Long system calls need more mappings than the kernel allows by default, and
# groups with a quota need the controller.
PRELUDE = "echo 1048576 > /proc/sys/vm/max_map_count\necho +cpu > /sys/fs/cgroup/cgroup.subtree_control\n"
# Fails when the recording does; its end is the command's.
RECORD = f"""laggard record -o {RECORDING} {{options}} &
recording=$!
until [ -e {RECORDING}/manifest.json ]; do kill -0 $recording || exit 1; sleep 0.05; done
sleep 0.5
"""
FINISH = "wait $recording || [ $? = 3 ] || exit 1\n"


class TestHost:
    """A kernel in an emulator: its name on the page, and what is made there."""

    part = "test host"
    skipped = SKIPPED
    # Virtual time is not disturbed by a second emulator.
    jobs = 2

    def __init__(self, laggard, testhost, kernel):
        self.laggard, self.testhost, self.kernel = laggard, testhost, kernel

    def make(self, name, load, seconds, path, truth):
        """Records while provoking; what was said, if there is nothing to judge."""
        kind = KINDS[name]
        if kind.from_outside:
            return self.stall(kind, load, seconds, path, truth)
        provoke = ["laggard", "provoke", *provoke_options(name, CPU, seconds), "--json", TRUTH]
        victim = ' --pid "$recording"' if kind.victim else ""
        script = PRELUDE + RECORD.format(options=shlex.join(record_options(kind, seconds + 2, load)))
        script += f"{shlex.join(provoke)}{victim} > /result/said 2>&1; status=$?\n"
        script += FINISH + 'cat /result/said; exit "$status"'
        said = self.boot(path, APPEND.get(name, []), script)
        if said:
            return said
        shutil.move(os.path.join(path, "result", "hits.jsonl"), truth)
        return keep_recording(path)

    def stall(self, kind, load, seconds, path, truth):
        length, every = ns(kind.length), ns(kind.every)
        count = int(seconds * 1e9 / every)
        stalls = [f"{FIRST_STALL * 10**9 + number * every}ns:{length}ns" for number in range(count)]
        options = ["--mode", "smp", "--truth", truth]
        options += [word for stall in stalls for word in ("--stall", stall)]
        # It ends after the last stall, wherever in these seconds it began.
        script = RECORD.format(options=shlex.join(record_options(kind, FIRST_STALL + seconds, load)))
        return self.boot(path, options, script + FINISH) or keep_recording(path)

    def record_calm(self, load, seconds, path):
        """Records and makes nothing."""
        options = shlex.join(record_options(None, seconds, load))
        said = self.boot(path, [], RECORD.format(options=options) + FINISH) or keep_recording(path)
        if said:
            raise SystemExit(said)

    def boot(self, path, options, script):
        """Runs a shell text on a fresh host; its last words, if it failed."""
        shutil.rmtree(path, ignore_errors=True)
        command = [self.testhost, "run", "--kernel", self.kernel, "--program", self.laggard]
        command += ["--instruction", INSTRUCTION, "--deadline", DEADLINE, "--results", path, *options, script]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode == 0:
            return ""
        said = [line for line in done.stdout.splitlines() if line.strip()]
        # Its own last line says how long it took.
        errors = [line for line in done.stderr.splitlines() if not line.startswith("testhost: status")]
        return (said or errors or [f"testhost ended with {done.returncode}"])[-1]

    def describe(self, seconds):
        """The state of the machine, as far as it matters."""
        script = "uname -r; laggard --version"
        done = run([self.testhost, "run", "--kernel", self.kernel, "--program", self.laggard, script])
        release, version = done.stdout.splitlines()[:2]
        return (
            f"{time.strftime('%Y-%m-%d')}, {version}, Linux {release} in QEMU; {seconds:g} s a row, threshold 2 ms."
            " All but `steal`: 1 CPU, virtual time. `steal`: 2 CPUs, real time, beside other work"
            f" (load average {load_average()} at the end).\n"
        )


def keep_recording(path):
    """Leaves of what a host handed back the recording alone, at `path`."""
    recording = os.path.join(path, *RECORDING.strip("/").split("/"))
    if not os.path.exists(os.path.join(recording, "manifest.json")):
        return "no recording came back"
    aside = f"{path}.aside"
    shutil.rmtree(aside, ignore_errors=True)
    os.rename(recording, aside)
    shutil.rmtree(path)
    os.rename(aside, path)
    return ""


def load_average():
    with open("/proc/loadavg", encoding="utf-8") as file:
        return re.match(r"\S+", file.read())[0]
