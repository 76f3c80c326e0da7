"""What `why` says of a recording, against the truth that was written down."""
import dataclasses
import json
import os
import subprocess
import sys

from kinds import KINDS, THRESHOLD_NS, Kind, ns, outside, unexplained

# Gaps between two expiries of a line are at most 1.5 periods of 1 ms.
LONGEST_GAP_NS = 1_500_000
# An activation that is late by the threshold within a hit overlaps it so much.
OVERLAP_NS = THRESHOLD_NS
# The table's tolerances: docs/validation/accuracy.md.
LENGTH_PART, LENGTH_NS = 0.1, 100_000
# Interrupts and softirqs are also what they are without a fault: short.
ELSEWHERE_NS = 1_000_000


@dataclasses.dataclass
class Verdict:
    """The counts of one row."""

    kind: Kind
    hits: int = 0  # that could delay a measured activation
    found: int = 0
    named: int = 0
    measured: int = 0  # found hits, for which the length is right
    period: float | None = None  # found / made, less one
    makes_period: bool = True
    elsewhere_ns: int = 0  # counted to the fault outside its hits
    unexplained_ns: int = 0
    total_ns: int = 0
    stolen_ns: int = 0
    surplus: int = 0
    lost: int = 0
    missed: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Late:
    """One episode, with its causes, in absolute time."""

    number: int
    line: dict
    start: int
    end: int
    causes: list

    def overlap(self, hit):
        return min(self.end, hit["end"]) - max(self.start, hit["start_ns"])

    def counted(self, holds):
        return sum(cause["time_ns"] for cause in self.causes if holds(cause))


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    # 3: too much was lost for a good distribution, which is shown here.
    if done.returncode not in (0, 3):
        sys.exit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done


def read(laggard, recording):
    """The recording's manifest, its `why`, and all its episodes."""
    with open(os.path.join(recording, "manifest.json"), encoding="utf-8") as file:
        manifest = json.load(file)
    command = [laggard, "why", recording, "--json", "--top", "1000000"]
    why = json.loads(run(command).stdout)
    begin = manifest["clock"]["start_ns"]
    late = [
        Late(
            row["number"],
            row["line"],
            begin + row["after_start_ns"],
            begin + row["after_start_ns"] + row["latency_ns"],
            [dict(as_cause(part), time_ns=part["took_ns"]) for part in row["parts"]],
        )
        for row in listed(why, "largest")
    ]
    return manifest, why, late


def listed(why, key):
    """All entries of a list that each series of `why` has."""
    return [row for series in why["series"] for row in series[key]]


def total_ns(why):
    return sum(series["total_ns"] for series in why["series"])


def surplus(why):
    """Late wakeups that were not kept."""
    return sum(line.get("surplus", 0) for line in listed(why, "thresholds"))


def lost(manifest):
    """Activations that are missing in the recording."""
    return sum(manifest["losses"][one] for one in ("ring_full", "clock_back", "unserved", "not_written"))


def read_truth(path):
    """The hits as they really were."""
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def judge(laggard, kind, recording, hits):
    """Compares what `why` says with the truth."""
    manifest, why, late = read(laggard, recording)
    begin, end = manifest["clock"]["start_ns"], manifest["clock"]["end_ns"]
    every_ns = made_every(kind, hits)
    verdict = Verdict(
        kind,
        total_ns=total_ns(why),
        unexplained_ns=sum(one.counted(unexplained) for one in late),
        stolen_ns=sum(one.counted(outside) for one in late),
        surplus=surplus(why),
        lost=lost(manifest),
        makes_period=every_ns is not None,
    )
    for hit in hits:
        hit["end"] = hit["start_ns"] + hit["length_ns"]
    if kind.between:
        hits = [gap(*two) for two in zip(hits, hits[1:])]
    cpus = {hit["cpu"] for hit in hits}
    for cpu in cpus:
        here = [one for one in late if one.line["cpu"] == cpu and kind.delays(one.line)]
        judge_cpu(verdict, [hit for hit in hits if hit["cpu"] == cpu], here, (begin, end))
    if every_ns:
        verdict.period = period(why, kind, cpus, every_ns)
    return verdict


