// The door: a key is shown once, and is in nobody's memory afterwards.

import { Refusal } from "../api.js";
import { h, put } from "../dom.js";
import { mark } from "../icons.js";
import { field, form, notice, problem } from "../parts.js";
import { signIn } from "../session.js";

export function signInScreen(text, go) {
  const key = field(
    "Key",
    { type: "password", autocomplete: "off", required: true, maxlength: 200 },
    "It begins with lv_. It is sent once to this server and kept nowhere in this browser.",
  );
  const made = form([key.whole], "Sign in", async (below) => {
    const typed = key.input.value.trim();
    if (!typed) {
      put(below, notice("bad", "No key yet", "Paste the key that you were given."));
      key.input.focus();
      return;
    }
    key.input.value = "";
    try {
      await signIn(typed);
    } catch (error) {
      if (error instanceof Refusal && error.status === 401) {
        put(
          below,
          notice("bad", "This key opens nothing", "It may be mistyped, withdrawn or expired. Whoever runs the server can make you another one."),
        );
      } else {
        put(below, problem(error));
      }
      key.input.focus();
      return;
    }
    go();
  });
  queueMicrotask(() => key.input.focus());
  return h(
    "main",
    { class: "door", id: "main" },
    h(
      "div",
      { class: "door-box" },
      h("div", { class: "brand" }, mark(), h("span", {}, "Lethevec")),
      h("h1", {}, "Sign in to the console"),
      h("p", { class: "muted" }, "See what is held, erase a person, hold the proof."),
      text && notice("info", text),
      made,
    ),
  );
}
