// A person: what is held, an export, and the erasure, which shows first what it will do and asks twice. The name is in
// this module's memory alone, while the screen is shown.

import { ask, change, download, events, get, request, requestNumber, Refusal, Unreachable } from "../api.js";
import { h, pause, put } from "../dom.js";
import { count, many, time } from "../format.js";
import { icon } from "../icons.js";
import { button, card, dialog, empty, facts, field, form, heading, link, notice, pill, problem, show, table, tick, tile } from "../parts.js";
import { pages } from "../records.js";
import { may } from "../session.js";
import { detail, receiptTable } from "./receipts.js";

export function person(view) {
  const place = h("div", {});
  const name = field("Person", { placeholder: "An address, a customer number…", required: true }, "As programs wrote it. Capital letters and spaces count.");
  const look = async (below) => {
    const subject = name.input.value.trim();
    if (!subject) {
      put(below, notice("bad", "No name yet", "Type whom you are looking for."));
      name.input.focus();
      return;
    }
    const forget = () => {
      name.input.value = "";
    };
    await show(place, view, () => shown(view, place, subject, forget), "Looking");
  };
  const made = form([name.whole], "Look up", look, { picture: "find" });
  view.signal.addEventListener("abort", () => {
    name.input.value = "";
  });
  return [heading("Person", "What is held of somebody, in every collection."), card(null, made), place];
}

/** What the key may know: all of it with the right to read, how much there is with the right to erase. */
async function shown(view, place, subject, forget) {
  const told = may("read")
    ? await ask("/v1/held", { subject }, { signal: view.signal })
    : may("erase")
      ? await ask("/v1/forget", { subject, dry_run: true }, { signal: view.signal })
      : { records: null, collections: {}, holds: (await ask("/v1/holds", { subject }, { signal: view.signal })).holds, blocked_since: null };
  const holds = Array.isArray(told.holds) ? told.holds : null;
  const held = holds ? holds.length : told.holds;
  const again = () => show(place, view, () => shown(view, place, subject, forget), "Looking");
  const parts = Object.entries(told.collections);
  const nothing = told.records === 0;
  const records = h("div", {});
  return [
    h(
      "div",
      { class: "tiles" },
      told.records !== null && tile("Records", count(told.records), nothing ? "nothing is held" : `in ${many(parts.length, "collection")}`),
      tile("Legal holds", count(held), held ? "nothing may be erased" : "none in the way"),
      told.records !== null && tile("New records", told.blocked_since ? "Refused" : "Accepted", told.blocked_since ? `blocked since ${time(told.blocked_since)}` : "programs may write for them"),
    ),
    h(
      "div",
      { class: "row actions" },
      may("erase") && button("Erase…", () => erase(view, place, subject, forget, again), { kind: "danger", picture: "erase", disabled: nothing }),
      may("read") && button("Export", (event) => exported(view, event.currentTarget, subject, records), { picture: "download" }),
      may("hold") && !nothing && button("Set a hold…", () => setHold(subject, again), { picture: "holds" }),
      may("erase") && told.records !== null && !told.blocked_since && button("Block…", () => fence(subject, "block", again)),
      may("erase") && told.blocked_since && button("Unblock…", () => fence(subject, "unblock", again)),
    ),
    nothing && card(null, empty("person", "Nothing is held of this person", told.receipts?.length ? "What was held is gone; the receipts below say when." : "Check the spelling. If it is right, there is nothing to erase.")),
    parts.length > 0 &&
      h(
        "section",
        { class: "card flush" },
        h("div", { class: "bar-top" }, h("h2", {}, "What is held")),
        table(
          "What is held in each collection",
          [
            { title: "Collection", cell: ([collection]) => collection },
            { title: "Records", kind: "number", cell: ([, number]) => count(number) },
            may("read") && {
              title: "Actions",
        kind: "actions-column",
              cell: ([collection, number]) => button("Show", () => showRecords(view, records, collection, number, subject), { small: true, label: `Show the records in ${collection}` }),
            },
          ].filter(Boolean),
          parts,
        ),
      ),
    records,
    holds && holds.length > 0 && card("Legal holds", holdFacts(holds)),
    told.receipts?.length > 0 &&
      h("section", { class: "card flush" }, h("div", { class: "bar-top" }, h("h2", {}, "Receipts about this person")), receiptTable("Receipts about this person", [...told.receipts].reverse().slice(0, 50))),
  ];
}

