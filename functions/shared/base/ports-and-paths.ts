/** Ports and paths as people write them. Pure. */

const longestPath = 8_192;

/** The port that a text names: `80`, and nothing more. Undefined for what is no number from 1 to 65535, such as `1@other:80`. */
export function parsePort(text: string): number | undefined {
  if (!/^\d{1,5}$/.test(text)) return undefined;
  const port = Number(text);
  return isPort(port) ? port : undefined;
}

/**
 * The path that a text names, with its query: `/` comes before it where it has none. Undefined for what cannot be sent as it is:
 * empty, spaces, controls, letters beyond ASCII, a fragment, or more than 8,192 characters.
 */
export function parsePath(text: string): string | undefined {
  const path = text.startsWith("/") ? text : `/${text}`;
  return text !== "" && isPath(path) ? path : undefined;
}

/** True for an integer from 1 to 65535. */
export function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}

/** True for visible ASCII from a slash on. An absolute URL would be one for a proxy: it has none. */
export function isPath(path: string): boolean {
  return path.length <= longestPath && /^\/[\x21-\x22\x24-\x7e]*$/.test(path);
}

/** A path as logs, Events and metrics show it: a query may hold a password. */
export function withoutQuery(path: string): string {
  return path.replace(/\?.*$/s, "");
}
