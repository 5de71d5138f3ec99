// Who may call: the keys of the server, and what each role may.

import { call, get } from "../api.js";
import { h, put } from "../dom.js";
import { day, time } from "../format.js";
import { icon } from "../icons.js";
import { button, card, dialog, empty, field, form, heading, notice, pill, show, table, tick } from "../parts.js";
import { session, signIn } from "../session.js";

const ROLES = [
  ["reader", "Search, look at records, export", ["read"]],
  ["writer", "Make collections, add and replace records", ["write"]],
  ["eraser", "Erase and block people, drop collections, see receipts", ["erase", "proof"]],
  ["auditor", "See and verify receipts, read the audit log; no records", ["proof", "audit"]],
  ["holder", "Set and lift legal holds", ["hold"]],
  ["admin", "All of it, and the keys", ["read", "write", "erase", "proof", "audit", "hold", "admin"]],
];
const RIGHTS = [
  ["read", "Read"],
  ["write", "Write"],
  ["erase", "Erase"],
  ["proof", "Receipts"],
  ["audit", "Audit log"],
  ["hold", "Holds"],
  ["admin", "Keys"],
];
const STATES = { live: "good", expired: "warn", withdrawn: "" };

export function keys(view) {
  const place = h("div", {});
  const draw = () =>
    show(place, view, async () => {
      const { keys: found } = await get("/v1/keys", { signal: view.signal });
      if (found.length === 0) {
        return empty("keys", "No keys yet", "Everybody on this machine may do everything. The first key, which must be an admin's, closes the door.");
      }
      return table(
        "Keys",
        [
          { title: "Name", cell: (one) => h("span", {}, one.name, one.id === session.me.key ? " (yours)" : "") },
          { title: "Key", cell: (one) => h("code", {}, one.id) },
          { title: "Roles", cell: (one) => one.roles.join(", ") },
          { title: "Collections", cell: (one) => (one.collections === null ? "all" : one.collections.join(", ")) },
          { title: "Until", kind: "moment", cell: (one) => (one.withdrawn_at ? time(one.withdrawn_at) : one.expires_at ? day(one.expires_at) : "it is withdrawn") },
          { title: "State", cell: (one) => pill(one.state, STATES[one.state]) },
          {
            title: "Actions",
            kind: "actions-column",
            cell: (one) =>
              one.state === "live" && one.id !== session.me.key
                ? button("Withdraw…", () => withdraw(one, draw), { small: true, label: `Withdraw the key ${one.name}` })
                : "",
          },
        ],
        found,
      );
    });
  draw();
  return [
    heading("Keys and roles", "Who may do what. The server keeps no key, only what it takes to recognise one.", button("Make a key…", () => make(view, draw), { kind: "primary", picture: "plus" })),
    h("section", { class: "card flush" }, place),
    card("What each role may", roles()),
  ];
}

function roles() {
  return table(
    "What each role may",
    [
      { title: "Role", cell: ([name]) => name },
      { title: "For", kind: "long", cell: ([, text]) => text },
      ...RIGHTS.map(([right, title]) => ({
        title,
        kind: "middle",
        cell: ([, , rights]) => (rights.includes(right) ? h("span", { class: "yes" }, icon("good"), h("span", { class: "hidden" }, "yes")) : h("span", { class: "muted" }, "–")),
      })),
    ],
    ROLES,
  );
}

function make(view, again) {
  dialog(
    "Make a key",
    (close, box) => {
      const first = session.me.key === null;
      const name = field("What it is for", { required: true, maxlength: 200 }, "It stands in lists and says whose entries in the audit log are whose.");
      const ticks = ROLES.map(([role, text]) => ({ role, ...tick(role, text, first && role === "admin") }));
      const collections = field("Collections", { placeholder: "All" }, "Names with commas between, or nothing for all.");
      const until = field("Until", { type: "date" }, "It opens nothing from that day on. Nothing: until it is withdrawn.");
      return [
        first && notice("warn", "The first key closes the door", "From then on nobody comes in without a key. Keep this one well: you will need it to sign in."),
        form(
          [name.whole, h("fieldset", {}, h("legend", {}, "Roles"), ticks.map((one) => one.whole)), h("div", { class: "fields" }, collections.whole, until.whole)],
          "Make the key",
          async (below) => {
            const chosen = ticks.filter((one) => one.input.checked).map((one) => one.role);
            if (!name.input.value.trim() || chosen.length === 0) {
              put(below, notice("bad", "Something is missing", "A key needs a name and at least one role."));
              return;
            }
            const some = collections.input.value.split(",").map((text) => text.trim()).filter(Boolean);
            const body = { name: name.input.value.trim(), roles: chosen };
            if (some.length > 0) body.collections = some;
            if (until.input.value) body.expires = until.input.value;
            const made = await call("POST", "/v1/keys", { body });
            if (first) await signIn(made.text); // the door has closed: stay inside
            else again();
            put(box.querySelector(".dialog-body"), once(made, first ? () => location.reload() : close));
          },
          { others: [button("Cancel", close)] },
        ),
      ];
    },
    { wide: true },
  );
}

/** The text of a new key, the only time that it is seen. */
function once(made, close) {
  const text = h("code", { class: "block secret" }, made.text);
  const said = h("span", { class: "muted", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(made.text);
      said.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(text);
      said.textContent = "Selected: copy it with your keyboard";
    }
  };
  return [
    notice("warn", "Keep it now: it is not shown again", "Hand it over in a way that only its holder sees."),
    text,
    h("div", { class: "row" }, button("Copy", copy, { kind: "primary", picture: "copy" }), button("Done", close), said),
  ];
}

function withdraw(key, again) {
  dialog("Withdraw this key", (close) => [
    h("p", {}, "“", key.name, "” opens nothing any more, from this second on, and its sessions end. It cannot be undone; its name stays so that the audit log can be read."),
    form([], "Withdraw", async () => {
      await call("POST", "/v1/keys/withdraw", { body: { key: key.id } });
      close();
      again();
    }, { kind: "danger final", others: [button("Cancel", close)] }),
  ]);
}
