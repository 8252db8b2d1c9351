/** Durations as Go and as Prometheus write them (`1h30m`, `1d12h`), and times and yes or no as Go reads them. */

const unitsMs: Readonly<Record<string, number>> = {
  ns: 1e-6,
  us: 1e-3,
  µs: 1e-3,
  μs: 1e-3,
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
};

/** 2^63 nanoseconds: Go counts them in 64 bits with a sign. */
const limitMs = 2 ** 63 / 1e6;

/** Go's `time.ParseDuration`, in milliseconds; undefined for what it refuses. */
export function parseGoDuration(text: string): number | undefined {
  const isNegative = text.startsWith("-");
  const unsigned = /^[+-]/.test(text) ? text.slice(1) : text;
  if (unsigned === "0") return 0;
  const part = /(\d+(?:\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)/gy;
  let sumMs = 0;
  let end = 0;
  for (const match of unsigned.matchAll(part)) {
    sumMs += Number(match[1]) * (unitsMs[match[2] ?? ""] ?? Number.NaN);
    end = match.index + match[0].length;
  }
  if (end === 0 || end !== unsigned.length || !(sumMs < limitMs)) return undefined;
  return isNegative && sumMs > 0 ? -sumMs : sumMs;
}

export const secondMs = 1_000;
export const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
/** From the largest, which is the order that they must be written in. */
const prometheusUnits = [365 * dayMs, 7 * dayMs, dayMs, hourMs, 60_000, secondMs, 1] as const;
const prometheusDuration = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;

/** Prometheus' `model.ParseDuration`, in milliseconds; undefined for what it refuses. */
export function parsePrometheusDuration(text: string): number | undefined {
  if (text === "0") return 0;
  const match = text === "" ? null : prometheusDuration.exec(text);
  if (match === null) return undefined;
  const ms = prometheusUnits.reduce((sum, unit, index) => sum + unit * Number(match[index + 1] ?? 0), 0);
  return ms < limitMs ? ms : undefined;
}

const time = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

/** A time as in RFC 3339, in milliseconds since the epoch; undefined for what is none. */
export function parseTime(text: string): number | undefined {
  const ms = time.test(text) ? Date.parse(text.replace(",", ".")) : Number.NaN;
  if (Number.isNaN(ms)) return undefined;
  // What JavaScript carries over, such as February 30, is no time to Go.
  const [day = ""] = text.split("T");
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day) ? ms : undefined;
}

/** The last moment that has a date. */
export const latestMs = 8.64e15;

/** A moment, in milliseconds since the epoch, as people read it: `2026-01-31T12:00:00Z`, up to the next second. */
export function formatTime(ms: number): string {
  return new Date(Math.min(Math.ceil(ms / 1000) * 1000, latestMs)).toISOString().replace(".000Z", "Z");
}

/** Go's `strconv.ParseBool`; undefined for what it refuses. */
export function parseGoBoolean(text: string): boolean | undefined {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  return undefined;
}
