/** The requests of the agent to the API server, over Node's own HTTPS: a client library would be most of its memory. */
import { readFileSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { Agent as Connections, request } from "node:https";
import { join } from "node:path";
import { agentName } from "../../shared/annotations/fencing-leases.ts";
import { messageOf } from "../../shared/base/error-message.ts";
import { fieldsOf, parseFields } from "../../shared/base/fields.ts";
import type { OwnNode } from "./decide-mode.ts";
import { hasFenceTaint, type LeaseAnnotations, ownNodeOf } from "./decide-renewal.ts";
import type { AgentApi, AgentLease, ApiAnswer } from "./outside.ts";
import type { AgentSettings } from "./settings.ts";

/** The most bytes of an answer, which is more than the API server stores of an object. */
const mostAnswerBytes = 4 * 1024 * 1024;
/** The most characters of a message that the log shows. */
const mostMessageCharacters = 300;
const mergePatch = "application/merge-patch+json";

interface Call {
  readonly method: "GET" | "POST" | "PATCH";
  readonly path: string;
  readonly body?: object;
  readonly timeoutMs: number;
  /** True for what a peer has asked for. */
  readonly isForPeer?: boolean;
}

type Reading = Pick<Call, "timeoutMs" | "isForPeer"> & { readonly node: string };

/** Connections for requests of this agent, and others for those of its peers. */
interface AgentConnections {
  readonly authority: string;
  readonly own: Connections;
  readonly peers: Connections;
}

export type AgentApiSettings = Pick<AgentSettings, "host" | "port" | "credentials" | "namespace" | "node">;

export class HttpsApi implements AgentApi {
  readonly #settings: AgentApiSettings;
  readonly #leases: string;
  readonly #lease: string;
  #pools: AgentConnections | undefined;

  constructor(settings: AgentApiSettings) {
    this.#settings = settings;
    this.#leases = `/apis/coordination.k8s.io/v1/namespaces/${settings.namespace}/leases`;
    this.#lease = agentName(settings.node);
  }

  readLease(timeoutMs: number): Promise<ApiAnswer<AgentLease>> {
    return this.#readLease({ node: this.#settings.node, timeoutMs, isForPeer: false });
  }

  readOwnNode(timeoutMs: number): Promise<ApiAnswer<OwnNode>> {
    return this.#call({ method: "GET", path: `/api/v1/nodes/${this.#settings.node}`, timeoutMs }, ownNodeOf);
  }

  readLeaseOf(node: string, timeoutMs: number): Promise<ApiAnswer<AgentLease>> {
    return this.#readLease({ node, timeoutMs, isForPeer: true });
  }

  createLease(annotations: LeaseAnnotations, timeoutMs: number): Promise<ApiAnswer<AgentLease>> {
    const metadata = { name: this.#lease, annotations };
    const spec = { holderIdentity: this.#settings.node };
    const body = { apiVersion: "coordination.k8s.io/v1", kind: "Lease", metadata, spec };
    return this.#call({ method: "POST", path: this.#leases, body, timeoutMs }, leaseOf);
  }

  patchLease(base: AgentLease, annotations: LeaseAnnotations, timeoutMs: number): Promise<ApiAnswer<AgentLease>> {
    const { uid, resourceVersion } = base;
    const body = { metadata: { uid, resourceVersion, annotations } };
    return this.#call({ method: "PATCH", path: `${this.#leases}/${this.#lease}`, body, timeoutMs }, leaseOf);
  }

  readNodeTaint(timeoutMs: number): Promise<ApiAnswer<boolean>> {
    return this.#readTaint({ node: this.#settings.node, timeoutMs, isForPeer: false });
  }

  readTaintOf(node: string, timeoutMs: number): Promise<ApiAnswer<boolean>> {
    return this.#readTaint({ node, timeoutMs, isForPeer: true });
  }

  #readLease({ node, ...call }: Reading): Promise<ApiAnswer<AgentLease>> {
    return this.#call({ method: "GET", path: `${this.#leases}/${agentName(node)}`, ...call }, leaseOf);
  }

  #readTaint({ node, ...call }: Reading): Promise<ApiAnswer<boolean>> {
    const path = `/api/v1/nodes/${node}`;
    return this.#call({ method: "GET", path, ...call }, ({ spec }) => hasFenceTaint(fieldsOf(spec)?.taints));
  }

  async #call<T>(
    call: Call,
    read: (object: Readonly<Record<string, unknown>>) => T | undefined,
  ): Promise<ApiAnswer<T>> {
    try {
      const { status, text } = await this.#send(call);
      const object = parseFields(text);
      if (status >= 300) return { status, message: refusalOf(object?.message, text), value: undefined };
      const value = object === undefined ? undefined : read(object);
      if (value === undefined) return { status: 0, message: "the answer is not the object", value };
      return { status, message: "", value };
    } catch (error) {
      return { status: 0, message: messageOf(error), value: undefined };
    }
  }

  /** Rejects if no whole answer comes in time. Files are read anew for each request, because Kubernetes replaces them. */
  #send({ method, path, body, timeoutMs, isForPeer = false }: Call): Promise<{ status: number; text: string }> {
    const { credentials, host, port } = this.#settings;
    const token = readFileSync(join(credentials, "token"), "utf8").trim();
    const sent = body === undefined ? undefined : JSON.stringify(body);
    const { promise, resolve, reject } = Promise.withResolvers<{ status: number; text: string }>();
    const signal = AbortSignal.timeout(Math.max(1, Math.ceil(timeoutMs)));
    const outgoing = request({
      ...{ host, port, method, path, signal },
      agent: isForPeer ? this.#connections().peers : this.#connections().own,
      headers: {
        authorization: `Bearer ${token}`,
        accept: "application/json",
        "user-agent": "sluice-agent",
        ...(sent === undefined
          ? {}
          : {
              "content-type": method === "PATCH" ? mergePatch : "application/json",
              "content-length": Buffer.byteLength(sent),
            }),
      },
    });
    const late = () => reject(new Error(`no answer within ${Math.ceil(timeoutMs)} ms`));
    const fail = (error: Error) => (signal.aborted ? late() : reject(error));
    // A request that waits for a connection has no error before it gets one.
    signal.addEventListener("abort", late, { once: true });
    outgoing.on("error", fail);
    outgoing.on("response", (answer) => {
      readText(answer).then((text) => resolve({ status: answer.statusCode ?? 0, text }), fail);
    });
    outgoing.end(sent);
    return promise;
  }

  /** Two pools, so that slow reads for peers, for which any host can ask, never keep a renewal waiting. */
  #connections(): AgentConnections {
    const authority = readFileSync(join(this.#settings.credentials, "ca.crt"), "utf8");
    if (this.#pools?.authority === authority) return this.#pools;
    this.#pools?.own.destroy();
    this.#pools?.peers.destroy();
    const makePool = () => new Connections({ ca: authority, keepAlive: true, maxSockets: 2 });
    this.#pools = { authority, own: makePool(), peers: makePool() };
    return this.#pools;
  }
}

async function readText(answer: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of answer as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > mostAnswerBytes) throw new Error(`the answer has more than ${mostAnswerBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
}

function refusalOf(message: unknown, text: string): string {
  return (typeof message === "string" ? message : text.trim()).slice(0, mostMessageCharacters);
}

/** Undefined for an object without the fields that a conditional write needs. */
function leaseOf({ metadata }: Readonly<Record<string, unknown>>): AgentLease | undefined {
  const { uid, resourceVersion, annotations } = fieldsOf(metadata) ?? {};
  if (typeof uid !== "string" || typeof resourceVersion !== "string") return undefined;
  const texts = Object.entries(fieldsOf(annotations) ?? {}).filter(([, text]) => typeof text === "string");
  return { uid, resourceVersion, annotations: Object.fromEntries(texts) as LeaseAnnotations };
}
