// Who is here, and for how long. The key is sent once and kept nowhere; the browser's cookie cannot be read from here.

import { call, events, get, request } from "./api.js";
import { h } from "./dom.js";
import { clock, duration } from "./format.js";
import { button, dialog } from "./parts.js";

const WARN = 60; // seconds before the end of a session in which nothing is done
const SLACK = 6; // seconds by which the server may be ahead of us
const PATIENCE = 5000; // milliseconds for an answer without which a session ends

/** `me`: what the server says of the key. `deadline`: when the session ends if nothing is done. */
export const session = { me: null, deadline: Infinity, end: Infinity, idle: 900 };

/** Seconds. The time of day, since other clocks stand still while a computer sleeps. */
const now = () => Date.now() / 1000;

export const may = (right) => Boolean(session.me?.rights.includes(right));
/** A key for some collections has no say in what concerns all of them. */
export const everywhere = () => session.me !== null && session.me.collections === null;

/** Take up a session that the browser still has. Whether there is one. */
export async function resume() {
  const answer = await request("GET", "/v1/me", { watch: true, quiet: true });
  if (!answer.ok) return false;
  session.me = await answer.json();
  note(await get("/v1/session", { watch: true }));
  return true;
}

export async function signIn(key) {
  const begun = await call("POST", "/v1/session", { body: { key }, quiet: true });
  session.me = await get("/v1/me");
  note(begun);
}

/** End the session. Whether the server knows it. */
export async function signOut() {
  session.me = null;
  session.deadline = session.end = Infinity;
  try {
    const answer = await request("DELETE", "/v1/session", { quiet: true, signal: AbortSignal.timeout(PATIENCE) });
    return answer.status < 500;
  } catch {
    return false;
  }
}

function note(told) {
  session.idle = told.session_idle;
  session.deadline = told.idle === null ? Infinity : now() + told.idle;
  session.end = told.left === null ? Infinity : now() + told.left;
}

events.addEventListener("acted", () => {
  if (session.deadline !== Infinity) {
    session.deadline = Math.min(now() + session.idle - Math.min(SLACK, session.idle / 4), session.end);
  }
});

let warned = null;
let asked = 0;

/** Once a second: warn before the end, and end it. `over` is called when it has ended. */
export function watch(over) {
  const touched = () => {
    // Somebody types or reads: that is not nothing. The server is told now and then.
    if (session.me && session.deadline !== Infinity && !warned && Math.abs(now() - asked) > Math.min(30, session.idle / 4)) {
      asked = now();
      get("/v1/session").then(note, () => {});
    }
  };
  for (const event of ["pointerdown", "keydown", "wheel"]) document.addEventListener(event, touched, { passive: true });
  setInterval(() => tick(over), 1000);
}

async function tick(over) {
  if (!session.me || session.deadline === Infinity) return;
  const left = session.deadline - now();
  if (left > Math.min(WARN, session.idle / 3)) {
    warned?.close();
    return;
  }
  if (left > 0) {
    if (!warned) warn();
    const place = warned?.querySelector(".countdown");
    if (place) place.textContent = clock(left);
    return;
  }
  // Another window of the same session may have prolonged it.
  try {
    const told = await get("/v1/session", { watch: true, quiet: true, signal: AbortSignal.timeout(PATIENCE) });
    if (told.idle !== null && told.idle > SLACK) {
      note(told);
      return;
    }
  } catch {
    // it has ended, or the server is away: in both cases nothing more is shown here
  }
  if (session.me) over(`Nothing was done for ${duration(session.idle)}, so you were signed out.`);
}

function warn() {
  warned = dialog(
    "Are you still there?",
    (close) => [
      h("p", {}, "You will be signed out in ", h("strong", { class: "countdown" }, "1:00"), ", because nothing was done for a while."),
      h(
        "div",
        { class: "row" },
        button("Stay signed in", () => get("/v1/session").then(note, () => {}).finally(close), { kind: "primary" }),
      ),
    ],
    {
      onClose: () => {
        warned = null;
      },
    },
  );
}
