/** The processes beside rollout-operator: the shipped watch for its pods, and what each process begins, answers and sends. */
import type { Context } from "../../../functions/shared/contract/context.ts";
import { type Cluster, ClusterError, type ObjectKey } from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import { createOperatorWatch } from "../../../functions/shared/standby/other-operator.ts";
import type { StoredPod } from "../../fake-cluster/objects.ts";
import type { World } from "../../fake-cluster/world.ts";
import type { Connection } from "../roles.ts";
import type { SeedRun } from "../seed.ts";
import type { Process } from "../simulated-cluster.ts";
import type { Beside } from "./beside-process.ts";
import { StandByChecker, type Witness } from "./checker.ts";
import { isOperatorPod, Periods } from "./periods.ts";

/** The namespaces in which groups are. */
export const served = ["db", "elsewhere"] as const;

/** What all processes of a seed share. */
interface Shared {
  readonly periods: Periods;
  readonly checker: StandByChecker;
  readonly processes: WeakMap<Process, Beside>;
  /** Until then LISTs of rollout-operator's pods fail with this code. */
  refused: { readonly untilMs: number; readonly code: number };
}

const known = new WeakMap<World, Shared>();

/** What the actor and the processes of a seed share. */
export function sharedOf({ world, plan, violate }: SeedRun): Shared {
  const before = known.get(world);
  if (before !== undefined) return before;
  const periods = new Periods(world);
  const checker = new StandByChecker({ world, periods, stops: plan.every.stopProcess > 0, violate });
  const shared: Shared = { periods, checker, processes: new WeakMap(), refused: { untilMs: 0, code: 0 } };
  known.set(world, shared);
  return shared;
}

/** The process as it is beside rollout-operator; undefined where the seed has none. */
export function besideOf(run: SeedRun, connection: Connection): Beside | undefined {
  if (run.plan.otherOperator === undefined) return undefined;
  const shared = sharedOf(run);
  const beside = shared.processes.get(connection.process) ?? open(run, shared, connection);
  shared.processes.set(connection.process, beside);
  return beside;
}

function open(run: SeedRun, shared: Shared, { process, cluster }: Connection): Beside {
  const { world, plan } = run;
  const { checker } = shared;
  const witness: Witness = { process: process.name, seen: new Map(), hasFailed: false };
  const namespaces = plan.otherOperator?.isListed === true ? served : undefined;
  const listed = witnessed(run, shared, witness, run.wrappers.cluster?.(cluster) ?? cluster);
  const watch = (over: Cluster) => createOperatorWatch(over, namespaces);
  const otherOperator = run.wrappers.otherOperator?.(watch, listed, process.name) ?? watch(listed);
  const sends = (key: ObjectKey, what: string) => checker.sends(witness, key.namespace ?? "", what);
  return {
    context: { namespaces, otherOperator },
    cluster: noteWrites(cluster, sends),
    noting: (definition) => {
      const { sweep } = definition;
      return {
        ...definition,
        reconcile: (context, key, trigger) => {
          checker.begins(witness, definition.name, [key.namespace]);
          return definition.reconcile(context, key, trigger);
        },
        ...(sweep && {
          sweep: (context: Context, keys: Parameters<typeof sweep>[1]) => {
            checker.begins(witness, `a sweep of ${definition.name}`, context.namespaces);
            return sweep(context, keys);
          },
        }),
      };
    },
    answering: (handler) => ({
      stop: () => handler.stop?.(),
      review: async (request) => {
        const sinceMs = world.timeline.nowMs();
        const answer = await handler.review(request);
        checker.answers(witness, request.namespace, sinceMs, answer);
        return answer;
      },
    }),
    calling: (pods) => ({
      send: (address, request, options) => {
        if (request.method !== "GET")
          sends({ namespace: address.namespace, name: address.pod }, `${request.method} ${request.path}`);
        return pods.send(address, request, options);
      },
    }),
  };
}

/** Every write but that of an Event. */
function noteWrites(cluster: Cluster, sends: (key: ObjectKey, what: string) => void): Cluster {
  return wrapCluster(cluster, {
    create: (resource, namespace, body) => {
      if (resource !== "events") sends({ namespace, name: "" }, `create ${resource}`);
      return cluster.create(resource, namespace, body);
    },
    patch: (resource, key, body, options) => {
      if (resource !== "events") sends(key, `patch ${resource} ${key.name}`);
      return cluster.patch(resource, key, body, options);
    },
    delete: (resource, key, preconditions, options) => {
      sends(key, `delete ${resource} ${key.name}`);
      return cluster.delete(resource, key, preconditions, options);
    },
  });
}

/** LISTs of rollout-operator's pods, which are refused for a while, and whose answers the process has seen. */
function witnessed({ world, isFaulty }: SeedRun, shared: Shared, witness: Witness, cluster: Cluster): Cluster {
  return wrapCluster(cluster, {
    list: async (resource, query, options) => {
      try {
        if (isFaulty() && world.timeline.nowMs() < shared.refused.untilMs) await refuse(cluster, shared.refused.code);
        const answer = await cluster.list(resource, query, options);
        for (const pod of answer.items as StoredPod[]) {
          // A pod whose image was another one by then showed the process nothing.
          const period = isOperatorPod(pod) ? shared.periods.of(pod.metadata.uid) : undefined;
          if (period !== undefined && !witness.seen.has(period)) witness.seen.set(period, world.timeline.nowMs());
        }
        return answer;
      } catch (error) {
        witness.hasFailed = true;
        throw error;
      }
    },
  });
}

async function refuse(cluster: Cluster, code: number): Promise<never> {
  await cluster.sleep(code === 0 ? 10_000 : 5);
  const message = code === 403 ? 'pods is forbidden: User "sluice" cannot list resource "pods"' : "refused";
  throw new ClusterError({
    code,
    reason: code === 403 ? "Forbidden" : "Injected",
    message,
    verb: "list",
    resource: "pods",
  });
}
