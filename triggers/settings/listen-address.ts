/** An address on which a server listens, as a setting has it. */
import { isIPv4, isIPv6 } from "node:net";

export interface ListenAddress {
  /** An IP address, or `localhost`. */
  readonly host: string;
  /** 0: any free one. */
  readonly port: number;
}

/** `127.0.0.1:8002`, `[::1]:8002` or `localhost:8002`; undefined for any other text. */
export function parseListenAddress(text: string): ListenAddress | undefined {
  const [, inBrackets, plain, digits = ""] = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9.]+)):(\d{1,5})$/i.exec(text) ?? [];
  const port = Number(digits);
  if (port > 65_535) return undefined;
  if (inBrackets !== undefined) return isIPv6(inBrackets) ? { host: inBrackets, port } : undefined;
  return plain !== undefined && (plain === "localhost" || isIPv4(plain)) ? { host: plain, port } : undefined;
}

/** As users write it: an IPv6 address stands in brackets. */
export function formatListenAddress({ host, port }: ListenAddress): string {
  return `${isIPv6(host) ? `[${host}]` : host}:${port}`;
}

/** True where only processes of the same machine or pod can reach it. */
export function isLoopback({ host }: Pick<ListenAddress, "host">): boolean {
  return host === "localhost" || host === "::1" || (isIPv4(host) && host.startsWith("127."));
}
