// What there is: all collections, and a picture of one. Nothing here reads all records: pictures are of a sample, and
// exact counts of a large collection are made when somebody asks for them.

import { ask, get, path } from "../api.js";
import { bars, columns, scatter } from "../charts.js";
import { h, put } from "../dom.js";
import { bytes, compact, count, day, duration, many, month, percent } from "../format.js";
import { button, card, empty, field, heading, link, notice, pill, show, table, tile } from "../parts.js";
import { project } from "../projection.js";
import { may } from "../session.js";

const FEW = 300000; // records that are counted at once
const ROWS = 50; // collections on a page
const NUMBERS = 600000; // of the vectors of a sample, together
const SAMPLE = 600;
const METRICS = { cosine: "cosine", l2: "Euclidean", ip: "inner product" };

export const kept = (seconds) => (seconds === null ? "for ever" : duration(seconds));

export function collections(view) {
  const place = h("div", {});
  show(place, view, async () => list((await get("/v1/collections", { signal: view.signal })).collections));
  return [heading("Collections", "What this server holds, and for how long."), place];
}

function list(found) {
  if (found.length === 0) {
    return empty("collections", "No collections yet", "A program makes one when it first writes. It will be listed here.");
  }
  const total = found.reduce((sum, one) => sum + one.records, 0);
  const due = found.reduce((sum, one) => sum + one.expired, 0);
  const place = h("div", {});
  const filter = field("Name", { type: "search", placeholder: "Part of a name" });
  let from = 0;
  const draw = () => {
    const wanted = filter.input.value.trim().toLowerCase();
    const fitting = found.filter((one) => one.name.toLowerCase().includes(wanted));
    from = Math.max(0, Math.min(from, fitting.length - 1));
    const page = fitting.slice(from, from + ROWS);
    put(
      place,
      page.length === 0
        ? empty("find", "No collection has such a name", "Try a shorter part of it.")
        : table(
            "Collections",
            [
              { title: "Name", cell: (one) => link(one.name, `#/collections/${encodeURIComponent(one.name)}`) },
              { title: "Records", kind: "number", cell: (one) => count(one.records) },
              { title: "Numbers in a vector", kind: "number", cell: (one) => count(one.dim) },
              { title: "Distance", cell: (one) => METRICS[one.metric] || one.metric },
              { title: "Kept", cell: (one) => kept(one.expires) },
              { title: "At rest", cell: (one) => (one.encrypted ? pill("sealed", "good") : "in the clear") },
              { title: "Due", kind: "number", cell: (one) => (one.expired ? pill(count(one.expired), "warn") : "0") },
            ],
            page,
          ),
      fitting.length > ROWS &&
        h(
          "nav",
          { class: "pager", "aria-label": "Pages" },
          button("Previous", () => { from -= ROWS; draw(); }, { small: true, picture: "back", disabled: from === 0 }),
          h("span", { class: "muted" }, `${count(from + 1)} to ${count(from + page.length)} of ${count(fitting.length)}`),
          button("Next", () => { from += ROWS; draw(); }, { small: true, picture: "next", disabled: from + ROWS >= fitting.length }),
        ),
    );
  };
  filter.input.addEventListener("input", draw);
  draw();
  return [
    h(
      "div",
      { class: "tiles" },
      tile("Collections", count(found.length)),
      tile("Records", compact(total), total >= 100000 ? count(total) : null),
      tile("Due to be erased", count(due), due ? "in no answer any more; erased at the next round" : "nothing waits"),
    ),
    h("section", { class: "card flush" }, found.length > 8 && h("div", { class: "bar-top" }, filter.whole), place),
  ];
}

export function collection(view, name) {
  const place = h("div", {});
  show(place, view, async () => draw(view, await get(path(name), { signal: view.signal })));
  return [
    heading(
      name,
      "A picture of what is in it.",
      link("All collections", "#/collections", "button"),
      may("read") && link("Find in it", `#/find/${encodeURIComponent(name)}`, "button primary"),
    ),
    place,
  ];
}

function draw(view, told) {
  const counts = h("div", {});
  const pictures = h("div", { class: "pictures" });
  const exactly = () =>
    show(counts, view, async () => tiles(told, await get(path(told.name, "survey"), { signal: view.signal })), "Counting");
  if (told.records <= FEW) exactly();
  else put(counts, tiles(told, null, exactly));
  if (told.records === 0) {
    put(pictures, card(null, empty("collections", "Nothing is in it", "Pictures appear when there are records.")));
  } else if (may("read")) {
    show(pictures, view, () => sampled(view, told), "Taking a sample");
  } else {
    put(pictures, notice("info", "No pictures with this key", "They show records, and your key may not read any."));
  }
  return [counts, pictures];
}