function holdFacts(holds) {
  return holds.map((hold) =>
    facts([
      ["Reason", hold.reason],
      ["Since", time(hold.since)],
      ["Hold", h("code", {}, hold.id)],
    ]),
  );
}

function showRecords(view, place, collection, total, subject) {
  const inside = h("div", {});
  put(place, h("section", { class: "card flush" }, h("div", { class: "bar-top" }, h("h2", {}, `Records in ${collection}`)), inside));
  pages(inside, view, collection, () => ({ subject }), { caption: `Records in ${collection}`, total: () => total, withSubject: false, nothing: empty("find", "Nothing left", "They have expired, or were erased meanwhile.") });
}

/** Everything that is held, for the person themselves: what the law calls access. The file's name says nothing. */
async function exported(view, from, subject, place) {
  from.disabled = true;
  try {
    const answer = await request("POST", "/v1/access", { body: { subject }, signal: view.signal });
    if (!answer.ok) {
      const { error } = await answer.json();
      throw new Refusal(answer.status, error.code, error.message);
    }
    download(await answer.blob(), "export.json");
    put(place, notice("good", "The export is in your downloads", "It holds everything about this person. Hand it over safely, then delete the file."));
  } catch (error) {
    if (!view.signal.aborted) put(place, problem(error));
  } finally {
    from.disabled = false;
  }
}

function setHold(subject, again) {
  dialog("Set a legal hold", (close) => {
    const reason = field("Reason", { required: true }, "For example a case number. It is shown to whoever tries to erase.");
    return [
      h("p", {}, "Records of this person can then be neither changed nor erased until the hold is lifted."),
      form([reason.whole], "Set the hold", async (below) => {
        if (!reason.input.value.trim()) {
          put(below, notice("bad", "No reason yet", "Say why the records have to stay."));
          return;
        }
        await change("/v1/hold", { subject, reason: reason.input.value.trim() });
        close();
        again();
      }),
    ];
  });
}

function fence(subject, method, again) {
  const blocks = method === "block";
  dialog(blocks ? "Block this person" : "Unblock this person", (close) => {
    const reason = field("Reason", { required: true });
    return [
      h("p", {}, blocks ? "Programs can then write nothing for them. What is there stays." : "Programs can then write for them again."),
      form([reason.whole], blocks ? "Block" : "Unblock", async (below) => {
        if (!reason.input.value.trim()) {
          put(below, notice("bad", "No reason yet", "Say why, for whoever reads the chain later."));
          return;
        }
        await change(`/v1/${method}`, { subject, reason: reason.input.value.trim() });
        close();
        again();
      }),
    ];
  });
}

// --- Erasing ---------------------------------------------------------------------------------------------------------

/** First what will happen, then the question, then the question again. */
function erase(view, place, subject, forget, again) {
  dialog(
    "Erase this person",
    (close) => {
      const inside = h("div", {});
      show(inside, view, async () => preview(view, inside, place, subject, forget, close, await ask("/v1/forget", { subject, dry_run: true }, { signal: view.signal })), "Looking what would be erased");
      return inside;
    },
    { wide: true },
  );
}

function preview(view, inside, place, subject, forget, close, would) {
  const parts = Object.entries(would.collections);
  if (would.holds > 0) {
    return [
      notice("warn", "A legal hold stands in the way", `${many(would.holds, "hold")} ${would.holds === 1 ? "keeps" : "keep"} the records of this person. Nothing can be erased until ${would.holds === 1 ? "it is" : "they are"} lifted, by somebody who may do so.`),
      h("div", { class: "row" }, link("Holds and retention", "#/holds", "button"), button("Close", close)),
    ];
  }
  const block = tick("Refuse new records for this person", "A late write, or an import of an old copy, is then refused. No name is kept for that.");
  return [
    h("p", {}, "This is what will be erased:"),
    table(
      "What will be erased",
      [
        { title: "Collection", cell: ([collection]) => collection },
        { title: "Records", kind: "number", cell: ([, number]) => count(number) },
      ],
      parts,
    ),
    h(
      "ul",
      { class: "plain-list" },
      h("li", {}, icon("good"), h("span", {}, "No search, export or page finds them, from the moment it is done.")),
      h("li", {}, icon("good"), h("span", {}, "No file of this server holds a byte of them. It is searched for, and signed for in a receipt.")),
      h("li", {}, icon("warn"), h("span", {}, "It cannot be undone. Copies outside of this server, such as exports, are not reached.")),
    ),
    block.whole,
    h(
      "div",
      { class: "row" },
      button("Go on", () => put(inside, confirm(view, place, subject, forget, close, would, block.input.checked)), { kind: "danger" }),
      button("Cancel", close),
    ),
  ];
}

