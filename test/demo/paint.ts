/** Colours of a terminal, or none. */

const codes = {
  bold: [1, 22],
  dim: [2, 22],
  red: [31, 39],
  green: [32, 39],
  yellow: [33, 39],
  blue: [34, 39],
  magenta: [35, 39],
  cyan: [36, 39],
} as const;

export type Style = keyof typeof codes;
export type Paint = (style: Style, text: string) => string;

/** Uses colours unless NO_COLOR is set (no-color.org) or the terminal is too simple for them. */
export function createPaint(environment: Readonly<Record<string, string | undefined>>): Paint {
  if (environment.NO_COLOR || environment.TERM === "dumb") return (_, text) => text;
  return (style, text) => {
    const [on, off] = codes[style];
    return text === "" ? "" : `\x1b[${on}m${text}\x1b[${off}m`;
  };
}
