/** Where a request to a pod goes: the host is made of names alone, and whatever could lead elsewhere is refused. */
import { type PodAddress, PodHttpError, type PodRequest, placeOf } from "./pod-http.ts";

export interface Target {
  /** Scheme, host and port. */
  readonly origin: string;
  /** As DNS knows it, with the dot at its end if the cluster's domain has one: no search list is tried then. */
  readonly host: string;
  readonly port: number;
}

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const longestHost = 254;
const longestPath = 8_192;
/** Nothing of these is a caller's to say: they decide where a request ends, and whom it is for. */
const ownHeaders =
  /^(host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/i;

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

/**
 * @throws PodHttpError of the kind `request` when a part of the address is none, or the request cannot be sent as it is.
 */
export function targetOf(address: PodAddress, request: PodRequest, clusterDomain: string): Target {
  const { scheme, pod, service, namespace, port } = address;
  const refuse = (what: string): never => {
    throw new PodHttpError("request", `${placeOf(address, request)}: ${what}`, { sent: false });
  };
  if (scheme !== "http" && scheme !== "https") refuse(`"${scheme}" is neither http nor https`);
  for (const [part, name] of Object.entries({ pod, service, namespace })) {
    if (!label.test(name)) refuse(`"${name}" is no ${part}'s name in DNS`);
  }
  if (!isPort(port)) refuse(`"${port}" is no port from 1 to 65535`);
  if (!isPath(request.path)) refuse("the path cannot be sent as it is");
  for (const name of Object.keys(request.headers ?? {}))
    if (ownHeaders.test(name)) refuse(`the header ${name} is ours`);
  const host = `${pod}.${service}.${namespace}.svc.${clusterDomain}`;
  if (host.length > longestHost) refuse("its name is too long for DNS");
  return { origin: `${scheme}://${host}:${port}`, host, port };
}

/** True for a domain such as `cluster.local` or `cluster.local.`: labels with dots between. */
export function isClusterDomain(text: string): boolean {
  return (
    text.length < longestHost &&
    text
      .replace(/\.$/, "")
      .split(".")
      .every((part) => label.test(part))
  );
}

function isPort(port: number): boolean {
  return Number.isInteger(port) && port >= 1 && port <= 65_535;
}

/** Visible ASCII from a slash on. An absolute URL would be one for a proxy: it has none. */
function isPath(path: string): boolean {
  return path.length <= longestPath && /^\/[\x21-\x22\x24-\x7e]*$/.test(path);
}
