// Requests to the server's API. Ids and people are in bodies, never in addresses.

import { pause } from "./dom.js";

/** What happens: "ended" (the session), "lost" and "reached" (the server), "acted" (somebody did something), "changed"
 * (something was written). */
export const events = new EventTarget();

/** The server has answered, and said no. */
export class Refusal extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** The server did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("the server does not answer");
  }
}

let lost = false;

/** A number that makes a repeated request harmless: the server does it once, and gives the first answer again. */
export function requestNumber() {
  const random = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(random, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const encoded = encodeURIComponent;
export const path = (collection, call) => `/v1/collections/${encoded(collection)}${call ? `/${call}` : ""}`;

/** The whole answer to one request. `watch`: the page asks by itself, which does not prolong the session. */
export async function request(method, address, { body, watch = false, number, signal, quiet = false } = {}) {
  const headers = { "lethevec-console": watch ? "watch" : "act" };
  if (body !== undefined) headers["content-type"] = "application/json";
  if (number) headers["idempotency-key"] = number;
  let answer;
  try {
    answer = await fetch(address, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: "same-origin",
      cache: "no-store",
      redirect: "error",
      referrerPolicy: "no-referrer",
      signal,
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    say(true);
    throw new Unreachable();
  }
  say(false);
  if (!watch) events.dispatchEvent(new Event("acted"));
  if (answer.status === 401 && !quiet) events.dispatchEvent(new Event("ended"));
  return answer;
}

function say(isLost) {
  if (lost !== isLost) {
    lost = isLost;
    events.dispatchEvent(new Event(isLost ? "lost" : "reached"));
    if (isLost) waitForServer();
  }
}

/** While the server is away, ask for it, a little more rarely each time. */
async function waitForServer() {
  for (let wait = 1000; lost; wait = Math.min(wait * 1.5, 8000)) {
    await pause(wait);
    try {
      const answer = await fetch("/readyz", { cache: "no-store" });
      if (answer.ok) say(false);
    } catch {
      // not yet
    }
  }
}

async function refusal(answer) {
  try {
    const { error } = await answer.json();
    return new Refusal(answer.status, error.code, error.message);
  } catch {
    return new Refusal(answer.status, "answer", `the answer has status ${answer.status}`);
  }
}

/** An answer as JSON. A busy server is asked again, if that is harmless. */
export async function call(method, address, options = {}) {
  const harmless = method === "GET" || options.number || options.reads;
  for (let turn = 0; ; turn += 1) {
    const answer = await request(method, address, options);
    if (answer.ok) {
      const content = await answer.json();
      return options.whole ? { status: answer.status, content } : content;
    }
    const after = Number(answer.headers.get("retry-after") || 0);
    if (harmless && turn < 3 && after && after <= 5 && [429, 502, 503].includes(answer.status)) {
      await pause(after * 1000, options.signal);
      continue;
    }
    throw await refusal(answer);
  }
}

export const get = (address, options) => call("GET", address, options);
/** A question that is too long or too private for an address. */
export const ask = (address, body, options) => call("POST", address, { ...options, body, reads: true });
/** A change; it carries a number, so that it is done once. */
export async function change(address, body, options) {
  const answer = await call("POST", address, { number: requestNumber(), ...options, body });
  events.dispatchEvent(new Event("changed"));
  return answer;
}

/** A file for the person at the browser. Its name says nothing about anybody. */
export function download(content, name, kind = "application/json") {
  const blob = content instanceof Blob ? content : new Blob([content], { type: kind });
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** What went wrong in a few words, and what to do about it. */
export function advice(error) {
  if (error instanceof Unreachable) {
    return [
      "The server does not answer",
      "It may be starting again. This page keeps trying, and goes on where it was.",
    ];
  }
  if (!(error instanceof Refusal)) {
    return ["Something went wrong in this page", "Load it again. If that does not help, tell whoever runs the server."];
  }
  const said = error.message ? `${error.message[0].toUpperCase()}${error.message.slice(1)}.` : "";
  switch (error.code) {
    case "role":
      return ["Your key may not do this", `${said} Whoever manages the keys can give you one.`];
    case "collection":
      return error.status === 404
        ? ["There is no such collection", "It may have been dropped or renamed. Go back to the list."]
        : ["Your key is for other collections", `${said} Whoever manages the keys can give you one.`];
    case "held":
      return [
        "A legal hold keeps these records",
        "Nothing was changed. Somebody who may lift holds has to do so first, under Holds and retention.",
      ];
    case "blocked":
      return ["Nothing may be written for this person", "Unblock them first, under Person."];
    case "unknown":
      return ["Nothing was found", "Check the spelling: capital letters and spaces count."];
    case "busy":
    case "no_writer":
    case "writer_lost":
    case "locked":
      return ["The server is busy", "Nothing was changed. Try again in a moment."];
    case "slow":
      return [
        "This takes longer than one request may",
        "The server goes on with it: the first filter on a large collection prepares an index of its fields. Try again in a minute, or ask for less.",
      ];
    case "storage_full":
      return ["The server's disk is full", "Nothing was changed. Free some space on it, then try again."];
    case "receipt":
      return ["This is no receipt of ours", said];
    case "too_many_requests":
      return ["Too many requests", "Wait a few seconds, then try again."];
    default:
      if (error.status >= 500) return ["The server has failed", "Its log says where. Tell whoever runs it, then try again."];
      return ["The server has refused this", said];
  }
}
