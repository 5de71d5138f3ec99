// The frame around the screens: who is signed in, where one can go, and what happens when the session or the server ends.
// Addresses name screens, collections and numbers of receipts; a person is never in one.

import { events, get } from "./api.js";
import { h, pause, put } from "./dom.js";
import { many } from "./format.js";
import { icon, mark } from "./icons.js";
import { closeDialogs, loading, notice } from "./parts.js";
import { everywhere, may, resume, session, signOut, watch } from "./session.js";
import { collection, collections } from "./screens/collections.js";
import { find } from "./screens/find.js";
import { health } from "./screens/health.js";
import { holds } from "./screens/holds.js";
import { keys } from "./screens/keys.js";
import { person } from "./screens/person.js";
import { receipt, receipts } from "./screens/receipts.js";
import { signInScreen } from "./screens/sign_in.js";

const SCREENS = [
  { name: "collections", title: "Collections", picture: "collections", shown: () => may("describe"), make: collections, one: collection },
  { name: "find", title: "Find", picture: "find", shown: () => may("read"), make: find, one: find },
  {
    name: "person",
    title: "Person",
    picture: "person",
    shown: () => everywhere() && (may("read") || may("erase") || may("hold")),
    make: person,
  },
  { name: "receipts", title: "Receipts", picture: "receipts", shown: () => everywhere() && may("proof"), make: receipts, one: receipt },
  {
    name: "holds",
    title: "Holds and retention",
    picture: "holds",
    shown: () => (everywhere() && (may("hold") || may("erase"))) || may("write"),
    make: holds,
  },
  { name: "keys", title: "Keys and roles", picture: "keys", shown: () => everywhere() && may("admin"), make: keys },
  { name: "health", title: "Health", picture: "health", shown: () => everywhere() && may("describe"), make: health },
];

const app = document.getElementById("app");
let view = null; // of the screen that is shown: `signal` ends with it
let main = null;
let banner = null;
let waiting = null;

function leave() {
  view?.stop.abort();
  view = null;
  closeDialogs();
}

/** Nobody is signed in: nothing of what was shown stays in the page. */
function signedOut(text) {
  leave();
  session.me = null;
  document.title = "Sign in · Lethevec console";
  put(app, signInScreen(text, start));
  main = banner = waiting = null;
}

/** End the session. What was shown leaves the page before the server is asked, which may take its time. */
async function end(text) {
  signedOut("");
  put(app, h("main", { class: "door", id: "main" }, h("div", { class: "door-box" }, loading("Signing out"))));
  let ended = await signOut();
  signedOut(ended ? text : "The server does not answer, so your session there goes on. It is ended when the server is back, if this page stays open until then.");
  while (!ended) {
    await pause(1000);
    if (session.me) return; // somebody has signed in again, which takes the place of it
    ended = await signOut();
  }
  if (!session.me) app.querySelector(".door .notice")?.replaceWith(notice("info", text));
}

function frame() {
  const open = (isOpen) => {
    side.classList.toggle("open", isOpen);
    menu.setAttribute("aria-expanded", String(isOpen));
  };
  const menu = h(
    "button",
    {
      type: "button",
      class: "plain-button menu",
      "aria-label": "Menu",
      "aria-expanded": "false",
      "aria-controls": "side",
      on: { click: () => open(!side.classList.contains("open")) },
    },
    icon("menu"),
  );
  const links = SCREENS.filter((screen) => screen.shown()).map((screen) =>
    h("a", { href: `#/${screen.name}`, "data-screen": screen.name, on: { click: () => open(false) } }, icon(screen.picture), screen.title),
  );
  waiting = h("a", { class: "waiting", href: "#/health", hidden: true });
  const side = h(
    "aside",
    { class: "side", id: "side", "aria-label": "Screens and account" },
    h("div", { class: "brand" }, mark(), h("span", {}, "Lethevec")),
    h("nav", { "aria-label": "Screens" }, links),
    h(
      "div",
      { class: "who" },
      waiting,
      h("p", { class: "who-name" }, session.me.name),
      h("p", { class: "muted" }, session.me.key === null ? "this server has no keys" : session.me.roles.join(", ")),
      session.me.key !== null &&
        h("button", { type: "button", class: "button small", on: { click: () => end("You have signed out.") } }, icon("out"), "Sign out"),
    ),
  );
  main = h("main", { id: "main", tabindex: "-1" });
  banner = h("div", { class: "banner", role: "status" });
  put(
    app,
    h(
      "a",
      {
        class: "skip",
        href: "#main",
        on: {
          click: (event) => {
            event.preventDefault();
            main.focus();
          },
        },
      },
      "Skip to the content",
    ),
    h("header", { class: "top" }, menu, h("div", { class: "brand" }, mark(), h("span", {}, "Lethevec"))),
    h("div", { class: "frame" }, side, h("div", { class: "content" }, banner, main)),
  );
}

/** What an address names; nothing where somebody has mistyped it. */
function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return "";
  }
}

function route() {
  if (!session.me || !main) return;
  leave();
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/");
  const screen = SCREENS.find((one) => one.name === name && one.shown()) || SCREENS.find((one) => one.shown());
  for (const one of app.querySelectorAll("[data-screen]")) {
    if (one.dataset.screen === screen.name) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  document.title = `${screen.title} · Lethevec console`;
  const stop = new AbortController();
  view = { stop, signal: stop.signal };
  const one = screen.one && screen.name === name && decoded(rest.join("/"));
  put(main, one ? screen.one(view, one) : screen.make(view));
  main.querySelector("h1")?.focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

async function lookForWaiting() {
  if (!session.me || !waiting || document.hidden || !everywhere()) return;
  try {
    const { pending_erasures: pending } = await get("/v1/metrics", { watch: true });
    waiting.hidden = pending === 0;
    put(waiting, icon("wait"), `${many(pending, "erasure")} ${pending === 1 ? "waits" : "wait"} to complete`);
  } catch {
    // the banner says it
  }
}

function start() {
  frame();
  route();
  lookForWaiting();
}

events.addEventListener("ended", () => {
  if (session.me) signedOut("Your session has ended. Sign in to go on where you were.");
});
events.addEventListener("lost", () => {
  if (banner) {
    put(banner, notice("warn", "The server does not answer", "It may be starting again. This page keeps trying; nothing that you typed is lost."));
  }
});
events.addEventListener("reached", () => {
  if (banner) put(banner);
});
events.addEventListener("changed", lookForWaiting);
window.addEventListener("hashchange", route);
// A page that comes back out of the browser's memory may show what nobody may see any more.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});

watch(end);
setInterval(lookForWaiting, 5000);

async function begin() {
  try {
    if (await resume()) start();
    else signedOut("");
  } catch {
    signedOut("");
    events.addEventListener("reached", begin, { once: true });
  }
}

begin();
