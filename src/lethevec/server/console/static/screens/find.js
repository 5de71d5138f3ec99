// Find: by id, by a filter, and what is similar to a record.

import { Refusal, ask, get, path } from "../api.js";
import { h, put } from "../dom.js";
import { many } from "../format.js";
import { filterBar } from "../filters.js";
import { button, card, choice, empty, field, form, heading, notice, show, turn } from "../parts.js";
import { PAGE, fieldsOf, nothingFound, pages, recordTable, rowsOf } from "../records.js";

export function find(view, wanted) {
  const place = h("div", {});
  show(place, view, async () => {
    const { collections } = await get("/v1/collections", { signal: view.signal });
    if (collections.length === 0) return empty("collections", "No collections yet", "There is nothing to find.");
    return searching(view, collections, wanted);
  });
  return [heading("Find", "Records by id, by what they hold, and by what they are like."), place];
}

function searching(view, collections, wanted) {
  let current = collections.find((one) => one.name === wanted) || collections[0];
  const results = h("div", {});
  const about = h("p", { class: "muted about", role: "status" });
  const known = new Set();

  const chosen = choice(
    "Collection",
    collections.map((one) => [one.name, `${one.name} (${many(one.records, "record")})`]),
    current.name,
    (name) => {
      current = collections.find((one) => one.name === name);
      known.clear();
      filters.know([]);
      all();
    },
  );
  const id = field("Id", { placeholder: "A record's id" });
  const person = field("Person", { placeholder: "Everybody" });
  const filters = filterBar(() => all());

  const learn = (rows) => {
    for (const name of fieldsOf(rows)) known.add(name);
    filters.know([...known, "$id", "$subject"]);
  };

  /** What is said above the records; a count that was asked for before and comes later is not. */
  const say = (...parts) => {
    turn(about);
    put(about, ...parts);
  };

  function question() {
    const body = {};
    const where = filters.where();
    if (where) body.where = where;
    if (person.input.value.trim()) body.subject = person.input.value.trim();
    return body;
  }

  function all() {
    const asked = question();
    let total = Object.keys(asked).length === 0 ? current.records : null;
    say(total === null ? "Counting…" : many(total, "record"));
    if (total === null) {
      const latest = turn(about);
      ask(path(current.name, "count"), asked, { signal: view.signal }).then(
        (answer) => {
          total = answer.records;
          if (latest()) say(`${many(total, "record")} ${total === 1 ? "fits" : "fit"}`);
        },
        () => latest() && say(),
      );
    }
    const options = { caption: "Records found", total: () => total, onSimilar: similar, onRows: learn, nothing: nothingFound() };
    pages(results, view, current.name, () => asked, options);
  }

  async function byId() {
    const typed = id.input.value.trim();
    if (!typed) return all();
    say();
    const latest = turn(about);
    const candidates = /^\d{1,15}$/.test(typed) ? [Number(typed), typed] : [typed];
    return show(results, view, async () => {
      const found = [];
      for (const candidate of candidates) {
        try {
          const body = { ids: [candidate], include: ["subjects", "payloads", "expires"] };
          found.push(...rowsOf(await ask(path(current.name, "get"), body, { signal: view.signal })));
        } catch (error) {
          if (!(error instanceof Refusal && error.status === 404)) throw error;
        }
      }
      if (found.length === 0) return empty("find", "No record has this id", "Check the spelling, and the collection above.");
      learn(found);
      if (latest()) say(many(found.length, "record"));
      return recordTable("Records found", current.name, found, { onSimilar: similar });
    });
  }

  function similar(row) {
    const latest = turn(about);
    return show(results, view, async () => {
      const own = await ask(path(current.name, "get"), { ids: [row.id], include: ["vectors"] }, { signal: view.signal });
      if (own.vectors[0] === null) return notice("info", "This record has no vector", "So nothing can be like it.", button("Back", all, { small: true }));
      const body = { ...question(), vector: own.vectors[0], k: PAGE + 1 };
      const answer = await ask(path(current.name, "search"), body, { signal: view.signal });
      const columns = Object.fromEntries(Object.entries(answer).map(([name, rows]) => [name, rows[0]]));
      const rows = rowsOf(columns).filter((one) => one.id !== row.id).slice(0, PAGE);
      if (latest()) say("Nearest first, ", h("button", { type: "button", class: "link-button", on: { click: all } }, "back to all records"));
      return [
        h("p", { class: "similar-to" }, "Similar to ", h("code", {}, String(row.id))),
        rows.length === 0 ? nothingFound() : recordTable("Similar records", current.name, rows, { onSimilar: similar }),
      ];
    });
  }

  const bar = form(
    [
      h("div", { class: "fields" }, chosen.whole, id.whole, person.whole),
      h("div", { class: "field" }, h("p", { class: "label" }, "Conditions"), filters.whole),
    ],
    "Find",
    () => (id.input.value.trim() ? byId() : all()),
    { picture: "find" },
  );
  all();
  return [card(null, bar), h("section", { class: "card flush" }, h("div", { class: "bar-top" }, about), results)];
}
