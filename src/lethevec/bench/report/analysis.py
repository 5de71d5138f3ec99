"""What the results of a run say: tables, sentences, and where ours loses. Pure functions of the lines of a run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from .. import paper
from ..measuring.field import Line
from ..measuring.turns import pareto
from ..paper import FAMILIES, ROWS
from ..peers import SEARCHING
from .results import results_of
from .tables import Table

LEVELS = (0.8, 0.9, 0.95, 0.99)
EXACT = "Faiss Flat (exact)"


def is_ours(name: str) -> bool:
    """Whether a competitor is lethevec."""
    return name.startswith("lethevec")


def data_names(lines: Iterable[Line]) -> list[str]:
    """The data sets, in the order in which they were measured."""
    return [name for name in dict.fromkeys(line["data"] for line in lines) if name]


def of(lines: Iterable[Line], part: str, data: str, what: str) -> list[Line]:
    """The lines of a part and a data set that tell of one thing."""
    return [line for line in results_of(lines, part, data) if line.get("what") == what]


def by_competitor(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """Grouped, in order of appearance."""
    grouped: dict[str, list[Line]] = {}
    for line in lines:
        grouped.setdefault(line["competitor"], []).append(line)
    return grouped


def fronts(lines: Iterable[Line]) -> dict[str, list[tuple[float, float]]]:
    """(recall, rate) of each competitor's best settings, by rising recall."""
    return {
        name: pareto((line["recall"], line["rate"]) for line in found) for name, found in by_competitor(lines).items()
    }


def rate_at(front: Iterable[tuple[float, float]], level: float) -> float | None:
    """The best rate at this recall, between two settings on the line from one to the other (rates on a log scale)."""
    points = pareto(front)
    above = [point for point in points if point[0] >= level]
    if not above:
        return None
    below = [point for point in points if point[0] < level]
    if not below or above[0][0] == level:
        return above[0][1]
    (low, fast), (high, slow) = below[-1], above[0]
    share = (level - low) / (high - low)
    return float(np.exp((1 - share) * np.log(fast) + share * np.log(slow)))


def duration(seconds: float) -> str:
    """Seconds in the unit that fits."""
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * factor >= 1 or unit == "us":
            return f"{seconds * factor:,.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:,.0f} {unit}"
    raise AssertionError("unreachable")


# Tables --------------------------------------------------------------------------------------------------------------


def paper1_table(lines: list[Line], data: str) -> Table:
    """Precision and queries per second of the four families, for each length of code; and ours by default."""
    found = [line for line in of(lines, "paper1", data, "point") if "bits" in line]
    rows = [
        [str(line["bits"]), line["competitor"], f"{line['recall']:.3f}", f"{line['rate']:,.0f}"]
        for line in sorted(found, key=lambda line: int(line["bits"]))
    ]
    default = [line for line in of(lines, "paper1", data, "point") if "bits" not in line]
    rows += [
        ["", f"{line['competitor']}, {line['described']}", f"{line['recall']:.3f}", f"{line['rate']:,.0f}"]
        for line in default
        if line["recall"] > 0.5
    ]
    return Table(f"{data}: precision@10 and queries per second", ("bits", "by", "precision@10", "queries/s"), rows)


def paper2_table(lines: list[Line], data: str) -> Table:
    """PR-AUC, the improvement over simHash, and the paper's figures beside them."""
    found = {(line["competitor"], line["step"]): line["area"] for line in of(lines, "paper2", data, "curve")}
    key = paper.key_of(data)
    rows = []
    for name, family in ROWS.items():
        for place, step in enumerate(("low", "high")):
            if (name, step) not in found:
                continue
            area, base = found[name, step], found.get((FAMILIES["simhash"], step))
            better = f"{100 * (area / base - 1):+.0f} %" if base and family != "simhash" else "(baseline)"
            theirs = ["", ""]
            if key:
                gain = paper.IMPROVEMENTS.get((key, family))
                theirs = [
                    f"{paper.SETS[key].areas[family][place]:.2f}",
                    f"{gain[place]:+d} %" if gain else "(baseline)",
                ]
            rows.append([name, step, f"{area:.3f}", better, *theirs])
    beside = f"paper's {paper.SETS[key].name}" if key else "paper"
    head = ("algorithm", "hash dim", "PR-AUC", "over simHash", beside, "over simHash there")
    return Table(f"{data}: area under the precision-recall curve", head, rows)


