// The proof: the chain of receipts, newest first; one of them; and whether they hold.

import { ask, download, get } from "../api.js";
import { h, put } from "../dom.js";
import { count, many, time } from "../format.js";
import { icon } from "../icons.js";
import { button, card, facts, field, form, heading, link, notice, pager, pill, problem, show, table } from "../parts.js";

const PAGE = 25;
const PART = 500; // receipts that are checked at a time

const KINDS = {
  genesis: ["Chain begun", ""],
  rotation: ["Keys replaced", ""],
  erasure: ["Erasure", "accent"],
  expiry: ["Expiry", "accent"],
  rectification: ["Correction", "accent"],
  drop: ["Collection dropped", "accent"],
  rename: ["Collection renamed", ""],
  hold: ["Hold set", "warn"],
  lift: ["Hold lifted", "good"],
  block: ["Person blocked", "warn"],
  unblock: ["Person unblocked", "good"],
};

export const kindPill = (receipt) => pill(...(KINDS[receipt.kind] || [receipt.kind, ""]));

/** The text that was issued: keys in order, no spaces. */
export function issued(receipt) {
  if (Array.isArray(receipt)) return `[${receipt.map(issued).join(",")}]`;
  if (receipt !== null && typeof receipt === "object") {
    const names = Object.keys(receipt).sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${issued(receipt[name])}`).join(",")}}`;
  }
  return JSON.stringify(receipt);
}

export function save(receipt) {
  download(`${issued(receipt)}\n`, `receipt-${receipt.sequence}.json`);
}

export function receipts(view) {
  const place = h("div", {});
  const checked = h("div", {});
  const before = [];
  let after = null;
  const draw = () =>
    show(place, view, async () => {
      const address = `/v1/receipts?order=newest&brief=true&limit=${PAGE}${after === null ? "" : `&after=${after}`}`;
      const answer = await get(address, { signal: view.signal });
      return [
        receiptTable("Receipts, newest first", answer.receipts),
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
            text: answer.receipts.length === 0 ? "none" : `numbers ${answer.receipts[0].sequence} to ${answer.receipts[answer.receipts.length - 1].sequence}`,
          },
        ),
      ];
    });
  draw();
  return [
    heading(
      "Receipts",
      "Every erasure, hold and block is signed, and each receipt holds on to the one before it.",
      button("Verify all", () => verifyAll(view, checked), { kind: "primary", picture: "receipts" }),
    ),
    checked,
    h("section", { class: "card flush" }, place),
    fileCheck(view),
    publicKey(view),
  ];
}

export function receiptTable(caption, rows) {
  return table(
    caption,
    [
      { title: "Number", kind: "number", cell: (one) => link(count(one.sequence), `#/receipts/${one.sequence}`) },
      { title: "What", cell: kindPill },
      { title: "Signed", kind: "moment", cell: (one) => time(one.issued_at) },
      { title: "Records", kind: "number", cell: (one) => (one.records === undefined ? "–" : count(one.records)) },
      { title: "Collections", kind: "number", cell: (one) => (one.collections ? count(one.collections.length) : "–") },
      { title: "By key", cell: (one) => h("code", {}, one.signing_key.slice(0, 8)) },
    ],
    rows,
  );
}

/** From the first to the last, part by part, with a line that grows. */
async function verifyAll(view, place) {
  const bar = h("progress", { max: 1, value: 0, "aria-label": "Receipts checked" });
  const text = h("p", { class: "muted", role: "status" }, "Checking…");
  put(place, h("section", { class: "card" }, h("h2", {}, "Verifying the chain"), bar, text));
  try {
    const newest = await get("/v1/receipts?order=newest&brief=true&limit=1", { signal: view.signal });
    const total = newest.receipts[0].sequence + 1;
    let after = -1;
    let done = 0;
    while (after !== null) {
      const part = await ask("/v1/verify/chain", { after, limit: PART }, { signal: view.signal });
      if (!part.good) {
        const broken = part.checks.find((check) => check.passed === false);
        put(
          place,
          notice(
            "bad",
            "The chain is broken",
            `${broken ? broken.detail : "A receipt does not hold"}. ${many(Math.max(0, after + 1), "receipt")} before it hold. Somebody has changed the server's files: keep a copy of them as they are, and tell whoever answers for them.`,
          ),
        );
        return;
      }
      after = part.next;
      done = after === null ? total : after + 1;
      bar.value = done / total;
      text.textContent = `${count(done)} of ${many(total, "receipt")} checked`;
    }
    put(
      place,
      notice("good", "The whole chain holds", `${many(total, "receipt")}: in their order, each linked to the one before and signed by the key then in force.`),
    );
  } catch (error) {
    if (!view.signal.aborted) put(place, problem(error, () => verifyAll(view, place)));
  }
}

const CHECKS = {
  signature: "Signature",
  chain: "Place in the chain",
  about: "About this person",
  "key file": "The server's keys",
  "trusted key": "A key from elsewhere",
  "audit key": "Key of the tags",
};

