/** The one request: a node is asked to spread the queue leaders of its cluster. */

import { healthAuthority } from "../shared/annotations/health.ts";
import type { Context } from "../shared/contract/context.ts";
import { CredentialError, describeUntrusted, readPassword, trust } from "../shared/health/credentials.ts";
import { type PodAnswer, PodHttpError } from "../shared/http/pod-http.ts";
import type { RebalanceEndpoint } from "./decide.ts";

/** What became of it: undefined where the node has taken it on. */
export type RebalanceRefusal = { readonly guard: string; readonly why: string } | undefined;

const path = "/api/rebalance/queues";
/** What RabbitMQ answers about a request that it has taken on. It answers before the leaders have moved. */
const takenOn = 204;
/** All of it is over by then, in milliseconds, whatever the time limit of a call is: a claim lasts for longer. */
const rebalanceWithinMs = 20_000;
const mostBytes = 4_096;
const longestReply = 200;

export interface Node {
  readonly namespace: string;
  readonly group: string;
  readonly pod: string;
  readonly endpoint: RebalanceEndpoint;
}

/** Resolves always, 20 s later at most. */
export async function ask(context: Context, node: Node): Promise<RebalanceRefusal> {
  const { cluster } = context;
  const [over, done] = [new AbortController(), new AbortController()];
  const late = cluster.sleep(rebalanceWithinMs, done.signal).then((): RebalanceRefusal => {
    over.abort();
    return unanswered(`${node.pod} did not answer within ${rebalanceWithinMs} ms`);
  });
  const answered = await Promise.race([send(context, node, over.signal), late]);
  done.abort();
  return answered;
}

async function send({ cluster, pods }: Context, node: Node, signal: AbortSignal): Promise<RebalanceRefusal> {
  const { namespace, group, pod, endpoint } = node;
  const { url, service, secret, authority } = endpoint;
  if (pods === undefined) return unanswered("this process calls no pods");
  const notAfterMs = cluster.monotonicMs() + rebalanceWithinMs;
  try {
    const headers: Record<string, string> =
      secret === undefined ? {} : { authorization: await readPassword(cluster, { namespace, name: secret }) };
    const { scheme, port } = url;
    const address = await trust(cluster, { pod, service, namespace, group, scheme, port }, authority);
    const request = { method: "POST", path, headers, mostBytes } as const;
    return readAnswer(pod, await pods.send(address, request, { signal, notAfterMs }));
  } catch (error) {
    if (error instanceof CredentialError) return { guard: "credentials-missing", why: cut(error.message) };
    if (error instanceof PodHttpError && error.isUntrusted)
      return unanswered(`${describeUntrusted(healthAuthority.key, authority)}: ${error.message}`);
    if (error instanceof PodHttpError) return unanswered(error.message);
    throw error;
  }
}

/** What an answer says. A success of another kind is not RabbitMQ's: something else listens there. */
export function readAnswer(pod: string, { status, body }: Pick<PodAnswer, "status" | "body">): RebalanceRefusal {
  if (status === takenOn) return undefined;
  const reply = `${pod} answered HTTP ${status} ${body.trim()}`.trimEnd();
  if (status === 401 || status === 403) {
    return {
      guard: "rebalance-refused",
      why: cut(`the password must be right, and its user have the tag administrator: ${reply}`),
    };
  }
  const isOthers = status >= 200 && status < 400;
  return { guard: "rebalance-refused", why: cut(isOthers ? `that is no answer of RabbitMQ's: ${reply}` : reply) };
}

function unanswered(detail: string): NonNullable<RebalanceRefusal> {
  return { guard: "rebalance-unanswered", why: cut(detail) };
}

/** One line: it stands in an annotation. */
function cut(text: string): string {
  return text.replace(/\s+/g, " ").slice(0, longestReply);
}