function confirm(view, place, subject, forget, close, would, block) {
  const typed = field("Type the name of the person once more", { required: true });
  queueMicrotask(() => typed.input.focus());
  return form(
    [
      h("p", {}, "You are about to erase ", h("strong", {}, many(would.records, "record")), " for good", block ? ", and to refuse new ones" : "", "."),
      typed.whole,
    ],
    `Erase ${many(would.records, "record")}`,
    async (below) => {
      if (typed.input.value.trim() !== subject) {
        put(below, notice("bad", "This is another name", "Type exactly what you looked up. Nothing was erased."));
        typed.input.select();
        return;
      }
      close();
      put(place, card("Erasing", h("div", { class: "loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), `Erasing ${many(would.records, "record")}…`)));
      await run(view, place, subject, forget, block, requestNumber());
    },
    { kind: "danger final", picture: "erase", others: [button("Cancel", close)] },
  );
}

/** The erasure itself. If the server goes away meanwhile, the same request is sent again when it is back: it is done once. */
async function run(view, place, subject, forget, block, number) {
  const body = { subject };
  if (block) body.block = true;
  const again = () => run(view, place, subject, forget, block, number);
  try {
    const { status, content } = await change("/v1/forget", body, { number, whole: true });
    forget();
    if (status === 202) await waitFor(view, place, subject, content);
    else done(view, place, content.receipt);
  } catch (error) {
    if (view.signal.aborted) return;
    if (error instanceof Unreachable) {
      put(place, card(null, notice("wait", "The connection was lost while erasing", "It is repeated when the server is back. It will be done once, however often it is asked for.")));
      await back(view);
      if (!view.signal.aborted) await again();
    } else if (error.code === "in_progress") {
      await pause(1000, view.signal);
      await again();
    } else {
      put(place, card(null, problem(error, again)));
    }
  }
}

async function back(view) {
  for (;;) {
    await pause(1000, view.signal);
    try {
      const answer = await request("GET", "/readyz", { watch: true });
      if (answer.ok) return;
    } catch {
      // not yet
    }
  }
}

/** No answer has the records any more, but a file does. It completes by itself; this says when. */
async function waitFor(view, place, subject, told) {
  put(
    place,
    card(
      "Not complete yet",
      notice("wait", "No search finds the records any more, but bytes of them are still in a file", "Something is in the way: most often another program that is reading the file, sometimes a full disk. The server goes on trying by itself, and signs the receipt when nothing is left. You may leave this page."),
      facts([["Erasures that wait", count(told.pending)]]),
      h("div", { class: "loading", role: "status" }, h("span", { class: "spinner", "aria-hidden": "true" }), "Looking every second whether it is complete…"),
    ),
  );
  for (;;) {
    await pause(1000, view.signal);
    let answer;
    try {
      answer = await request("GET", told.ask, { watch: true, signal: view.signal });
    } catch (error) {
      if (view.signal.aborted) return;
      continue;
    }
    events.dispatchEvent(new Event("changed"));
    if (answer.status !== 200) {
      if (answer.status === 401) return;
      continue;
    }
    const { receipts } = await answer.json();
    for (const number of [...receipts].reverse()) {
      const { receipt } = await get(`/v1/receipts/${number}`, { watch: true, signal: view.signal });
      const checked = await ask("/v1/verify", { receipt, quick: true, subject }, { watch: true, signal: view.signal });
      if (checked.checks.some((check) => check.name === "about" && check.passed)) {
        done(view, place, receipt);
        return;
      }
    }
    put(place, card(null, notice("good", "The erasure is complete", "Its receipt is under Receipts."), h("div", { class: "row" }, link("Receipts", "#/receipts", "button"))));
    return;
  }
}

/** The receipt in the place of the person: nothing here says who they were. */
function done(view, place, receipt) {
  put(
    place,
    notice("good", `${many(receipt.records, "record")} ${receipt.records === 1 ? "is" : "are"} erased`, `No file of this server holds a byte of them. Receipt ${count(receipt.sequence)} is signed; it does not name the person.`),
    detail(view, receipt),
  );
  place.querySelector("button")?.focus();
}
