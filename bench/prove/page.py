"""Tables, and the page that contains them."""

BEGIN, END = "<!-- {}: written by make prove -->", "<!-- {}: end -->"
COLUMNS = ["fault", "load", "found", "named correctly", "length correct", "period", "counted elsewhere"]
COLUMNS += ["unexplained", "stolen or stalled", "not kept / lost"]
CALM_COLUMNS = ["load", "episodes", "largest", "invented", "largest named like a fault", "unexplained"]
CALM_COLUMNS += ["stolen or stalled", "not kept / lost"]


def percent(part, whole):
    return f"{part} of {whole} ({100 * part / whole:.0f} %)" if whole else "0 of 0"


def row(name, load, verdict):
    """Returns a row. `verdict` is a verdict, or the reason for a missing one."""
    if isinstance(verdict, str):
        return [name, load, verdict] + [""] * (len(COLUMNS) - 3)
    if verdict.period is not None:
        period = f"{100 * verdict.period:+.2f} %"
    else:
        period = "not found" if verdict.makes_period else "-"
    whole = max(1, verdict.total_ns)
    return [
        name,
        load,
        percent(verdict.found, verdict.hits),
        percent(verdict.named, verdict.found),
        percent(verdict.measured, verdict.found) if verdict.kind.always else "-",
        period,
        "-" if verdict.kind.computes_elsewhere else f"{verdict.elsewhere_ns / 1e6:.1f} ms",
        f"{100 * verdict.unexplained_ns / whole:.1f} %",
        f"{100 * verdict.stolen_ns / whole:.0f} %",
        f"{verdict.surplus} / {verdict.lost}",
    ]


def calm_row(load, calm):
    whole = max(1, calm.total_ns)
    return [
        load,
        str(calm.episodes),
        f"{calm.largest_ns / 1e6:.1f} ms",
        str(calm.invented),
        ", ".join(f"{name} {worst / 1e6:.1f} ms" for name, worst in calm.largest_named) or "nothing",
        f"{100 * calm.unexplained_ns / whole:.1f} %",
        f"{100 * calm.stolen_ns / whole:.0f} %",
        f"{calm.surplus} / {calm.lost}",
    ]


def table(columns, rows):
    lines = ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def both_tables(rows, calm):
    text = table(COLUMNS, rows) if rows else ""
    if calm:
        text += "\nUndisturbed:\n\n" + table(CALM_COLUMNS, calm)
    return text


def write_page(page, part, text):
    """Replaces the text between the marks of a part."""
    with open(page, encoding="utf-8") as file:
        before, rest = file.read().split(BEGIN.format(part) + "\n", 1)
    _, after = rest.split(END.format(part), 1)
    with open(page, "w", encoding="utf-8") as file:
        file.write(f"{before}{BEGIN.format(part)}\n\n{text}\n{END.format(part)}{after}")
