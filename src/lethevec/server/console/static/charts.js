// Pictures of numbers. Each says in words what it shows, and has its numbers as a table beneath.

import { h, s } from "./dom.js";
import { count } from "./format.js";

function figure(title, note, summary, picture, rows) {
  return h(
    "figure",
    { class: "figure" },
    h("figcaption", {}, h("span", { class: "figure-title" }, title), note && h("span", { class: "muted" }, note)),
    h("div", { class: "picture", role: "img", "aria-label": summary }, picture),
    rows &&
      h(
        "details",
        {},
        h("summary", {}, "As a table"),
        h(
          "div",
          { class: "table", tabindex: "0", role: "region", "aria-label": `${title}, as a table` },
          h(
            "table",
            {},
            h("caption", { class: "hidden" }, title),
            h("thead", {}, h("tr", {}, rows.head.map((text) => h("th", { scope: "col" }, text)))),
            h("tbody", {}, rows.body.map((row) => h("tr", {}, row.map((cell) => h("td", {}, cell))))),
          ),
        ),
      ),
  );
}

/** Upright bars, for what happens over time. `bars`: {label, value}. */
export function columns(title, note, bars, { head, shown = count }) {
  const most = Math.max(...bars.map((bar) => bar.value), 1);
  const every = Math.max(1, Math.ceil(bars.length / 4));
  const picture = h(
    "div",
    { class: "columns" },
    h("div", { class: "columns-scale" }, h("span", {}, shown(most)), h("span", {}, "0")),
    h(
      "div",
      { class: "columns-bars" },
      bars.map((bar, place) => {
        const piece = h("div", { class: "column-bar" });
        piece.style.height = `${bar.value ? Math.max(1.5, (bar.value / most) * 100) : 0}%`;
        const column = h("div", { class: "column", title: `${bar.label}: ${shown(bar.value)}` }, h("div", { class: "column-room" }, piece));
        column.append(h("span", { class: "column-label" }, place % every === 0 ? bar.short || bar.label : ""));
        return column;
      }),
    ),
  );
  const largest = bars.reduce((best, bar) => (bar.value > best.value ? bar : best), bars[0]);
  const summary = `${title}: ${bars.length} bars, the highest at ${largest.label} with ${shown(largest.value)}.`;
  return figure(title, note, summary, picture, { head, body: bars.map((bar) => [bar.label, shown(bar.value)]) });
}

/** Lying bars, for who has most. */
export function bars(title, note, rows, { head, shown = count }) {
  const most = Math.max(...rows.map((row) => row.value), 1e-9);
  const picture = h(
    "div",
    { class: "bars" },
    rows.map((row) => {
      const piece = h("div", { class: "bar-piece" });
      piece.style.width = `${Math.max(1, (row.value / most) * 100)}%`;
      return h(
        "div",
        { class: "bar" },
        h("span", { class: "bar-label", title: row.label }, row.label),
        h("div", { class: "bar-room" }, piece),
        h("span", { class: "bar-value" }, shown(row.value)),
      );
    }),
  );
  const summary = `${title}: ${rows.length} bars, the longest is ${rows[0].label} with ${shown(rows[0].value)}.`;
  return figure(title, note, summary, picture, { head, body: rows.map((row) => [row.label, shown(row.value)]) });
}

/** Points in the plane. `points`: {x, y, label, group}; groups have colours, from 0; -1 is everybody else. */
export function scatter(title, note, points, groups) {
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y);
  const [left, right] = [Math.min(...xs), Math.max(...xs)];
  const [low, high] = [Math.min(...ys), Math.max(...ys)];
  const place = (value, from, to, size) => 12 + ((value - from) / (to - from || 1)) * (size - 24);
  const picture = s(
    "svg",
    { class: "scatter", viewBox: "0 0 800 380", preserveAspectRatio: "xMidYMid meet" },
    [...points]
      .sort((one, other) => one.group - other.group)
      .map((point) =>
        s(
          "circle",
          {
            class: point.group < 0 ? "dot" : `dot group-${point.group}`,
            cx: place(point.x, left, right, 800).toFixed(1),
            cy: (380 - place(point.y, low, high, 380)).toFixed(1),
            r: 3.6,
          },
          s("title", {}, point.label),
        ),
      ),
  );
  const legend =
    groups.length > 0 &&
    h(
      "ul",
      { class: "legend" },
      groups.map((name, number) => h("li", {}, h("span", { class: `swatch group-${number}` }), name)),
      h("li", {}, h("span", { class: "swatch" }), "everybody else"),
    );
  const summary = `${title}: ${points.length} points, nearer to each other the more alike their vectors are.`;
  const made = figure(title, note, summary, picture);
  if (legend) made.append(legend);
  return made;
}

/** A line that moves: the last values of something, newest at the right. */
export function line(title, unit, room = 60) {
  const path = s("path", { class: "line" });
  const area = s("path", { class: "line-area" });
  const svg = s("svg", { class: "line-picture", viewBox: "0 0 100 40", preserveAspectRatio: "none" }, area, path);
  const now = h("span", { class: "line-now" }, "–");
  const top = h("span", { class: "line-top" }, "");
  const picture = h("div", { class: "picture", role: "img", "aria-label": `${title}: no values yet.` }, svg, top);
  const made = h(
    "figure",
    { class: "figure line-figure" },
    h("figcaption", {}, h("span", { class: "figure-title" }, title), now),
    picture,
  );
  const values = [];
  return {
    whole: made,
    values,
    add(value) {
      values.push(value);
      if (values.length > room) values.shift();
      const known = values.filter((one) => one !== null);
      const most = Math.max(...known, 1e-9);
      const step = 100 / (room - 1);
      const first = room - values.length;
      const points = values
        .map((one, at) => (one === null ? null : `${((first + at) * step).toFixed(2)} ${(38 - (one / most) * 34).toFixed(2)}`))
        .filter(Boolean);
      if (points.length > 0) {
        path.setAttribute("d", `M${points.join("L")}`);
        const begin = points[0].split(" ")[0];
        const end = points[points.length - 1].split(" ")[0];
        area.setAttribute("d", `M${begin} 40L${points.join("L")}L${end} 40Z`);
      }
      const shown = value === null ? "–" : unit(value);
      now.textContent = shown;
      top.textContent = known.length === 0 ? "" : unit(most > 1e-9 ? most : 0);
      picture.setAttribute("aria-label", `${title}: now ${shown}, at most ${unit(most)} in the last two minutes.`);
    },
  };
}
