// How the server is: a few numbers, and plots that move. The page asks by itself every two seconds, while it is seen.

import { get } from "../api.js";
import { line } from "../charts.js";
import { h, pause, put } from "../dom.js";
import { compact, count, many, milliseconds } from "../format.js";
import { heading, pill, problem, table, tile } from "../parts.js";

const EVERY = 2000;
const QUIET = new Set(["/v1/metrics", "/v1/cluster", "/v1/session", "/v1/me", "/readyz", "/healthz"]); // of this page itself

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
  const shards = h("div", {});
  watch(view, tiles, trouble, routes, plots);
  watchCluster(view, shards);
  return [
    heading("Health", "As it is now; the last two minutes are drawn."),
    trouble,
    tiles,
    shards,
    h("div", { class: "plots" }, Object.values(plots).map((plot) => h("section", { class: "card" }, plot.whole))),
    h("section", { class: "card flush" }, h("div", { class: "bar-top" }, h("h2", {}, "Calls since the start")), routes),
  ];
}

async function watch(view, tiles, trouble, routes, plots) {
  let last = null;
  while (!view.signal.aborted) {
    if (!document.hidden) {
      try {
        // One after the other: of what is being worked on, exactly one is then this page's own.
        const told = await get("/v1/metrics", { watch: true, signal: view.signal });
        const begin = performance.now();
        const ready = await fetch("/readyz", { cache: "no-store", signal: view.signal });
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

/** The cluster behind the server, if there is one. A folder stays a folder, so it is asked for once. */
async function watchCluster(view, place) {
  for (;;) {
    try {
      if (!document.hidden) {
        const { cluster } = await get("/v1/cluster", { watch: true, signal: view.signal });
        if (cluster === null) return;
        const focused = place.contains(document.activeElement) && place.querySelector(".table") === document.activeElement;
        put(place, clusterCard(cluster));
        if (focused) place.querySelector(".table").focus({ preventScroll: true });
      }
      await pause(EVERY, view.signal);
    } catch (error) {
      if (view.signal.aborted) return;
      put(place, problem(error));
      await pause(EVERY, view.signal).catch(() => {});
    }
  }
}

const STATES = { live: "good", joining: "warn", away: "bad", lost: "bad" };

function clusterCard(told) {
  const away = told.members.filter((one) => one.state !== "live" || !one.reachable);
  const on = new Map(); // members, and how many erasures wait for each
  for (const one of told.waiting) for (const name of one.members) on.set(name, (on.get(name) || 0) + 1);
  const kept = new Map(told.shards.map((one) => [one.shard, one]));
  return h(
    "section",
    { class: "card flush" },
    h(
      "div",
      { class: "bar-top" },
      h("h2", {}, "Cluster"),
      h(
        "p",
        { class: "muted" },
        `${many(told.shards.length, "shard")}, ${many(told.members.length, "member")}. `,
        away.length === 0 ? "All of them answer. " : `${away.map((one) => one.member).join(", ")}: away. `,
        told.waiting.length === 0 ? "No erasure waits." : `${many(told.waiting.length, "erasure")} ${told.waiting.length === 1 ? "waits" : "wait"} for members to carry it out.`,
      ),
    ),
    table(
      "Members of the cluster",
      [
        { title: "Member", cell: (one) => one.member },
        { title: "Shard", kind: "number", cell: (one) => count(one.shard) },
        { title: "Copies that answer", kind: "number", cell: (one) => count(kept.get(one.shard)?.live ?? 0) },
        { title: "State", cell: (one) => pill(one.state === "live" && !one.reachable ? "does not answer" : one.state, one.reachable ? STATES[one.state] : "bad") },
        { title: "Records", kind: "number", cell: (one) => (one.records === null ? "–" : count(one.records)) },
        { title: "Erasures that wait for it", kind: "number", cell: (one) => count(on.get(one.member) || 0) },
      ],
      told.members,
    ),
  );
}

const total = (told, name) => told.routes.filter((one) => !QUIET.has(one.route)).reduce((sum, one) => sum + one[name], 0);
const held = (told) => Object.values(told.records).reduce((sum, number) => sum + number, 0);

function draw(tiles, routes, told, ready, took) {
  put(
    tiles,
    tile("State", ready ? pill("ready", "good") : pill("not ready", "bad"), `answered in ${milliseconds(took)}`),
    tile("Records", compact(held(told)), many(Object.keys(told.records).length, "collection")),
    tile("Erasures that wait", count(told.pending_erasures), told.pending_erasures ? "something is in the way" : "none"),
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
  plots.inFlight.add(Math.max(0, now.told.in_flight - 1));
  plots.erased.add(Math.max(0, now.told.erased_records - last.told.erased_records) / seconds);
  plots.records.add(held(now.told));
}