def judge_cpu(verdict, hits, here, recorded):
    """Adds the hits of one CPU, with the late wakeups `here` that it delays."""
    kind = verdict.kind
    begin, end = recorded
    for hit in hits:
        if hit["start_ns"] < begin or hit["end"] + LONGEST_GAP_NS > end:
            continue
        met = [one for one in here if one.overlap(hit) >= OVERLAP_NS]
        certain = kind.always and hit["length_ns"] >= LONGEST_GAP_NS + OVERLAP_NS
        if certain or met:
            judge_hit(verdict, hit, met)
    for one in here:
        within = sum(max(0, one.overlap(hit)) for hit in hits)
        excess = one.counted(kind.names) - within
        if excess > max(LENGTH_PART * (one.end - one.start), ELSEWHERE_NS):
            verdict.elsewhere_ns += excess


def gap(before, after):
    """What lies between two hits, as a hit."""
    length = after["start_ns"] - before["end"]
    return {"start_ns": before["end"], "length_ns": length, "end": after["start_ns"], "cpu": before["cpu"]}


def judge_hit(verdict, hit, met):
    """Adds one hit that could delay, with the late wakeups that met it."""
    kind = verdict.kind
    verdict.hits += 1
    told = [one for one in met if one.counted(kind.names)]
    verdict.found += bool(told)
    if told and not kind.always:
        # How the scheduler shares the time of a hit is not known.
        verdict.named += 1
        return
    if not told:
        verdict.missed.append((hit["start_ns"], hit["length_ns"], [one.number for one in met]))
        return
    # One that saw most of the hit, and least else, tells whether it is named as
    # the main cause.
    seen = max(one.overlap(hit) for one in met)
    most = min((one for one in met if one.overlap(hit) >= 0.9 * seen), key=lambda one: one.end - one.start)
    overlap, counted = most.overlap(hit), most.counted(kind.names)
    stolen = 0 if kind.from_outside else min(overlap, most.counted(outside))
    verdict.named += counted * 2 >= overlap - stolen
    slack = max(LENGTH_PART * overlap, LENGTH_NS)
    is_right = overlap - stolen - slack <= counted and (
        kind.computes_elsewhere or counted <= overlap + slack
    )
    verdict.measured += is_right
    if not is_right:
        verdict.missed.append((hit["start_ns"], overlap, counted, stolen, most.number))


def made_every(kind, hits):
    """The period that was asked for, or that the kernel chose."""
    if kind.every:
        return ns(kind.every)
    gaps = sorted(after["start_ns"] - before["start_ns"] for before, after in zip(hits, hits[1:]))
    return gaps[len(gaps) // 2] if gaps else None


def period(why, kind, cpus, every_ns):
    """How far the period that `why` says is from the one made; `None`: it says none."""
    found = [
        row["rhythm"]["period_ns"]
        for row in listed(why, "causes")
        if row["rhythm"] and cpus.intersection(row["cpus"]) and kind.names(as_cause(row))
    ]
    return min((one / every_ns - 1 for one in found), key=abs, default=None)


def as_cause(row):
    """A cause in the form of the model: class and culprit."""
    who = row["who"] or ""
    thread = next((word for word in who.split(", ") if word.startswith("lag/")), None)
    activity = None
    if "HRTIMER" in who:
        activity = {"softirq": 8}
    elif "NET_RX" in who:
        activity = {"softirq": 3}
    elif who.startswith("local timer"):
        activity = {"vector": "local_timer"}
    elif who.startswith("page faults"):
        activity = "page_fault"
    because = row.get("because")
    return {"class": row["class"], "culprit": {"thread": thread, "activity": activity, "because": because}}


@dataclasses.dataclass
class Calm:
    """What would be called a made fault though there is none."""

    episodes: int
    largest_ns: int
    invented: int
    largest_named: list  # (fault, ns), those above the threshold
    unexplained_ns: int
    stolen_ns: int
    total_ns: int
    surplus: int
    lost: int


def judge_calm(laggard, recording):
    """The same of a recording in which nothing was made."""
    manifest, why, late = read(laggard, recording)
    invented, named = 0, []
    for name, kind in KINDS.items():
        if kind.victim or kind.from_outside or not kind.length:
            continue
        invented += sum(one.counted(kind.names) >= ns(kind.length) // 2 for one in late)
        worst = max((one.counted(kind.names) for one in late), default=0)
        if worst > THRESHOLD_NS:
            named.append((name, worst))
    return Calm(
        len(late),
        max((series["largest_ns"] for series in why["series"]), default=0),
        invented,
        named,
        sum(one.counted(unexplained) for one in late),
        sum(one.counted(outside) for one in late),
        total_ns(why),
        surplus(why),
        lost(manifest),
    )
