/** What agents ask each other over HTTP, and what they answer: `GET /v1/verdict/NODE` and `GET /v1/here`, in JSON. */

import { fenceArmed } from "../../shared/annotations/fencing.ts";
import { longestNodeName } from "../../shared/annotations/fencing-leases.ts";
import { isObjectName } from "../../shared/base/dns-names.ts";
import { type Fields, parseFields } from "../../shared/base/fields.ts";
import type { PeerAnswer } from "./decide-excuse.ts";

/** The header with the signature of the bytes of the body, by the key of the agent that answers. */
export const signatureHeader = "sluice-signature";
/** The most bytes of an answer. The longest names and ids need 800. */
export const mostBodyBytes = 1024;

const verdictPath = "/v1/verdict/";
const herePath = "/v1/here";
const metricsPath = "/metrics";
const noncePattern = /^[\da-f]{32}$/;
const answers: readonly PeerAnswer[] = ["alive", "stop", "no-api", "unknown"];

/** What an agent answers about one boot of a node. */
export interface VerdictBody {
  readonly verdict: PeerAnswer;
  readonly node: string;
  readonly boot: string;
  /** As the question had it, so that no earlier answer can be used again. */
  readonly nonce: string;
  /** The Node of the agent that answers. */
  readonly peer: string;
  /** The fence that is armed for the boot: present exactly for `stop`. */
  readonly fenceId?: string | undefined;
}

/** What an agent answers to a drill. No body is both this and a verdict, because neither may have more fields or fewer. */
export type HereBody = Pick<VerdictBody, "peer" | "nonce">;

export type PeerQuestion =
  | ({ readonly kind: "verdict" } & Pick<VerdictBody, "node" | "boot" | "nonce">)
  | { readonly kind: "here"; readonly nonce: string }
  /** Prometheus asks, and no peer. */
  | { readonly kind: "metrics" }
  /** `message` shows what the path must be. */
  | { readonly kind: "malformed"; readonly message: string }
  | { readonly kind: "other-path" };

/** The path of a question. What {@link parseQuestion} refuses is refused by the peer. */
export function verdictPathOf({ node, boot, nonce }: Pick<VerdictBody, "node" | "boot" | "nonce">): string {
  return `${verdictPath}${encodeURIComponent(node)}?${new URLSearchParams({ boot, nonce })}`;
}

export const herePathOf = (nonce: string): string => `${herePath}?${new URLSearchParams({ nonce })}`;

/** The question in the path of a request. Parameters of later versions are ignored; no known one may stand twice. */
export function parseQuestion(url: string): PeerQuestion {
  const end = url.indexOf("?");
  const path = end < 0 ? url : url.slice(0, end);
  const parameters = new URLSearchParams(end < 0 ? "" : url.slice(end));
  const valueOfParameter = (name: string): string => {
    const [value = "", ...more] = parameters.getAll(name);
    return more.length === 0 ? value : "";
  };
  if (path === metricsPath) return { kind: "metrics" };
  if (path !== herePath && !path.startsWith(verdictPath)) return { kind: "other-path" };
  const nonce = valueOfParameter("nonce");
  if (!isNonce(nonce)) return { kind: "malformed", message: "nonce must be 32 lower-case hex digits" };
  if (path === herePath) return { kind: "here", nonce };
  const node = path.slice(verdictPath.length);
  const boot = valueOfParameter("boot");
  if (!isNodeName(node)) {
    return { kind: "malformed", message: `the node must be a name of at most ${longestNodeName} characters` };
  }
  if (!isBootId(boot)) return { kind: "malformed", message: "boot must be a boot id of at most 64 characters" };
  return { kind: "verdict", node, boot, nonce };
}

/** The bytes that are signed and sent. */
export function formatVerdict({ verdict, node, boot, nonce, peer, fenceId }: VerdictBody): Buffer {
  return Buffer.from(JSON.stringify({ verdict, node, boot, nonce, peer, fenceId }));
}

export const formatHere = ({ peer, nonce }: HereBody): Buffer => Buffer.from(JSON.stringify({ peer, nonce }));

/** Undefined for any other text, for a `stop` without a fence, and for another verdict with one. */
export function parseVerdict(body: Uint8Array): VerdictBody | undefined {
  const fields = parseBody(body, ["verdict", "node", "boot", "nonce", "peer"], "fenceId");
  if (fields === undefined) return undefined;
  const { node, boot, nonce, peer, fenceId } = fields;
  const verdict = answers.find((one) => one === fields.verdict);
  if (verdict === undefined || (verdict === "stop") !== (fenceId !== undefined)) return undefined;
  if (!isNodeName(node) || !isBootId(boot) || !isNonce(nonce) || !isNodeName(peer)) return undefined;
  return fenceId === undefined || isFenceId(fenceId) ? { verdict, node, boot, nonce, peer, fenceId } : undefined;
}

/** Undefined for any other text. */
export function parseHere(body: Uint8Array): HereBody | undefined {
  const fields = parseBody(body, ["peer", "nonce"]);
  if (fields === undefined) return undefined;
  const { peer, nonce } = fields;
  return isNodeName(peer) && isNonce(nonce) ? { peer, nonce } : undefined;
}

/** The fields of a body that has all of these, and no other but the optional one. */
function parseBody(body: Uint8Array, names: readonly string[], optional?: string): Fields | undefined {
  if (body.length > mostBodyBytes) return undefined;
  const fields = parseFields(Buffer.from(body).toString("utf8"));
  if (fields === undefined || !names.every((name) => Object.hasOwn(fields, name))) return undefined;
  return Object.keys(fields).every((name) => names.includes(name) || name === optional) ? fields : undefined;
}

const isNonce = (value: unknown): value is string => typeof value === "string" && noncePattern.test(value);

const isNodeName = (value: unknown): value is string =>
  typeof value === "string" && value.length <= longestNodeName && isObjectName(value);

/** An id that {@link fenceArmed} can have, of a boot or of a fence, because the answers are about its value. */
const isBootId = (value: unknown): value is string =>
  typeof value === "string" && fenceArmed.parse(`fence ${value}`)?.bootId === value;

const isFenceId = (value: unknown): value is string =>
  typeof value === "string" && fenceArmed.parse(`${value} boot`)?.fenceId === value;
