// Numbers, times and lengths of time as people read them.

const WHOLE = new Intl.NumberFormat("en");
const SHORT = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const count = (number) => WHOLE.format(Math.round(number));
export const compact = (number) => (number < 100000 ? count(number) : SHORT.format(number));

/** "1 record", "2 records". */
export function many(number, one, more) {
  return `${count(number)} ${number === 1 ? one : more || `${one}s`}`;
}

export function percent(share) {
  if (share > 0 && share < 0.001) return "under 0.1 %";
  return `${(share * 100).toFixed(share < 0.1 ? 1 : 0)} %`;
}

export function bytes(number) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${number < 10 && unit ? number.toFixed(1) : Math.round(number)} ${units[unit]}`;
}

/** A moment, in the reader's own time zone. */
export function time(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return String(text);
  return moment.toLocaleString("en-GB", {
    year: "numeric",
    month: "short",
    day: "numeric",
    hour: "2-digit",
    minute: "2-digit",
  });
}

export function day(text) {
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) return String(text);
  return moment.toLocaleDateString("en-GB", { year: "numeric", month: "short", day: "numeric" });
}

export function month(text) {
  return new Date(text).toLocaleDateString("en-GB", { year: "numeric", month: "short" });
}

const UNITS = [
  ["year", 365 * 86400],
  ["month", 30 * 86400],
  ["day", 86400],
  ["hour", 3600],
  ["minute", 60],
  ["second", 1],
];

/** A length of time, in its largest unit. */
export function duration(seconds) {
  for (const [name, size] of UNITS) {
    if (seconds >= size) {
      const value = seconds / size;
      return amount(value, name);
    }
  }
  return "less than a second";
}

/** As `mm:ss`. */
export function clock(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  return `${Math.floor(whole / 60)}:${String(whole % 60).padStart(2, "0")}`;
}

export function milliseconds(value) {
  if (value === null || value === undefined) return "–";
  return value < 10 ? `${value.toFixed(2)} ms` : value < 1000 ? `${Math.round(value)} ms` : `${(value / 1000).toFixed(1)} s`;
}

/** A value of a payload, on one line. */
export function value(content) {
  if (content === null || content === undefined) return "–";
  if (typeof content === "string") return content;
  if (typeof content === "number") return Number.isInteger(content) ? String(content) : String(Number(content.toPrecision(6)));
  return JSON.stringify(content);
}

function amount(value, name) {
  const shown = Math.abs(value - Math.round(value)) < 0.05 ? Math.round(value) : Number(value.toFixed(1));
  return `${shown} ${name}${shown === 1 ? "" : "s"}`;
}
