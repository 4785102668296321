"""The outcome: medians and ratios, the table, bench.json, and the page's table and picture."""
import math
import os
import pathlib
import platform
import re
import statistics

import svg
from rows import CASTOR, JAVA

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def evaluate(rows, samples):
    """One dict per row. samples: implementation → rounds → load → result."""
    return [_evaluate_row(row, samples) for row in rows]


def _evaluate_row(row, samples):
    entry = {"name": row.name, "title": row.title, "unit": row.unit, "target": row.target, "bound": row.bound}
    for impl in (JAVA, CASTOR):
        values = [row.value(results) for results in samples.get(impl, []) if all(load in results for load in row.loads)]
        entry[impl] = statistics.median(values) if values else None
        entry[f"{impl}_samples"] = values
    java, castor = entry[JAVA], entry[CASTOR]
    entry["ratio"] = None
    if java and castor:
        entry["ratio"] = castor / java if row.more_is_better else java / castor
    if row.bound is None:
        entry["wanted"], found, least = f"≥ {number(row.target)}×", entry["ratio"], row.target
    else:
        entry["wanted"] = f"{'≥' if row.more_is_better else '≤'} {number(row.bound)}"
        found, least = (castor, row.bound) if row.more_is_better else (castor and -castor, -row.bound)
    entry["ok"] = found is not None and found >= least
    return entry


def number(value):
    """A figure with about three digits."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    digits = 2 - math.floor(math.log10(abs(value)))
    return f"{round(value, digits):,.{max(0, digits)}f}"


def ratio(value):
    return "–" if value is None else f"{number(value)}×"


def verdict(entry):
    if entry["ratio"] is None:
        return "–"
    return "ok" if entry["ok"] else "MISS"


def table(entries):
    """A Markdown table, which also reads well in a terminal."""
    lines = [["", "Java", "Castor", "better by", "target", ""]]
    for e in entries:
        lines.append([f"{e['title']} ({e['unit']})", number(e[JAVA]), number(e[CASTOR]), ratio(e["ratio"]),
                      e["wanted"], verdict(e)])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    lines.insert(1, ["-" * width for width in widths[:1]] + ["-" * (width - 1) + ":" for width in widths[1:-1]]
                 + ["-" * max(widths[-1], 3)])
    out = []
    for line in lines:
        cells = [line[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(line[1:-1], widths[1:-1])),
                 line[-1].ljust(max(widths[-1], 3))]
        out.append("| " + " | ".join(cells) + " |")
    return "\n".join(out)


def machine():
    """What the figures were taken on."""
    cpu = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": cpu[1] if cpu else platform.machine(), "cpus": os.cpu_count(), "memory_gib": round(memory),
            "kernel": platform.release()}


def write_docs(docs, entries, run):
    """Puts table and picture into the documentation."""
    page = docs / "performance.md"
    host = run["machine"]
    caption = (f"Apache RocketMQ {run['java_version']} and Castor on {host['cpus']} × {host['cpu']}, {host['memory_gib']} GiB, "
               f"Linux {host['kernel']}; medians of {run['rounds']} alternating rounds, {run['date']}.")
    before, after = around_markers(page.read_text())
    (docs / "bench.svg").write_text(svg.draw([e for e in entries if e["ratio"] is not None]))
    page.write_text(f"{before}{BEGIN}\n{table(entries)}\n\n{caption}\n\n![Castor against Java](bench.svg)\n{END}{after}")


def around_markers(page):
    """What a page holds before and after the markers, which it must have."""
    if page.count(BEGIN) != 1 or page.count(END) != 1 or page.index(BEGIN) > page.index(END):
        raise ValueError(f"the page must have {BEGIN} and {END} once, in this order")
    before, rest = page.split(BEGIN)
    return before, rest.split(END)[1]
