// The filter bar: conditions in a row each, which become a `where` of the API.

import { h, fresh } from "./dom.js";
import { icon } from "./icons.js";
import { button } from "./parts.js";

const OPERATORS = [
  ["$eq", "is"],
  ["$ne", "is not"],
  ["$gt", "is more than"],
  ["$gte", "is at least"],
  ["$lt", "is less than"],
  ["$lte", "is at most"],
  ["$in", "is one of"],
  ["$text", "contains the text"],
  ["$contains", "is a list with"],
  ["$exists", "is there"],
];

/** What somebody typed, as a value: numbers, true and false are what they look like; quotes make anything a text.
 * Dates stay texts, which compare as dates. */
export function read(text) {
  const typed = text.trim();
  if (/^".*"$/.test(typed)) return typed.slice(1, -1);
  if (/^-?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(typed)) return Number(typed);
  if (typed === "true" || typed === "false") return typed === "true";
  return typed;
}

/** `whole` to show, `where()` the condition or null, `know(names)` fields to suggest. */
export function filterBar(onChange) {
  const known = h("datalist", { id: fresh("fields") });
  const rows = h("div", { class: "filter-rows" });
  const conditions = [];

  function add() {
    const name = h("input", { type: "text", "aria-label": "Field", placeholder: "Field", list: known.id, autocomplete: "off", spellcheck: "false" });
    const operator = h("select", { "aria-label": "Condition" }, OPERATORS.map(([value, text]) => h("option", { value }, text)));
    const value = h("input", { type: "text", "aria-label": "Value", placeholder: "Value", autocomplete: "off", spellcheck: "false" });
    operator.addEventListener("change", () => {
      value.disabled = operator.value === "$exists";
    });
    const condition = { name, operator, value };
    const row = h(
      "div",
      { class: "filter-row", role: "group", "aria-label": "Condition" },
      name,
      operator,
      value,
      h(
        "button",
        {
          type: "button",
          class: "plain-button",
          "aria-label": "Remove this condition",
          on: {
            click: () => {
              conditions.splice(conditions.indexOf(condition), 1);
              row.remove();
              onChange();
            },
          },
        },
        icon("close"),
      ),
    );
    conditions.push(condition);
    rows.append(row);
    name.focus();
  }

  return {
    whole: h("div", { class: "filters" }, known, rows, h("div", {}, button("Add a condition", add, { small: true, picture: "plus" }))),
    where() {
      const parts = conditions
        .filter((one) => one.name.value.trim())
        .map((one) => {
          const operator = one.operator.value;
          let content = read(one.value.value);
          if (operator === "$exists") content = true;
          if (operator === "$in") content = one.value.value.split(",").map(read);
          if (operator === "$text") content = one.value.value.trim();
          return { [one.name.value.trim()]: { [operator]: content } };
        });
      return parts.length === 0 ? null : parts.length === 1 ? parts[0] : { $and: parts };
    },
    know(names) {
      known.replaceChildren(...names.map((name) => h("option", { value: name })));
    },
  };
}
