// What must stay, and until when the rest may: legal holds, and how long collections keep records.

import { ask, change, get, path } from "../api.js";
import { h, put } from "../dom.js";
import { count, many, time } from "../format.js";
import { button, choice, dialog, empty, field, form, heading, notice, pill, show, table } from "../parts.js";
import { everywhere, may } from "../session.js";
import { kept } from "./collections.js";
import { detail } from "./receipts.js";

const FEW = 200000; // records up to which holds are named: naming them tries every person there is
const UNITS = [
  ["86400", "days"],
  ["2592000", "months of 30 days"],
  ["31536000", "years"],
];

export function holds(view) {
  return [
    heading("Holds and retention", "What must stay, and until when the rest may."),
    everywhere() && may("hold") && holdCard(view),
    retentionCard(view),
  ];
}

function holdCard(view) {
  const place = h("div", {});
  const draw = () =>
    show(place, view, async () => {
      const { collections } = await get("/v1/collections", { signal: view.signal });
      const names = collections.reduce((sum, one) => sum + one.records, 0) <= FEW;
      const { holds: found } = await ask("/v1/holds", { names }, { signal: view.signal });
      if (found.length === 0) return empty("holds", "No holds", "Everything may be erased when somebody asks for it.");
      return [
        !names && h("p", { class: "hint pad" }, "Holds are kept without names. With so many records they are not looked up here: Person shows the holds of one."),
        table(
          "Legal holds",
          [
            { title: "Reason", kind: "long", cell: (one) => one.reason },
            { title: "Person", cell: (one) => one.subject ?? h("span", { class: "muted" }, "not named") },
            { title: "Since", kind: "moment", cell: (one) => time(one.since) },
            { title: "Hold", cell: (one) => h("code", {}, one.id.slice(0, 8)) },
            { title: "Actions", kind: "actions-column", cell: (one) => button("Lift…", () => lift(one, draw), { small: true, label: `Lift the hold ${one.id.slice(0, 8)}` }) },
          ],
          found,
        ),
      ];
    });
  draw();
  return h(
    "section",
    { class: "card flush" },
    h("div", { class: "bar-top row spread" }, h("h2", {}, "Legal holds"), button("Set a hold…", () => set(draw), { picture: "plus", small: true })),
    place,
  );
}

function set(again) {
  dialog("Set a legal hold", (close) => {
    const person = field("Person", { required: true }, "As programs wrote it. Capital letters and spaces count.");
    const reason = field("Reason", { required: true }, "For example a case number. It is shown to whoever tries to erase.");
    return form([person.whole, reason.whole], "Set the hold", async (below) => {
      const [subject, why] = [person.input.value.trim(), reason.input.value.trim()];
      if (!subject || !why) {
        put(below, notice("bad", "Something is missing", "A hold needs a person and a reason."));
        return;
      }
      await change("/v1/hold", { subject, reason: why });
      close();
      again();
    });
  });
}

function lift(hold, again) {
  dialog("Lift this hold", (close) => {
    const reason = field("Reason", { required: true }, "Why the records need not stay any more.");
    return [
      h("p", {}, "The hold “", hold.reason, "” ends, and the records may be erased again."),
      form([reason.whole], "Lift the hold", async (below) => {
        if (!reason.input.value.trim()) {
          put(below, notice("bad", "No reason yet", "Say why, for whoever reads the chain later."));
          return;
        }
        await change("/v1/lift", { hold: hold.id, reason: reason.input.value.trim() });
        close();
        again();
      }),
    ];
  });
}