def deletion_table(lines: list[Line], data: str) -> Table:
    """The time to delete one point."""
    rows = []
    for line in sorted(of(lines, "paper3", data, "deletion"), key=lambda line: float(np.mean(line["seconds"]))):
        took = line["seconds"]
        how = "its own delete" if line["how"] == "own" else "trained again"
        rows.append(
            [line["competitor"], how, duration(float(np.mean(took))), duration(float(np.median(took))), str(len(took))]
        )
    return Table(f"{data}: time to delete one point", ("by", "how", "mean", "median", "points"), rows)


def decay_table(lines: list[Line], data: str) -> Table:
    """What is left after deletions."""
    rows = []
    for line in of(lines, "paper3", data, "decay"):
        told = traces(line)
        share = f"{100 * line['level']:.0f} %"
        memory, files = f"{line['bytes'] / 1e6:,.0f}", f"{line['file_bytes'] / 1e6:,.1f}"
        rows.append([line["competitor"], share, f"{line['recall']:.3f}", memory, files, told, str(line["ghosts"])])
    head = ("by", "deleted", "recall@10", "MB in memory", "MB in files", "deleted vectors found in files", "returned")
    records = next((line["records"] for line in of(lines, "paper3", data, "decay")), 0)
    return Table(f"{data}, {records:,} records: after deletions", head, rows)


def peers_table(lines: list[Line], data: str) -> Table:
    """Queries per second at each recall; and what building took."""
    curves = fronts(of(lines, "peers", data, "point"))
    built = {line["competitor"]: line for line in of(lines, "peers", data, "build")}
    order = sorted(curves, key=lambda name: -(rate_at(curves[name], 0.9) or 0))
    rows = []
    for name in order:
        rates = [rate_at(curves[name], level) for level in LEVELS]
        line = built.get(name, {"seconds": 0, "cpu": 0, "bytes": 0})
        cost = [f"{line['seconds']:.1f}", f"{line['cpu']:.1f}", f"{line['bytes'] / 1e6:,.0f}"]
        source = line.get("source")
        told = f"{name}: {source}" if name == "lethevec (default)" and source else name
        rows.append([told, *(f"{rate:,.0f}" if rate else "-" for rate in rates), *cost])
    head = ("by", *(f"queries/s at {level}" for level in LEVELS), "build, s", "CPU s", "MB")
    return Table(f"{data}{among(lines, data)}: at equal recall@10, one thread, one query at a time", head, rows)


def among(lines: list[Line], data: str, part: str = "peers", what: str = "point") -> str:
    """How many records there were, for a heading: a run may take only the first ones of a set."""
    records = next((line["records"] for line in of(lines, part, data, what) if "records" in line), None)
    return f", {records:,} records" if records else ""


def streaming_table(lines: list[Line], data: str) -> Table:
    """Recall at the first, the worst and the last search; the cost of changes; memory; what is left of the deleted."""
    rows = []
    for name, found in by_competitor(of(lines, "streaming", data, "search")).items():
        recalls = [line["recall"] for line in found]
        last = found[-1]
        micros = [f"{last[key]:,.1f}" if key in last else "-" for key in ("insert_us", "delete_us")]
        slowest = max((us for line in found for us in step_us(line, "delete")), default=None)
        micros.append(f"{slowest:,.1f}" if slowest is not None else "-")
        seen = sum(line["ghosts"] for line in found)
        cells = [f"{recalls[0]:.3f}", f"{min(recalls):.3f}", f"{recalls[-1]:.3f}", *micros]
        grown = f"{found[0]['bytes'] / 1e6:,.0f} to {last['bytes'] / 1e6:,.0f}"
        rows.append([name, *cells, grown, traces(last), str(seen), f"{last['rate']:,.0f}"])
    head = (
        "by",
        "recall at first",
        "at worst",
        "at the end",
        "us/insert",
        "us/delete",
        "in the slowest step",
        "MB in memory",
        "deleted found in files",
        "deleted returned",
        "queries/s",
    )
    return Table(f"{data}{among(lines, data, 'streaming', 'search')}: over a stream", head, rows)


def step_us(line: Line, operation: str) -> list[float]:
    """Microseconds a record of each change of this kind since the search before."""
    return [
        1e6 * change["seconds"] / change["records"]
        for change in line.get("changes", ())
        if change["operation"] == operation
    ]


