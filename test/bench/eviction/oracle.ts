/** The storm without a webhook: the time that the API server and the pods themselves take if no client ever asks in vain. */
import { Api } from "../../controlplane/api.ts";
import { follow } from "../../controlplane/follow.ts";
import { isReady } from "../../controlplane/podstatus.ts";
import type { Contender } from "../contenders.ts";
import { type Scene, userAgent } from "../trial.ts";
import type { Pod } from "./setting.ts";

type SeenPod = Parameters<typeof isReady>[0] & {
  readonly metadata: { readonly uid: string; readonly deletionTimestamp?: string; readonly labels?: { zone?: string } };
};

/** Takes the place of a contender. It is no process of its own: what it uses is what the bench uses. */
export const oracle: Contender = {
  name: "oracle",
  pid: process.pid,
  userAgent,
  reviewsUrl: undefined,
  check: async () => {},
  stop: async () => {},
};

/**
 * Evicts pods zone after zone, as many at once as the budget allows, and the next one as soon as a watch shows that another is
 * back and Ready.
 *
 * @param evict resolves to whether the pod goes. If it does not, this rejects, because no webhook could have refused
 */
export async function evictAsOracle(
  { controlPlane, group, size, signal }: Scene,
  pods: readonly Pod[],
  evict: (pod: Pod) => Promise<boolean>,
): Promise<void> {
  const stop = new AbortController();
  const api = await Api.open(controlPlane, { userAgent, connections: 2 });
  const known = new Map<string, SeenPod>();
  const asked = new Set<string>();
  const queue = [...pods];
  const ended = Promise.withResolvers<void>();
  let going = 0;

  const ask = async (pod: Pod): Promise<void> => {
    if (!(await evict(pod))) throw new Error(`the eviction of ${pod.name} was refused, and there is no webhook`);
    going--;
    if (queue.length === 0 && going === 0) ended.resolve();
  };
  const sample = (): void => {
    for (let next = queue[0]; next !== undefined; next = queue[0]) {
      const up = [...known.values()].filter((pod) => isUp(pod) && !asked.has(pod.metadata.uid));
      const inZone = up.filter(({ metadata }) => metadata.labels?.zone === next?.zone).length;
      const othersWhole = up.length - inZone === (size.zones - 1) * size.pods;
      if (!othersWhole || size.pods - inZone >= size.budget) return;
      queue.shift();
      asked.add(next.uid);
      going++;
      ask(next).catch(ended.reject);
    }
  };
  const follower = {
    path: `/api/v1/namespaces/${group.namespace}/pods`,
    known,
    seen: (pod: SeenPod): void => {
      known.set(pod.metadata.uid, pod);
      if (known.size >= pods.length) sample();
    },
    gone: (uid: string): void => {
      known.delete(uid);
    },
  };
  signal.addEventListener("abort", () => ended.reject(signal.reason), { signal: stop.signal });
  try {
    await follow(api, follower, stop.signal);
    await ended.promise;
  } finally {
    stop.abort();
    await api.close();
  }
}

function isUp(pod: SeenPod): boolean {
  return isReady(pod) && pod.metadata.deletionTimestamp === undefined;
}