function retentionCard(view) {
  const place = h("div", {});
  const result = h("div", {});
  const draw = () =>
    show(place, view, async () => {
      const { collections } = await get("/v1/collections", { signal: view.signal });
      if (collections.length === 0) return empty("wait", "No collections yet", "There is nothing to keep.");
      const due = collections.reduce((sum, one) => sum + one.expired, 0);
      return [
        table(
          "How long collections keep records",
          [
            { title: "Collection", cell: (one) => one.name },
            { title: "Records", kind: "number", cell: (one) => count(one.records) },
            { title: "New records are kept", cell: (one) => kept(one.expires) },
            { title: "Due now", kind: "number", cell: (one) => (one.expired ? pill(count(one.expired), "warn") : "0") },
            may("write") && { title: "Actions", kind: "actions-column", cell: (one) => button("Change…", () => changeRetention(one, draw), { small: true, label: `Change how long ${one.name} keeps records` }) },
          ].filter(Boolean),
          collections,
        ),
        may("erase") && everywhere() &&
          h(
            "div",
            { class: "pad row spread" },
            h("p", { class: "muted" }, due ? `${many(due, "record")} ${due === 1 ? "is" : "are"} due: in no answer any more, and still in files.` : "Nothing is due. The server erases what is due by itself."),
            due > 0 && button(`Erase what is due…`, () => expire(view, due, result, draw), { kind: "danger", picture: "erase" }),
          ),
      ];
    });
  draw();
  return [
    h("section", { class: "card flush" }, h("div", { class: "bar-top" }, h("h2", {}, "Retention")), place),
    result,
  ];
}

function changeRetention(told, again) {
  dialog("How long records are kept", (close) => {
    const whole = told.expires === null ? null : UNITS.slice().reverse().find(([size]) => told.expires % Number(size) === 0) || UNITS[0];
    const how = choice("Keep records", [["ever", "for ever, unless they say otherwise"], ["time", "for a time"]], told.expires === null ? "ever" : "time", () => sync());
    const number = field("How many", { type: "number", min: "1", step: "any", inputmode: "decimal", value: whole ? String(told.expires / Number(whole[0])) : "1" });
    const unit = choice("Of what", UNITS, whole ? whole[0] : "31536000");
    const sync = () => {
      number.whole.hidden = unit.whole.hidden = how.input.value === "ever";
    };
    sync();
    return [
      h("p", {}, "It holds for records that are added to ", h("strong", {}, told.name), " from now on and do not say it themselves. Those that are there stay as they are."),
      form([how.whole, h("div", { class: "fields" }, number.whole, unit.whole)], "Save", async (below) => {
        const seconds = how.input.value === "ever" ? null : Number(number.input.value) * Number(unit.input.value);
        if (seconds !== null && !(seconds > 0)) {
          put(below, notice("bad", "This is no length of time", "Type a number above zero."));
          return;
        }
        await change(path(told.name, "retention"), { expires: seconds });
        close();
        again();
      }),
    ];
  });
}

/** What is due is erased like a person: shown first, asked twice. */
function expire(view, due, result, again) {
  dialog("Erase what is due", (close) => {
    const inside = h("div", {});
    put(
      inside,
      h("p", {}, `${many(due, "record")} ${due === 1 ? "has" : "have"} reached the time until which they may be kept. They are in no answer any more; now their bytes leave the files, and a receipt is signed.`),
      h("p", { class: "muted" }, "Records under a legal hold stay."),
      h(
        "div",
        { class: "row" },
        button("Go on", () => put(inside, sure()), { kind: "danger" }),
        button("Cancel", close),
      ),
    );
    const sure = () =>
      form([h("p", {}, "It cannot be undone. Are you sure?")], `Erase ${many(due, "record")}`, async () => {
        const answer = await change("/v1/expire", { skip_held: true });
        close();
        if (answer.receipt) put(result, notice("good", `${many(answer.records, "record")} erased`, `Receipt ${count(answer.receipt.sequence)} is signed.`), detail(view, answer.receipt));
        else put(result, answer.status === "waiting" ? notice("wait", "Not complete yet", "Something is reading the files. The server goes on trying by itself, and signs the receipt when nothing is left.") : notice("info", "Nothing was left to erase", "The server was faster, or holds keep the rest."));
        again();
      }, { kind: "danger final", picture: "erase", others: [button("Cancel", close)] });
    return inside;
  });
}
