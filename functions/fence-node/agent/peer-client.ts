/** How an agent asks its peers: all addresses of one at once, with one deadline, and no kept connection. */
import { randomBytes } from "node:crypto";
import { type IncomingMessage, request } from "node:http";
import { isIP } from "node:net";
import type { AgentAddress } from "../../shared/annotations/fencing-peers.ts";
import type { PeerAddress, PeerRequests, PeerVerdict } from "./outside.ts";
import { isSignedBy } from "./peer-key.ts";
import { herePathOf, mostBodyBytes, parseHere, parseVerdict, signatureHeader, verdictPathOf } from "./peer-messages.ts";

/** The most bytes of the headers of an answer. */
const mostHeaderBytes = 4096;
const nonceBytes = 16;

/** Reads the body of an answer; undefined for one that does not answer this question. */
type ReadBody<T> = (body: Uint8Array) => T | undefined;

interface PeerCall {
  readonly path: string;
  readonly publicKey: string;
  readonly signal: AbortSignal;
}

export class PeerClient implements PeerRequests {
  ask(
    peer: PeerAddress,
    { node, bootId: boot }: { readonly node: string; readonly bootId: string },
    timeoutMs: number,
  ): Promise<PeerVerdict | undefined> {
    const nonce = newNonce();
    return firstOf(peer, verdictPathOf({ node, boot, nonce }), timeoutMs, (body): PeerVerdict | undefined => {
      const answer = parseVerdict(body);
      const isOurs = answer?.nonce === nonce && answer.node === node && answer.boot === boot;
      if (!isOurs || answer.peer !== peer.name) return undefined;
      const { verdict, fenceId } = answer;
      return fenceId === undefined ? { verdict } : { verdict, fenceId };
    });
  }

  async drill(peer: PeerAddress, timeoutMs: number): Promise<boolean> {
    const nonce = newNonce();
    const isHere = await firstOf(peer, herePathOf(nonce), timeoutMs, (body): true | undefined => {
      const answer = parseHere(body);
      return answer?.nonce === nonce && answer.peer === peer.name ? true : undefined;
    });
    return isHere === true;
  }
}

const newNonce = (): string => randomBytes(nonceBytes).toString("hex");

/** The first answer that counts, from any address; undefined if none comes in time. Never rejects. */
async function firstOf<T>(
  { publicKey, addresses }: PeerAddress,
  path: string,
  timeoutMs: number,
  read: ReadBody<T>,
): Promise<T | undefined> {
  const ending = new AbortController();
  const end = () => ending.abort();
  try {
    const deadline = AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)));
    deadline.addEventListener("abort", end, { once: true });
    const call = { path, publicKey, signal: ending.signal };
    return await Promise.any(addresses.map((address) => readFrom(address, call, read)));
  } catch {
    return undefined;
  } finally {
    end();
  }
}

/** Rejects for an answer that does not count, and where none comes before the signal. */
async function readFrom<T>({ host, port }: AgentAddress, call: PeerCall, read: ReadBody<T>): Promise<T> {
  const { path, publicKey, signal } = call;
  // A name would be asked of DNS, which a node that is cut off does not reach either.
  if (isIP(host) === 0) throw new Error("no address of IP");
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const outgoing = request({ host, port, path, signal, agent: false, maxHeaderSize: mostHeaderBytes });
  // An answer that changes the protocol ends the connection without an error.
  signal.addEventListener("abort", () => reject(new Error("no answer in time")), { once: true });
  outgoing.on("error", reject);
  outgoing.on("response", (answer) => {
    bodyOf(answer)
      .then((body) => {
        const signature = answer.headers[signatureHeader];
        const isSigned = typeof signature === "string" && isSignedBy(publicKey, body, signature);
        const value = isSigned ? read(body) : undefined;
        if (value === undefined) throw new Error("no answer of this peer to this question");
        resolve(value);
      })
      .catch(reject);
  });
  outgoing.end();
  return await promise;
}

/** Rejects for another status than 200, and for more bytes than an answer has; either ends the connection. */
async function bodyOf(answer: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (answer.statusCode !== 200 || bytes > mostBodyBytes) throw new Error("no answer to a question");
    chunks.push(chunk);
  }
  if (answer.statusCode !== 200) throw new Error("no answer to a question");
  return Buffer.concat(chunks);
}
