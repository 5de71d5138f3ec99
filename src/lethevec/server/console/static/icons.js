// Small pictures, drawn with lines. They are decoration: what they stand for is always said in words as well.

import { s } from "./dom.js";

const PATHS = {
  collections: ["M4 7c0-1.7 3.6-3 8-3s8 1.3 8 3-3.6 3-8 3-8-1.3-8-3z", "M4 7v5c0 1.7 3.6 3 8 3s8-1.3 8-3V7", "M4 12v5c0 1.7 3.6 3 8 3s8-1.3 8-3v-5"],
  find: ["M10.5 17a6.5 6.5 0 1 0 0-13 6.5 6.5 0 0 0 0 13z", "M15.5 15.5 20 20"],
  person: ["M12 12a4 4 0 1 0 0-8 4 4 0 0 0 0 8z", "M4.5 20c.8-3.7 3.8-5.5 7.5-5.5s6.7 1.8 7.5 5.5"],
  receipts: ["M6 3h9l4 4v14H6z", "M15 3v4h4", "m9.5 14 2 2 4-4.5"],
  holds: ["M7 11h10v9H7z", "M9 11V8a3 3 0 0 1 6 0v3"],
  keys: ["M15 4a5 5 0 1 1-3.9 8.1L4 19.2V21h3v-2h2v-2h2l1.9-1.9A5 5 0 0 1 15 4z", "M16.2 8.8h.01"],
  health: ["M3 12h4l2.5-6 4.5 12 2.5-6H21"],
  out: ["M14 4h5v16h-5", "M10 8l-4 4 4 4", "M6 12h9"],
  menu: ["M4 7h16", "M4 12h16", "M4 17h16"],
  close: ["M6 6l12 12", "M18 6 6 18"],
  good: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "m8 12.3 2.7 2.7L16 9.5"],
  bad: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M9 9l6 6", "M15 9l-6 6"],
  wait: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M12 7v5l3 2"],
  warn: ["M12 4 2.8 20h18.4z", "M12 10v4", "M12 17h.01"],
  info: ["M12 21a9 9 0 1 0 0-18 9 9 0 0 0 0 18z", "M12 11v5", "M12 8h.01"],
  download: ["M12 4v11", "m7.5 11 4.5 4.5 4.5-4.5", "M5 20h14"],
  erase: ["M5 7h14", "M9 7V4h6v3", "M7 7l1 13h8l1-13", "M10.5 11v5", "M13.5 11v5"],
  plus: ["M12 5v14", "M5 12h14"],
  back: ["M14.5 5 8 12l6.5 7"],
  next: ["M9.5 5 16 12l-6.5 7"],
  similar: ["M8 8a3 3 0 1 0 0-6 3 3 0 0 0 0 6z", "M17 14a3 3 0 1 0 0-6 3 3 0 0 0 0 6z", "M8 22a3 3 0 1 0 0-6 3 3 0 0 0 0 6z", "m10.7 6.5 3.6 2.8", "m10.7 17.5 3.6-4.8"],
  copy: ["M9 9h11v11H9z", "M5 15H4V4h11v1"],
};

export function icon(name) {
  return s(
    "svg",
    { class: "icon", viewBox: "0 0 24 24", "aria-hidden": "true", focusable: "false" },
    PATHS[name].map((path) => s("path", { d: path })),
  );
}

/** The mark of the house: two waves of a river. */
export function mark() {
  return s(
    "svg",
    { class: "mark", viewBox: "0 0 32 32", "aria-hidden": "true", focusable: "false" },
    s("rect", { width: 32, height: 32, rx: 8 }),
    s("path", { d: "M6 13c3.3-3 6.7-3 10 0s6.7 3 10 0M6 20c3.3-3 6.7-3 10 0s6.7 3 10 0" }),
  );
}
