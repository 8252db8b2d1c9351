/** Durations as Go writes them: `90s`, `1h30m`, `-1.5h`, `0`. */

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
