// How the server is: a few numbers, and plots that move. The page asks by itself every two seconds, while it is seen.

import { get } from "../api.js";
import { line } from "../charts.js";
import { h, pause, put } from "../dom.js";
import { compact, count, milliseconds } from "../format.js";
import { heading, pill, problem, table, tile } from "../parts.js";

const EVERY = 2000;
const QUIET = new Set(["/v1/metrics", "/v1/session", "/v1/me", "/readyz", "/healthz"]); // of this page itself

export function health(view) {
  const tiles = h("div", { class: "tiles" });
  const trouble = h("div", {});
  const routes = h("div", {});
  const perSecond = (value) => `${value < 10 ? value.toFixed(1) : count(value)}/s`;
  const plots = {
    requests: line("Requests", perSecond),
    latency: line("Time taken", milliseconds),
    errors: line("Refused or failed", perSecond),
    inFlight: line("Being worked on", count),
    erased: line("Records erased", perSecond),
    records: line("Records held", compact),
  };
  watch(view, tiles, trouble, routes, plots);
  return [
    heading("Health", "As it is now; the last two minutes are drawn."),
    trouble,
    tiles,
    h("div", { class: "plots" }, Object.values(plots).map((plot) => h("section", { class: "card" }, plot.whole))),
    h("section", { class: "card flush" }, h("div", { class: "bar-top" }, h("h2", {}, "Calls since the start")), routes),
  ];
}

async function watch(view, tiles, trouble, routes, plots) {
  let last = null;
  while (!view.signal.aborted) {
    if (!document.hidden) {
      try {
        const begin = performance.now();
        const [told, ready] = await Promise.all([get("/v1/metrics", { watch: true, signal: view.signal }), fetch("/readyz", { cache: "no-store" })]);
        put(trouble);
        draw(tiles, routes, told, ready.ok, performance.now() - begin);
        const now = { at: performance.now() / 1000, told };
        if (last) move(plots, last, now);
        last = now;
      } catch (error) {
        if (view.signal.aborted) return;
        last = null;
        put(trouble, problem(error));
        for (const plot of Object.values(plots)) plot.add(null);
      }
    }
    try {
      await pause(EVERY, view.signal);
    } catch {
      return;
    }
  }
}

const total = (told, name) => told.routes.filter((one) => !QUIET.has(one.route)).reduce((sum, one) => sum + one[name], 0);
const held = (told) => Object.values(told.records).reduce((sum, number) => sum + number, 0);

function draw(tiles, routes, told, ready, took) {
  put(
    tiles,
    tile("State", ready ? pill("ready", "good") : pill("not ready", "bad"), `answered in ${milliseconds(took)}`),
    tile("Records", compact(held(told)), `${count(Object.keys(told.records).length)} collections`),
    tile("Erasures that wait", count(told.pending_erasures), told.pending_erasures ? "something is reading the files" : "none"),
    tile("Erased since the start", compact(told.erased_records), `${compact(told.expired_records)} because they were due`),
    tile("Processes", count(told.processes.length), told.processes.join(", ")),
  );
  const busiest = [...told.routes].sort((one, other) => other.requests - one.requests).slice(0, 12);
  put(
    routes,
    table(
      "Calls since the start",
      [
        { title: "Call", cell: (one) => h("code", {}, one.route) },
        { title: "Requests", kind: "number", cell: (one) => count(one.requests) },
        { title: "Refused or failed", kind: "number", cell: (one) => count(one.errors) },
        { title: "Half within", kind: "number", cell: (one) => milliseconds(one.p50_ms) },
        { title: "99 % within", kind: "number", cell: (one) => milliseconds(one.p99_ms) },
      ],
      busiest,
    ),
  );
}

function move(plots, last, now) {
  const seconds = Math.max(0.1, now.at - last.at);
  const grown = (name) => Math.max(0, total(now.told, name) - total(last.told, name));
  const requests = grown("requests");
  plots.requests.add(requests / seconds);
  plots.latency.add(requests ? (grown("seconds") / requests) * 1000 : null);
  plots.errors.add(grown("errors") / seconds);
  plots.inFlight.add(now.told.in_flight);
  plots.erased.add(Math.max(0, now.told.erased_records - last.told.erased_records) / seconds);
  plots.records.add(held(now.told));
}
