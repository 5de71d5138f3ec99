// What every screen is made of: buttons, notices, tables, forms, dialogs, and the three states of anything that is asked
// for (being asked, refused, there).

import { Unreachable, advice, events } from "./api.js";
import { fresh, h, put } from "./dom.js";
import { icon } from "./icons.js";

export function button(text, onClick, { kind = "", picture, type = "button", small = false, label, disabled } = {}) {
  return h(
    "button",
    {
      type,
      class: `button ${kind} ${small ? "small" : ""}`.trim(),
      "aria-label": label,
      disabled,
      on: onClick ? { click: onClick } : {},
    },
    picture && icon(picture),
    text,
  );
}

export const link = (text, address, kind = "") => h("a", { href: address, class: kind || null }, text);

export function pill(text, kind = "") {
  return h("span", { class: `pill ${kind}`.trim() }, text);
}

const NOTICES = { good: "good", bad: "bad", warn: "warn", wait: "wait", info: "info" };

/** A sentence or two that must be seen; problems are announced. */
export function notice(kind, title, text, ...actions) {
  return h(
    "div",
    { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" },
    icon(NOTICES[kind]),
    h(
      "div",
      {},
      h("p", { class: "notice-title" }, title),
      text && h("p", {}, text),
      actions.filter(Boolean).length > 0 && h("div", { class: "row" }, actions),
    ),
  );
}

/** What went wrong, what to do, and a way to try again. */
export function problem(error, again) {
  const [title, text] = advice(error);
  return notice("bad", title, text, again && button("Try again", again, { small: true }));
}

export function loading(text = "Loading") {
  return h(
    "div",
    { class: "loading", role: "status" },
    h("span", { class: "spinner", "aria-hidden": "true" }),
    h("span", {}, `${text}…`),
  );
}

/** Where there is nothing yet: what would be here, and how it gets here. */
export function empty(picture, title, text, ...actions) {
  return h("div", { class: "empty" }, icon(picture), h("p", { class: "empty-title" }, title), h("p", {}, text), actions);
}

const asked = new WeakMap(); // places, and how often something was asked for to be shown there

/** Whether nothing else was asked for since, so that what comes now is still what is wanted. */
export function turn(place) {
  const mine = (asked.get(place) || 0) + 1;
  asked.set(place, mine);
  return () => asked.get(place) === mine;
}

/** Ask for something and show it in `place`: that it is being asked for, then it, or why not. When the server was away
 * and is back, it is asked for again. What was asked for before and comes later is not shown. */
export async function show(place, view, work, text) {
  const latest = turn(place);
  const wanted = () => latest() && !view.signal.aborted;
  const waiting = setTimeout(() => wanted() && put(place, loading(text)), 120);
  place.setAttribute("aria-busy", "true");
  const again = () => wanted() && show(place, view, work, text);
  try {
    const made = await work();
    if (wanted()) put(place, made);
  } catch (error) {
    if (!wanted()) return;
    put(place, problem(error, again));
    if (error instanceof Unreachable) events.addEventListener("reached", again, { once: true, signal: view.signal });
    else if (!error.status) console.error(error.name);
  } finally {
    clearTimeout(waiting);
    if (latest()) place.removeAttribute("aria-busy");
  }
}

export function card(title, ...content) {
  return h("section", { class: "card" }, title && h("h2", {}, title), content);
}

export function heading(title, text, ...actions) {
  return h(
    "header",
    { class: "heading" },
    h("div", {}, h("h1", { tabindex: "-1" }, title), text && h("p", { class: "muted" }, text)),
    actions.filter(Boolean).length > 0 && h("div", { class: "row" }, actions),
  );
}

export function tile(label, shown, hint) {
  return h(
    "div",
    { class: "tile" },
    h("p", { class: "tile-label" }, label),
    h("p", { class: "tile-value" }, shown),
    hint && h("p", { class: "tile-hint" }, hint),
  );
}

/** A table that scrolls by itself where it is too wide. `columns`: {title, cell(row), kind}. */
export function table(caption, columns, rows) {
  return h(
    "div",
    { class: "table", tabindex: "0", role: "region", "aria-label": caption },
    h(
      "table",
      {},
      h("caption", { class: "hidden" }, caption),
      h("thead", {}, h("tr", {}, columns.map((one) => h("th", { scope: "col", class: one.kind || null }, titled(one))))),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            columns.map((one, place) =>
              h(place === 0 ? "th" : "td", { scope: place === 0 ? "row" : null, class: one.kind || null }, one.cell(row)),
            ),
          ),
        ),
      ),
    ),
  );
}