def traces(line: Line) -> str:
    """How many of the deleted records that were looked for were found in the files."""
    if not line.get("looked_for"):
        return ""
    told = f"{line['traces']} of {line['looked_for']}"
    return told if line["control"] else f"{told} (nor of living ones: quantised)"


def out_table(lines: list[Line]) -> Table:
    """Who did not take part, and why."""
    seen: dict[tuple[str, str], list[str]] = {}
    for line in lines:
        if line.get("what") == "out":
            why = f"skipped: {line['skipped']}" if "skipped" in line else f"failed: {line['error']}"
            place = f"{line['part']} ({line['data']})"
            seen.setdefault((line["competitor"], why), [])
            if place not in seen[line["competitor"], why]:
                seen[line["competitor"], why].append(place)
    for data in data_names(lines):
        for name in not_part(lines, data):
            seen.setdefault((name, "not part of this run"), []).append(f"peers ({data})")
    rows = [[name, why, ", ".join(places)] for (name, why), places in seen.items()]
    return Table("Skipped and failed", ("who", "why", "where"), rows)


def not_part(lines: list[Line], data: str) -> list[str]:
    """The peers of the list that a run of `peers` says nothing of: it was not asked for them, or did not know them."""
    told = {line.get("competitor") for line in results_of(lines, "peers", data)}
    known = [peer().name for name, peer in SEARCHING.items() if name != "lsh"]  # experiment 1 has that one
    return [name for name in known if name not in told] if told else []


# Sentences -----------------------------------------------------------------------------------------------------------


def how_chosen(lines: list[Line]) -> str:
    """On which queries settings were chosen, as far as the results say."""
    peers = [line for line in lines if line["part"] == "peers" and "queries" in line]
    if not peers:
        return ""
    apart = [data for data in data_names(peers) if all(line.get("tuning") for line in peers if line["data"] == data)]
    if apart == data_names(peers):
        return " Settings are chosen on other queries than those that are timed."
    others = f" Of {', '.join(apart)} they were." if apart else ""
    return f" That settings were chosen on other queries than those that are timed, these results do not say.{others}"


def best_of_ours(curves: dict[str, list[tuple[float, float]]], level: float) -> tuple[str, float] | None:
    """Our fastest at this recall, by name."""
    rates = {name: rate for name, front in curves.items() if is_ours(name) and (rate := rate_at(front, level))}
    return max(rates.items(), key=lambda item: item[1]) if rates else None


def losses(lines: list[Line], data: str) -> list[str]:
    """Where another is better than ours, one sentence each."""
    said = []
    curves = fronts(of(lines, "peers", data, "point"))
    for level in LEVELS:
        best = best_of_ours(curves, level)
        rates = {name: rate for name, front in curves.items() if not is_ours(name) and (rate := rate_at(front, level))}
        faster = sorted((name for name in rates if not best or rates[name] > best[1]), key=lambda name: -rates[name])
        if not faster:
            continue
        mine = f"ours answers at most {best[1]:,.0f} queries/s ({best[0]})" if best else "ours does not reach it"
        told = [
            f"{name} {rates[name]:,.0f}" + (f" ({rates[name] / best[1]:.1f} times as many)" if best else "")
            for name in faster
        ]
        said.append(f"Speed at recall@10 of {level}: {mine}; faster are {', '.join(told)}.")
    built = {line["competitor"]: line for line in of(lines, "peers", data, "build")}
    default = built.get("lethevec (default)")
    if default:
        for key, what, scale, unit in (("cpu", "Building", 1.0, "s of CPU"), ("bytes", "Memory", 1e6, "MB")):
            less = [
                f"{name} ({line[key] / scale:,.3g})"
                for name, line in built.items()
                if not is_ours(name) and line[key] < default[key]
            ]
            if less:
                said.append(f"{what}: ours takes {default[key] / scale:,.3g} {unit}; less have {', '.join(less)}.")
    times = {line["competitor"]: float(np.mean(line["seconds"])) for line in of(lines, "paper3", data, "deletion")}
    for mine in ("lethevec, in memory", "lethevec, durable"):
        faster = [f"{name} ({duration(t)})" for name, t in times.items() if _foreign(name) and t < times.get(mine, 0)]
        if faster:
            said.append(f"Deleting one: {mine} takes {duration(times[mine])}; faster are {', '.join(faster)}.")
    return said


