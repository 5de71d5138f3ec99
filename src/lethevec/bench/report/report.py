"""The report of a run: one HTML file that needs nothing else, and a Markdown page for a folder of documents.

Both say where ours loses, what was run and on what machine, and show the figures and the tables. All of it is made from
the lines of the results, so a report can be made again at any time: `lethevec bench report --out FOLDER`.
"""

from __future__ import annotations

import base64
import html
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..measuring.field import Line
from . import analysis, figures, front
from .figures import Figure
from .results import NAME, read, results_of
from .tables import Table, markdown

INTRO = (
    "Queries are asked one at a time, on one thread that is bound to one CPU. Competitors take turns, each in its own "
    "process; rates are medians of the rounds. An answer is right when it is as near as the k-th true neighbour, "
    "whichever of equally near ones it is."
)


@dataclass(frozen=True)
class Section:
    """A heading with what stands under it."""

    title: str
    texts: list[str]
    bullets: list[str]
    figures: list[Figure]
    tables: list[Table]


def sections(lines: list[Line], drawn: dict[str, list[Figure]], command: str) -> list[Section]:
    """The whole report, in order."""
    names = analysis.data_names(lines)
    made = []
    if any(line["part"] in ("peers", "paper3") for line in lines):
        lost = [f"{data}. {sentence}" for data in names for sentence in analysis.losses(lines, data)]
        made.append(Section("Where we lose", [] if lost else ["Nowhere in this run."], lost, [], []))
    said = [f"{data}. {' '.join(told)}" for data in names if (told := analysis.meaning(lines, data))]
    made += [Section("What it means", said, [], [], [])] if said else []
    made.append(
        Section(
            "What was run",
            [INTRO + analysis.how_chosen(lines), f"Made by: {command}"],
            _machine(lines),
            [],
            _sets(lines),
        )
    )
    for data in names:
        shown = {figure.name.split("-")[0]: figure for figure in drawn.get(data, [])}
        for part, title, table_of in (
            ("peers", "Every peer at its best", analysis.peers_table),
            ("paper1", "Experiment 1: speed and precision", analysis.paper1_table),
            ("paper2", "Experiment 2: precision and recall", analysis.paper2_table),
            ("paper3", "Experiment 3: the time to delete", analysis.deletion_table),
            ("decay", "After deletions: recall, memory, residue", analysis.decay_table),
            ("streaming", "A stream of changes", analysis.streaming_table),
        ):
            table = table_of(lines, data)
            if part in shown or table.rows:
                pictures = [shown[part]] if part in shown else []
                made.append(Section(f"{title}, {data}", [], [], pictures, [table] if table.rows else []))
    made += _single(lines)
    out = analysis.out_table(lines)
    made.append(Section("Skipped and failed", [] if out.rows else ["Nobody."], [], [], [out] if out.rows else []))
    return made


def _single(lines: list[Line]) -> list[Section]:
    """The experiments that bring their own tables and figures."""
    made = []
    for part, data in dict.fromkeys((line["part"], line["data"]) for line in lines):
        found = results_of(lines, part, data)
        tables = [Table(line["title"], line["head"], line["rows"]) for line in found if line.get("what") == "table"]
        pictures = figures.own_figures(found)
        if tables or pictures:
            made.append(Section(f"{part}, {data}" if data else part, [], [], pictures, tables))
    return made


def _machine(lines: list[Line]) -> list[str]:
    """What the figures depend on; more than one entry when a run was resumed elsewhere or later."""
    said = []
    for run in dict.fromkeys(line["run"] for line in lines):
        first = next(line for line in lines if line["run"] == run)
        machine: dict[str, Any] = first["machine"]
        versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
        said.append(
            f"Run {run}: {machine['cpu']}, {machine['cores']} cores, instructions {machine['isa']}, load "
            f"{machine['load']:.1f} at the start, {machine['system']}, Python {machine['python']}; {versions}; "
            f"commit {machine['commit']}."
        )
        took = sum(line["seconds"] for line in lines if line["run"] == run and line.get("ended"))
        said.append(f"It took {took / 60:.0f} minutes.")
        options = {k: v for k, v in first["parameters"].items() if v not in (None, [], "", ())}
        said.append("Options: " + ", ".join(f"{name} = {value}" for name, value in options.items()) + ".")
    return said


def _sets(lines: list[Line]) -> list[Table]:
    rows = []
    for data in analysis.data_names(lines):
        about = max((line for line in lines if line["data"] == data and "records" in line), key=lambda x: x["records"])
        rows.append([data, f"{about['records']:,}", str(about["dim"]), about["metric"], f"{about['queries']:,}"])
    return [Table("Data sets", ("data set", "vectors", "dim", "metric", "queries"), rows)] if rows else []


# HTML ----------------------------------------------------------------------------------------------------------------

