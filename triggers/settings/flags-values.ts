/** Values as rollout-operator's flags take them: Go's, and Prometheus' durations. */

/** Go's `strconv.ParseBool`; undefined for what it refuses. */
export function parseGoBoolean(text: string): boolean | undefined {
  if (["1", "t", "T", "TRUE", "true", "True"].includes(text)) return true;
  if (["0", "f", "F", "FALSE", "false", "False"].includes(text)) return false;
  return undefined;
}

const integers = [
  { radix: 16, pattern: /^0[xX]((?:_?[0-9a-fA-F])+)$/ },
  { radix: 2, pattern: /^0[bB]((?:_?[01])+)$/ },
  { radix: 8, pattern: /^0[oO]?((?:_?[0-7])+)$/ },
  { radix: 10, pattern: /^(0|[1-9](?:_?\d)*)$/ },
];

/** Go's `strconv.ParseInt` without a given base, up to what a number holds exactly; undefined for what it refuses. */
export function parseGoInteger(text: string): number | undefined {
  const unsigned = text.replace(/^[+-]/, "");
  for (const { radix, pattern } of integers) {
    const digits = pattern.exec(unsigned)?.[1];
    if (digits === undefined) continue;
    const value = Number.parseInt(digits.replaceAll("_", ""), radix);
    if (!Number.isSafeInteger(value)) return undefined;
    return text.startsWith("-") ? -value : value;
  }
  return undefined;
}

/** Go's `strconv.ParseFloat`, but for hexadecimal, infinite and absent numbers; undefined for what it refuses. */
export function parseGoFloat(text: string): number | undefined {
  const value = /^[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?$/.test(text) ? Number(text) : Number.NaN;
  return Number.isFinite(value) ? value : undefined;
}

const dayMs = 86_400_000;
/** From the largest, which is the order that they must be written in. */
const prometheusUnits = [365 * dayMs, 7 * dayMs, dayMs, 3_600_000, 60_000, 1_000, 1] as const;
const prometheusDuration = /^(?:(\d+)y)?(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?$/;

/** Prometheus' `model.ParseDuration`, in milliseconds; undefined for what it refuses. */
export function parsePrometheusDuration(text: string): number | undefined {
  if (text === "0") return 0;
  const match = text === "" ? null : prometheusDuration.exec(text);
  if (match === null) return undefined;
  return prometheusUnits.reduce((sum, unit, index) => sum + unit * Number(match[index + 1] ?? 0), 0);
}
