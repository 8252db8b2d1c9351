/** Where each pod of a StatefulSet is asked, as a URL says it: all of it but the host, which is the pod's own. */
import { parsePath, parsePort } from "../base/ports-and-paths.ts";

export interface PodEndpoint {
  readonly scheme: "http" | "https";
  readonly port: number;
  /** With its query. */
  readonly path: string;
  /** The header `authorization` that the user and the password of the URL ask for; absent without them. */
  readonly authorization?: string;
}

export const endpointGrammar = "a URL of http or https with a path, such as http://pod:8080/ingester/prepare";

const usualPorts = { http: 80, https: 443 } as const;

/** The endpoint that a URL names; undefined for what is no URL of http or https that can be called (spec 3.4). */
export function parseEndpoint(text: string): PodEndpoint | undefined {
  if (!/^https?:\/\//i.test(text) || !URL.canParse(text)) return undefined;
  const url = new URL(text);
  const scheme = url.protocol === "https:" ? "https" : "http";
  // What the text says, and not what the parser makes of `:99999` or of a default.
  const port = url.port === "" ? usualPorts[scheme] : parsePort(url.port);
  const path = parsePath(`${url.pathname}${url.search}`);
  if (port === undefined || path === undefined) return undefined;
  if (url.username === "" && url.password === "") return { scheme, port, path };
  const credentials = `${decoded(url.username)}:${decoded(url.password)}`;
  return { scheme, port, path, authorization: `Basic ${Buffer.from(credentials).toString("base64")}` };
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