CSS = """
body { font: 15px/1.5 system-ui, sans-serif; color: #1c2430; max-width: 1080px; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { margin-top: 2.5rem; border-bottom: 1px solid #d5dbe3; padding-bottom: .3rem; }
figure { margin: 1rem 0; } figure img { max-width: 100%; height: auto; }
figcaption { color: #55606e; font-size: .9rem; }
table { border-collapse: collapse; font-size: .88rem; margin: 1rem 0; } caption { text-align: left; font-weight: 600; }
th, td { padding: .25rem .7rem; border-bottom: 1px solid #e4e9ef; text-align: left; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; } tr.ours td { background: #fdf1f0; }
nav a { margin-right: 1rem; white-space: nowrap; } .scroll { overflow-x: auto; }
"""


def to_html(made: list[Section], folder: Path, title: str) -> str:
    """One page with its pictures inside."""
    body = [f"<h1>{html.escape(title)}</h1>", "<nav>"]
    body += [f'<a href="#s{i}">{html.escape(section.title)}</a>' for i, section in enumerate(made)]
    body.append("</nav>")
    for i, section in enumerate(made):
        body.append(f'<section id="s{i}"><h2>{html.escape(section.title)}</h2>')
        body += [f"<p>{html.escape(text)}</p>" for text in section.texts]
        if section.bullets:
            body.append("<ul>" + "".join(f"<li>{html.escape(text)}</li>" for text in section.bullets) + "</ul>")
        body += [_figure(figure, folder) for figure in section.figures]
        body += [_table(table) for table in section.tables]
        body.append("</section>")
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{html.escape(title)}</title>'
    )
    return f"<!doctype html>\n<html lang='en'><head>{head}<style>{CSS}</style></head><body>\n" + "\n".join(
        [*body, "</body></html>\n"]
    )


def _figure(figure: Figure, folder: Path) -> str:
    # As an image of its own: the ids inside of several SVGs would be mixed up otherwise.
    data = base64.b64encode((folder / f"{figure.name}.svg").read_bytes()).decode()
    picture = f'<img alt="{html.escape(figure.title)}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{picture}<figcaption>{html.escape(f'{figure.title}. {figure.caption}')}</figcaption></figure>"


def _table(table: Table) -> str:
    rows = []
    for row in table.rows:
        ours = any(cell.startswith("lethevec") for cell in row[:2])
        cells = "".join(f"<td{' class=n' if _number(cell) else ''}>{html.escape(cell)}</td>" for cell in row)
        rows.append(f"<tr{' class=ours' if ours else ''}>{cells}</tr>")
    head = "".join(f"<th>{html.escape(cell)}</th>" for cell in table.head)
    whole = f"<caption>{html.escape(table.title)}</caption><tr>{head}</tr>" + "".join(rows)
    return f'<div class="scroll"><table>{whole}</table></div>'


def _number(cell: str) -> bool:
    return cell[:1].isdigit() or cell[:1] in "+-"


# Markdown ------------------------------------------------------------------------------------------------------------


def to_markdown(made: list[Section], title: str) -> str:
    """The same as a page beside the pictures."""
    parts = [
        f"# {title}",
        "The same as one page: [report.html](report.html). The results: [results.jsonl](results.jsonl).",
    ]
    for section in made:
        parts.append(f"## {section.title}")
        parts += [f"    {text[9:]}" if text.startswith("Made by: ") else text for text in section.texts]
        if section.bullets:
            parts.append("\n".join(f"* {text}" for text in section.bullets))
        for figure in section.figures:
            parts.append(f"![{figure.title}]({figure.name}.svg)")
            parts.append(f"{figure.caption} ([PNG]({figure.name}.png), [numbers]({figure.name}.csv))")
        parts += [f"{table.title}:\n\n{markdown(table.head, table.rows)}" for table in section.tables]
    return "\n\n".join(parts) + "\n"


def make(folder: Path, command: str, docs: Path | None = None) -> Path:
    """Draw and write the report of the results in a folder; with `docs`, all that a reader needs goes there too."""
    lines = read(folder / NAME)
    if not lines:
        raise SystemExit(f"{folder / NAME}: expected results of a run, got none")
    drawn = figures.draw_all(lines, folder)
    made = sections(lines, drawn, command)
    title = "Lethevec beside its peers"
    page = folder / "report.html"
    page.write_text(to_html(made, folder, title), encoding="utf-8")
    (folder / "report.md").write_text(to_markdown(made, title), encoding="utf-8")
    if docs is not None:
        docs.mkdir(parents=True, exist_ok=True)
        own = figures.own_figures(lines)
        for figure in [*(figure for group in drawn.values() for figure in group), *own]:
            for suffix in ("svg", "png", "csv"):
                shutil.copy(folder / f"{figure.name}.{suffix}", docs)
        for name in (NAME, "report.html"):
            shutil.copy(folder / name, docs)
        for path in folder.glob("runbook-*.yaml"):
            shutil.copy(path, docs)
        shutil.copy(folder / "report.md", docs / "README.md")
        measured = {line["part"]: line["data"] for line in reversed(lines)}  # of each part the first data set
        if "residue" in measured:
            front.draw(lines, measured.get("peers", ""), docs / "front.svg")
    return page
