"""The faults that are made: how, whom they delay, and how they are to be named."""
import dataclasses
import re
from typing import Callable

THRESHOLD_NS = 2_000_000


def ns(text):
    """`7ms` in ns."""
    number, unit = re.fullmatch(r"([\d.]+)(ns|us|ms|s|min)", text).groups()
    return round(float(number) * {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10}[unit])


@dataclasses.dataclass
class Kind:
    """A fault: how it is made, whom it delays, and how it is to be named."""

    names: Callable  # whether a cause of `why` is this fault's
    delays: Callable  # whether it delays a line, if not by luck
    length: str = "7ms"
    every: str = "500ms"
    # A hit delays such a line whatever happens; else only hits count in which
    # one was late, whoever was the reason.
    always: bool = True
    # Its threads also compute outside the hits.
    computes_elsewhere: bool = False
    # The fault is what lies between two hits.
    between: bool = False
    services: str = "softirq,fifo:90,fifo:50,other"
    victim: bool = False  # the recorder itself is stopped
    # Made from outside the machine: only on a test host.
    from_outside: bool = False


def thread(name):
    return lambda cause: (cause["culprit"]["thread"] or "").startswith(f"lag/{name}")


def by(class_, *holds):
    return lambda cause: cause["class"] == class_ and all(one(cause) for one in holds)


def activity(what):
    return lambda cause: cause["culprit"]["activity"] == what


def certain(cause):
    """Named without a doubt, as `or a stop from outside` is one."""
    return cause["culprit"]["because"] is None


def either(*ways):
    return lambda cause: any(way(cause) for way in ways)


def services(*names):
    return lambda line: line["service"] in names


def outside(cause):
    return cause["class"] in ("stolen", "stall")


def unexplained(cause):
    return cause["class"] == "unexplained"


FIFO = services("fifo:90", "fifo:50")
THREADS = services("fifo:90", "fifo:50", "other")
NORMAL = services("other")
ALL = services("softirq", "fifo:90", "fifo:50", "other")
BELOW_60 = services("fifo:50", "other")

KINDS = {
    "softirq": Kind(by("softirq", activity({"softirq": 8}), certain), ALL),
    "irq": Kind(by("interrupt", activity({"vector": "local_timer"}), certain), ALL),
    "irqs-off": Kind(by("interrupts_off", thread("irqs-off")), ALL),
    "preempt-off": Kind(by("preemption_off", thread("preempt-off")), FIFO, length="4500us", computes_elsewhere=True),
    "thread": Kind(by("higher_priority", thread("thread")), THREADS),
    "page-fault": Kind(by("higher_priority", thread("page-fault"), activity("page_fault")), THREADS),
    "lock": Kind(by("higher_priority", thread("lock-")), BELOW_60, computes_elsewhere=True),
    # The wait is the holder's own work, a seventh of the length.
    "lock-pi": Kind(
        by("higher_priority", thread("lock-")), BELOW_60, length="60ms", computes_elsewhere=True
    ),
    "queue": Kind(by("equal", thread("queue")), NORMAL, length="40ms", always=False),
    "net": Kind(
        either(by("equal", thread("net")), by("softirq", activity({"softirq": 3}))),
        NORMAL,
        length="40ms",
        always=False,
    ),
    "throttle": Kind(
        by("throttled"), services("other"), length="40ms", every="100ms", always=False,
        services="other", victim=True,
    ),
    # Its hits are the pauses; who is delayed is so in between.
    "rt-throttle": Kind(
        by("higher_priority", thread("rt-throttle")), NORMAL, length="", every="", between=True,
        computes_elsewhere=True,
    ),
    # One service: an emulator in real time is slow.
    "steal": Kind(outside, ALL, length="20ms", services="fifo:90", from_outside=True),
}
SKIPPED = {
    "tick": "its hits are waits of the fault's timer, not delays of wakeups; the hidden tick is found in"
    " them by the test `a_search_for_ticks_finds_the_hidden_one`",
}


def record_options(kind, seconds, load):
    """What `laggard record` is asked for; no kind: nothing is made."""
    options = ["-q", "--duration", f"{seconds:g}s", "--episodes", "on"]
    options += ["--threshold", f"{THRESHOLD_NS}ns", "--max-episodes-per-minute", "20000"]
    options += ["--services", kind.services if kind else KINDS["softirq"].services]
    return options + (["--load", load] if load != "none" else [])


def provoke_options(name, cpu, seconds):
    """What `laggard provoke` is asked for."""
    kind = KINDS[name]
    options = [name, "--cpu", str(cpu), "--for", f"{seconds:g}s"]
    for option in ("length", "every"):
        if value := getattr(kind, option):
            options += [f"--{option}", value]
    return options
