/** Numbers as rollout-operator's flags take them: Go's. */

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
