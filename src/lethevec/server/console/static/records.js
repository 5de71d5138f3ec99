// Records in a table, page by page, and one of them whole.

import { ask, path } from "./api.js";
import { h } from "./dom.js";
import { count, day, time, value } from "./format.js";
import { button, dialog, empty, facts, pager, show, table } from "./parts.js";

export const PAGE = 25;
const SHOWN = 4; // fields of payloads that have columns of their own

/** The rows of an answer in columns. */
export function rowsOf(answer) {
  return answer.ids.map((id, place) => ({
    id,
    subject: answer.subjects?.[place] ?? null,
    payload: answer.payloads?.[place] ?? null,
    expires: answer.expires?.[place] ?? null,
    distance: answer.distances?.[place],
  }));
}

/** The fields that most payloads have. */
export function fieldsOf(rows) {
  const counted = new Map();
  for (const row of rows) for (const name of Object.keys(row.payload || {})) counted.set(name, (counted.get(name) || 0) + 1);
  return [...counted].sort((one, other) => other[1] - one[1]).map(([name]) => name);
}

export function recordTable(caption, collection, rows, { onSimilar, withSubject = true } = {}) {
  const fields = fieldsOf(rows);
  return table(
    caption,
    [
      { title: "Id", cell: (row) => h("code", {}, String(row.id)) },
      rows.some((row) => row.distance !== undefined) && { title: "Distance", kind: "number", cell: (row) => row.distance.toFixed(4) },
      withSubject && { title: "Person", cell: (row) => (row.subject === null ? h("span", { class: "muted" }, "nobody") : h("span", { class: "name" }, row.subject)) },
      ...fields.slice(0, SHOWN).map((name) => ({ title: name, cell: (row) => clipped(row.payload?.[name]) })),
      fields.length > SHOWN && { title: "More", cell: (row) => `${Object.keys(row.payload || {}).length} fields` },
      rows.some((row) => row.expires) && { title: "Kept until", kind: "moment", cell: (row) => (row.expires ? h("span", { title: time(row.expires) }, day(row.expires)) : "for ever") },
      {
        title: "Actions",
        kind: "actions-column",
        cell: (row) =>
          h(
            "div",
            { class: "row tight" },
            button("Open", () => open(collection, row), { small: true, label: `Open record ${row.id}` }),
            onSimilar && button("Similar", () => onSimilar(row), { small: true, label: `Records similar to ${row.id}` }),
          ),
      },
    ].filter(Boolean),
    rows,
  );
}

function clipped(content) {
  const text = value(content);
  return h("span", { class: "clip", title: text.length > 40 ? text.slice(0, 500) : null }, text.length > 80 ? `${text.slice(0, 80)}…` : text);
}

/** One record, whole: its payload field by field, and what its vector looks like. */
export function open(collection, row) {
  const stop = new AbortController();
  const view = { signal: stop.signal };
  dialog(
    "Record",
    () => {
      const place = h("div", {});
      show(place, view, async () => {
        const body = { ids: [row.id], include: ["vectors", "subjects", "payloads", "expires"] };
        const answer = await ask(path(collection, "get"), body, view);
        const vector = answer.vectors[0];
        return [
          facts([
            ["Id", h("code", {}, String(row.id))],
            ["Collection", collection],
            ["Person", answer.subjects[0] ?? "nobody"],
            ["Kept until", answer.expires[0] ? time(answer.expires[0]) : "for ever"],
            ["Vector", vector === null ? "none" : `${count(vector.length)} numbers, length ${Math.hypot(...vector).toFixed(3)}`],
          ]),
          vector !== null && strip(vector),
          h("h3", {}, "Payload"),
          answer.payloads[0] === null
            ? h("p", { class: "muted" }, "It has none.")
            : facts(Object.entries(answer.payloads[0]).map(([name, content]) => [name, h("span", { class: "wrap" }, value(content))])),
        ];
      });
      return place;
    },
    { onClose: () => stop.abort(), wide: true },
  );
}

/** The numbers of a vector as stripes: dark where they are far from zero. */
function strip(vector) {
  const shown = vector.slice(0, 256);
  const most = Math.max(...shown.map(Math.abs)) || 1;
  return h(
    "div",
    { class: "strip", role: "img", "aria-label": "The numbers of the vector as stripes" },
    shown.map((number) => {
      const stripe = h("span", { class: number < 0 ? "below-zero" : null });
      stripe.style.opacity = String(0.08 + (0.92 * Math.abs(number)) / most);
      return stripe;
    }),
  );
}

/** Records that a question gives, with pages. `question()` is the body of `get` without its page. */
export function pages(place, view, collection, question, { caption, total, onSimilar, withSubject, onRows, nothing }) {
  const before = [];
  let after = null;
  const draw = () =>
    show(
      place,
      view,
      async () => {
        const body = { ...question(), limit: PAGE, include: ["subjects", "payloads", "expires"] };
        if (after !== null) body.after = after;
        const answer = await ask(path(collection, "get"), body, view);
        const rows = rowsOf(answer);
        onRows?.(rows);
        if (rows.length === 0 && before.length === 0) return nothing;
        const first = before.length * PAGE + 1;
        const of = total() === null ? "" : ` of ${count(total())}`;
        return [
          recordTable(caption, collection, rows, { onSimilar, withSubject }),
          pager(
            { canGoBack: before.length > 0, canGoOn: answer.next !== null },
            {
              previous: () => {
                after = before.pop();
                draw();
              },
              next: () => {
                before.push(after);
                after = answer.next;
                draw();
              },
              text: rows.length === 0 ? "no more" : `${count(first)} to ${count(first + rows.length - 1)}${of}`,
            },
          ),
        ];
      },
      "Reading a page",
    );
  draw();
}

export const nothingFound = () => empty("find", "No record fits", "Take a condition away, or check the spelling: capital letters count.");