/** What was checked, line by line. */
export function report(answer, good, bad) {
  const failed = answer.checks.filter((check) => check.passed === false);
  return h(
    "div",
    { class: "report" },
    answer.good
      ? notice("good", good)
      : notice("bad", bad || "This receipt does not hold", failed.length > 0 ? `${failed[0].detail}.` : "Its signature could not be checked."),
    h(
      "ul",
      { class: "checks" },
      answer.checks.map((check) =>
        h(
          "li",
          { class: check.passed === null ? "open" : check.passed ? "good" : "bad" },
          icon(check.passed === null ? "info" : check.passed ? "good" : "bad"),
          h(
            "div",
            {},
            h("p", { class: "check-name" }, CHECKS[check.name] || check.name, h("span", { class: "hidden" }, check.passed === null ? ": not checked" : check.passed ? ": passed" : ": failed")),
            h("p", { class: "muted" }, check.detail),
          ),
        ),
      ),
    ),
  );
}

/** One receipt: what it says, and whether it holds. */
export function receipt(view, text) {
  const place = h("div", {});
  const number = /^\d{1,15}$/.test(text) ? Number(text) : 0;
  show(place, view, async () => detail(view, (await get(`/v1/receipts/${number}`, { signal: view.signal })).receipt));
  return [heading(`Receipt ${count(number)}`, null, link("All receipts", "#/receipts", "button")), place];
}

export function detail(view, told) {
  const checked = h("div", {});
  const verify = (quick) =>
    show(checked, view, async () => report(await ask("/v1/verify", { receipt: told, quick }, { signal: view.signal }), "This receipt holds"), quick ? "Checking" : "Reading every record and page");
  return [
    h(
      "section",
      { class: "card" },
      h("div", { class: "row spread" }, kindPill(told), h("span", { class: "muted" }, time(told.issued_at))),
      receiptFacts(told),
      h(
        "div",
        { class: "row" },
        button("Verify", () => verify(true), { kind: "primary", picture: "receipts" }),
        told.collections && button("Verify against the records", () => verify(false)),
        button("Download", () => save(told), { picture: "download" }),
      ),
      told.collections && h("p", { class: "hint" }, "Verify checks the signature and the place in the chain. Against the records it also looks whether anything has come back, and takes longer the more there is."),
      checked,
    ),
    told.collections && told.collections.length > 0 && card("In each collection", parts(told)),
  ];
}

const BY = { subject: "a person", ids: "ids", where: "a filter", expiry: "their time had come", receipts: "earlier receipts", drop: "a whole collection" };

export function receiptFacts(told) {
  return facts([
    told.records !== undefined && ["Records", count(told.records)],
    told.asked_at && ["Asked", time(told.asked_at)],
    told.asked?.by && ["Chosen by", BY[told.asked.by] || told.asked.by],
    told.hold && ["Hold", h("code", {}, told.hold)],
    ["Signed by key", h("code", {}, told.signing_key)],
    ["Follows", h("code", { class: "wrap" }, told.previous.slice(0, 32))],
    ["Chain of", h("code", {}, told.store)],
  ]);
}

function parts(told) {
  return table(
    "What was erased in each collection",
    [
      { title: "Collection", cell: (one) => h("code", {}, String(one.collection).slice(0, 8)) },
      { title: "Records", kind: "number", cell: (one) => count(one.records) },
      { title: "Searched for", kind: "number", cell: (one) => (one.residue?.patterns === undefined ? "–" : many(one.residue.patterns, "pattern")) },
      { title: "Found", kind: "number", cell: (one) => (one.residue?.findings === undefined ? pill("nothing", "good") : count(one.residue.findings)) },
    ],
    told.collections,
  );
}

/** A receipt that somebody has in hand. */
function fileCheck(view) {
  const file = field("Receipt", { type: "file", accept: ".json,application/json" }, "It is compared with the chain of this server. The file stays as it is.");
  const person = field("About whom", { placeholder: "Not asked" }, "If you know the person, it is also checked that the receipt is about them.");
  return card(
    "Check a receipt that you have",
    form([h("div", { class: "fields" }, file.whole, person.whole)], "Check", async (below) => {
      const chosen = file.input.files[0];
      if (!chosen) {
        put(below, notice("bad", "No file yet", "Choose the file of a receipt."));
        return;
      }
      const body = { receipt: await chosen.text(), quick: true };
      if (person.input.value.trim()) body.subject = person.input.value.trim();
      const answer = await ask("/v1/verify", body, { signal: view.signal });
      person.input.value = "";
      put(below, report(answer, "This receipt holds", "Do not rely on this receipt"));
    }),
  );
}

function publicKey(view) {
  const place = h("div", {});
  show(place, view, async () => {
    const { public_key: key } = await get("/v1/key", { signal: view.signal });
    return [
      h("p", { class: "muted" }, "Whoever has it can check receipts without this server."),
      h("code", { class: "block" }, key),
      h("div", { class: "row" }, button("Download", () => download(`${key}\n`, "public-key.txt", "text/plain"), { picture: "download", small: true })),
    ];
  });
  return card("Public key", place);
}
