"""Injected faults: their options, the services that they delay, and their correct names."""
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
    """A fault: its options, the services that it delays, and its correct names."""

    names: Callable  # whether a cause of `why` names this fault
    delays: Callable  # whether it can delay a line
    length: str = "7ms"
    every: str = "500ms"
    # Whether each hit delays such a line. If not, only hits count during which a wakeup
    # was late, for any reason.
    always: bool = True
    # Whether its threads also compute outside the hits.
    computes_elsewhere: bool = False
    # Whether the fault is the span between two hits.
    between: bool = False
    services: str = "softirq,fifo:90,fifo:50,other"
    victim: bool = False  # whether the recorder itself is stopped
    # Whether it is injected from outside the machine, which needs a test host.
    from_outside: bool = False


def thread(name):
    return lambda cause: (cause["culprit"]["thread"] or "").startswith(f"lag/{name}")


def by(class_, *conditions):
    return lambda cause: cause["class"] == class_ and all(matches(cause) for matches in conditions)


def activity(name):
    return lambda cause: cause["culprit"]["activity"] == name


def certain(cause):
    """Whether the cause is certain, without `or a stop from outside`."""
    return cause["culprit"]["because"] is None


def either(*conditions):
    return lambda cause: any(matches(cause) for matches in conditions)


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
    # The wait is the execution time of the holder, a seventh of the length.
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
    # The hits are the pauses. The delays are between them.
    "rt-throttle": Kind(
        by("higher_priority", thread("rt-throttle")), NORMAL, length="", every="", between=True,
        computes_elsewhere=True,
    ),
    # One service, because an emulator in real time is slow.
    "steal": Kind(outside, ALL, length="20ms", services="fifo:90", from_outside=True),
}
SKIPPED = {
    "tick": "its hits are waits of the fault's timer, not delays of wakeups; the hidden tick is found in"
    " them by the test `a_search_for_ticks_finds_the_hidden_one`",
}


def record_options(kind, seconds, load):
    """Returns the options of `laggard record`. Without a kind, no fault is injected."""
    options = ["-q", "--duration", f"{seconds:g}s", "--episodes", "on"]
    options += ["--threshold", f"{THRESHOLD_NS}ns", "--max-episodes-per-minute", "20000"]
    options += ["--services", kind.services if kind else KINDS["softirq"].services]
    return options + (["--load", load] if load != "none" else [])


def provoke_options(name, cpu, seconds):
    """Returns the options of `laggard provoke`."""
    kind = KINDS[name]
    options = [name, "--cpu", str(cpu), "--for", f"{seconds:g}s"]
    for option in ("length", "every"):
        if value := getattr(kind, option):
            options += [f"--{option}", value]
    return options