function titled(column) {
  return column.kind === "actions-column" ? h("span", { class: "hidden" }, column.title) : column.title;
}

/** Names and what they are. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs.filter(Boolean).map(([name, content]) => h("div", {}, h("dt", {}, name), h("dd", {}, content))),
  );
}

/** A field with its label. What is typed is kept by nobody: browsers are asked not to remember it. */
export function field(label, attributes = {}, hint) {
  const id = fresh("field");
  const hintId = hint ? `${id}-hint` : null;
  const input = h(attributes.rows ? "textarea" : "input", {
    id,
    type: "text",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-describedby": hintId,
    ...attributes,
  });
  const whole = h(
    "div",
    { class: "field" },
    h("label", { for: id }, label),
    input,
    hint && h("p", { class: "hint", id: hintId }, hint),
  );
  return { whole, input };
}

export function choice(label, options, chosen, onChange) {
  const id = fresh("choice");
  const input = h(
    "select",
    { id, on: onChange ? { change: () => onChange(input.value) } : {} },
    options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)),
  );
  return { whole: h("div", { class: "field" }, h("label", { for: id }, label), input), input };
}

export function tick(label, hint, checked = false) {
  const id = fresh("tick");
  const input = h("input", { type: "checkbox", id, checked, "aria-describedby": hint ? `${id}-hint` : null });
  const whole = h(
    "div",
    { class: "tick" },
    input,
    h("div", {}, h("label", { for: id }, label), hint && h("p", { class: "hint", id: `${id}-hint` }, hint)),
  );
  return { whole, input };
}

/** A form whose button is busy while its work is done; problems are shown below it. */
export function form(parts, action, work, { kind = "primary", picture, others = [] } = {}) {
  const send = button(action, null, { kind, type: "submit", picture });
  const below = h("div", { class: "below" });
  const made = h("form", { class: "form", novalidate: true }, parts, h("div", { class: "row" }, send, others), below);
  made.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (send.disabled) return;
    send.disabled = true;
    made.setAttribute("aria-busy", "true");
    put(below);
    try {
      await work(below);
    } catch (error) {
      put(below, problem(error));
    } finally {
      send.disabled = false;
      made.removeAttribute("aria-busy");
    }
  });
  return made;
}

/** A dialog over the page. `make` gets a function that closes it. Escape closes it too, unless it must not. */
export function dialog(title, make, { onClose, wide = false } = {}) {
  const id = fresh("dialog");
  const box = h("dialog", { "aria-labelledby": id, class: wide ? "wide" : null });
  let open = true;
  const leave = () => {
    box.remove();
    if (open) onClose?.();
    open = false;
  };
  // The event comes a moment later; what a dialog showed, a key for example, leaves the page with the click.
  const close = () => {
    box.close();
    leave();
  };
  box.addEventListener("cancel", (event) => {
    event.preventDefault(); // Escape: the same, at once
    close();
  });
  box.addEventListener("close", leave);
  put(
    box,
    h(
      "div",
      { class: "dialog-head" },
      h("h2", { id }, title),
      h("button", { type: "button", class: "plain-button", "aria-label": "Close", on: { click: close } }, icon("close")),
    ),
    h("div", { class: "dialog-body" }, make(close, box)),
  );
  document.body.append(box);
  box.showModal();
  return box;
}

export function closeDialogs() {
  for (const box of document.querySelectorAll("dialog")) {
    box.close();
    box.remove();
  }
}

/** Back and on through pages. */
export function pager(state, { previous, next, text }) {
  return h(
    "nav",
    { class: "pager", "aria-label": "Pages" },
    button("Previous", previous, { small: true, picture: "back", disabled: !state.canGoBack }),
    h("span", { class: "muted" }, text),
    button("Next", next, { small: true, picture: "next", disabled: !state.canGoOn }),
  );
}