def _foreign(name: str) -> bool:
    """Not ours in any mode: the paper's families run in ours too."""
    return not is_ours(name) and not name.startswith(("simHash", "Super-Bit", "USR"))


def meaning(lines: list[Line], data: str) -> list[str]:
    """What the results of a data set come to, in a few sentences."""
    said: list[str] = []
    areas = {(line["competitor"], line["step"]): line["area"] for line in of(lines, "paper2", data, "curve")}
    usr, base, key = FAMILIES["usr"], FAMILIES["simhash"], paper.key_of(data)
    if all((name, step) in areas for name in (usr, base) for step in ("low", "high")):
        gains = [100 * (areas[usr, step] / areas[base, step] - 1) for step in ("low", "high")]
        there = paper.IMPROVEMENTS.get((key or "", "usr"))
        beside = f"; on the whole of its set the paper has {there[0]:+d} % and {there[1]:+d} %" if there else ""
        told = f"{gains[0]:+.0f} % with short codes and {gains[1]:+.0f} % with long ones"
        said.append(f"USR's area under the precision-recall curve, against that of simHash: {told}{beside}.")
    said += _speed(lines, data) + _forgetting(lines, data)
    return said


def _speed(lines: list[Line], data: str) -> list[str]:
    curves = fronts(of(lines, "peers", data, "point"))
    best = best_of_ours(curves, 0.9)
    if best is None:
        return []
    others = {n: r for n, f in curves.items() if not is_ours(n) and n != EXACT and (r := rate_at(f, 0.9))}
    faster = sorted((n for n in others if others[n] > best[1]), key=lambda n: -others[n])
    told = [f"{name} ({others[name] / best[1]:.1f} times as many)" for name in faster]
    slower = [name for name in others if name not in faster]
    ran = [name for name in curves if not is_ours(name) and name != EXACT]
    text = (
        f"At recall@10 of 0.9 our best, {best[0]}, answers {best[1]:,.0f} queries/s on one thread. Of the {len(ran)} "
    )
    text += "peers that ran, faster are " + (f"{', '.join(told)}; " if told else "none; ")
    text += f"slower are {', '.join(slower)}" if slower else "slower is none"
    short = [name for name in ran if name not in others]
    text += f"; {', '.join(short)} did not reach this recall." if short else "."
    missing = list(dict.fromkeys(line["competitor"] for line in of(lines, "peers", data, "out")))
    text += f" Not compared, because they did not run: {', '.join(missing)}." if missing else ""
    absent = not_part(lines, data)
    return [text + (f" Not part of this run: {'; '.join(absent)}." if absent else "")]  # some have commas in them


def _forgetting(lines: list[Line], data: str) -> list[str]:
    said = []
    times: dict[str, Any] = {line["competitor"]: line for line in of(lines, "paper3", data, "deletion")}
    mine = times.get("lethevec, in memory")
    again = [line for line in times.values() if line["how"] == "retrained"]
    if mine and again:
        one = float(np.mean(mine["seconds"]))
        costs = [float(np.mean(line["seconds"])) for line in again]
        durable = times.get("lethevec, durable")
        stored = f" ({duration(float(np.mean(durable['seconds'])))} in the durable store)" if durable else ""
        said.append(
            f"Forgetting one record takes {duration(one)}{stored}; training again, as the paper has its learned rivals "
            f"do, {duration(min(costs))} to {duration(max(costs))}."
        )
    decay = of(lines, "paper3", data, "decay")
    last = [line for line in decay if line["deleted"]]
    leaky = sorted({line["competitor"].split(",")[0] for line in last if line["traces"]})
    clean = [line for line in last if is_ours(line["competitor"])]
    if clean and not any(line["traces"] for line in clean):
        rest = f"; in those of {', '.join(leaky)} they are" if leaky else ""
        said.append(f"No piece of a forgotten vector is found in our files after any of the deletions{rest}.")
    levels = {line["level"] for line in last}
    reached = {line["competitor"]: set[float]() for line in decay if is_ours(line["competitor"])}
    for line in clean:
        reached[line["competitor"]].add(line["level"])
    said += [f"{name} did not get through all of them: see the end." for name in reached if reached[name] != levels]
    return said
