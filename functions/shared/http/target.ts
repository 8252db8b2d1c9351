/** Where a request to a pod goes: the host is made of names alone, and whatever could lead elsewhere is refused. */
import { isPath, isPort } from "../base/ports-and-paths.ts";
import { type PodAddress, PodHttpError, type PodRequest, placeOf } from "./pod-http.ts";

export interface PodUrl {
  /** Scheme, host and port. */
  readonly origin: string;
  /** As DNS knows it, with the dot at its end if the cluster's domain has one: no search list is tried then. */
  readonly host: string;
  readonly port: number;
  /** What the header `host` says: without that dot, and without a port that is the scheme's usual one. */
  readonly hostHeader: string;
}

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const longestHost = 254;
/** Nothing of these is a caller's to say: they decide where a request ends, and whom it is for. */
const ownHeaders =
  /^(host|connection|content-length|expect|keep-alive|te|trailer|transfer-encoding|upgrade|proxy-.*)$/i;

/**
 * @throws PodHttpError of the kind `request` when a part of the address is none, or the request cannot be sent as it is.
 */
export function targetOf(address: PodAddress, request: PodRequest, clusterDomain: string): PodUrl {
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
  const origin = `${scheme}://${host}:${port}`;
  return { origin, host, port, hostHeader: new URL(origin.replace(`${host}:`, `${host.replace(/\.$/, "")}:`)).host };
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