function tiles(told, survey, exactly) {
  return h(
    "div",
    { class: "tiles" },
    tile("Records", compact(told.records), `${count(told.dim)} numbers each, ${METRICS[told.metric] || told.metric}`),
    survey
      ? tile("People", count(survey.subjects), survey.without_subject ? `${many(survey.without_subject, "record")} of nobody` : "every record has one")
      : tile("People", button("Count exactly", exactly, { small: true }), "it reads every record once"),
    tile("Kept", kept(told.expires), told.expired ? `${count(told.expired)} due now` : "nothing is due"),
    survey
      ? tile("In files", bytes(survey.bytes_files), told.encrypted ? "sealed, each record under a key of its own" : "in the clear")
      : tile("At rest", told.encrypted ? "Sealed" : "In the clear"),
  );
}

async function sampled(view, told) {
  const wanted = Math.max(50, Math.min(SAMPLE, Math.floor(NUMBERS / told.dim)));
  const body = { count: wanted, include: ["vectors", "subjects", "expires"], encoding: "base64" };
  const sample = await ask(path(told.name, "sample"), body, { signal: view.signal });
  const whole = sample.ids.length >= told.records;
  const share = told.records / Math.max(1, sample.ids.length);
  const note = whole ? `all ${many(sample.ids.length, "record")}` : `from a sample of ${many(sample.ids.length, "record")}`;
  return [
    expiry(sample, share, whole, note, told),
    people(sample, whole, note),
    plane(sample, told, note),
  ];
}

function expiry(sample, share, whole, note, told) {
  const due = sample.expires.filter(Boolean).map((text) => new Date(text).getTime());
  const never = sample.ids.length - due.length;
  if (due.length === 0) {
    return h(
      "section",
      { class: "card" },
      empty("wait", "Nothing here is ever due", told.expires === null ? "Records are kept for ever unless they say otherwise. Holds and retention changes that." : "Records that are added from now on will be."),
    );
  }
  const first = Math.min(...due);
  const last = Math.max(...due);
  const parts = Math.max(1, Math.min(24, due.length));
  const step = Math.max(1, (last - first) / parts);
  const values = new Array(parts).fill(0);
  for (const at of due) values[Math.min(parts - 1, Math.floor((at - first) / step))] += share;
  const text = never ? `${note}; ${percent(never / sample.ids.length)} are kept for ever` : note;
  return h(
    "section",
    { class: "card" },
    columns("Records becoming due", whole ? text : `about, ${text}`, values.map((value, place) => ({ label: day(first + place * step), short: last - first > 90 * 86400000 ? month(first + place * step) : null, value })), {
      head: ["From", "Records"],
      shown: compact,
    }),
  );
}

function people(sample, whole, note) {
  const counted = new Map();
  let nobody = 0;
  for (const subject of sample.subjects) {
    if (subject === null) nobody += 1;
    else counted.set(subject, (counted.get(subject) || 0) + 1);
  }
  if (counted.size === 0) {
    return h("section", { class: "card" }, empty("person", "No record belongs to a person", "Programs name a subject when they write, and then all of a person can be found and erased."));
  }
  const rows = [...counted].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).slice(0, 8);
  const total = sample.ids.length;
  const text = nobody ? `${note}; ${percent(nobody / total)} of nobody` : note;
  return h(
    "section",
    { class: "card" },
    bars("People with the most records", text, rows.map(([label, value]) => ({ label, value: whole ? value : value / total })), {
      head: ["Person", whole ? "Records" : "Share"],
      shown: whole ? count : percent,
    }),
  );
}

function plane(sample, told, note) {
  const { points, rows } = project(sample.vectors, told.dim, told.metric === "cosine");
  if (points.length < 3) {
    return h("section", { class: "card" }, empty("similar", "Too few vectors for a picture", "It takes three."));
  }
  const counted = new Map();
  for (const subject of sample.subjects) if (subject !== null) counted.set(subject, (counted.get(subject) || 0) + 1);
  const groups = counted.size < 2 ? [] : [...counted].sort((one, other) => other[1] - one[1] || (one[0] < other[0] ? -1 : 1)).slice(0, 4).map(([name]) => name);
  return h(
    "section",
    { class: "card" },
    scatter(
      "Vectors in the plane",
      `${note}, in the two directions in which they differ most`,
      points.map(([x, y], place) => {
        const row = rows[place];
        const subject = sample.subjects[row];
        return { x, y, group: subject === null ? -1 : groups.indexOf(subject), label: `${sample.ids[row]}${subject ? ` · ${subject}` : ""}` };
      }),
      groups,
    ),
  );
}
