/** What keeps neighbours apart, removed: beside a group of the same name in another namespace. */
import type { GroupView } from "../../functions/shared/cache/cache.ts";
import type { Plan } from "./plan.ts";
import { never, plain, type RemovedRule, wrapCluster, wrapViews } from "./rules.ts";

/** Two groups of the same name, both of which are rolled. */
function namesakes(plan: Plan, changes: Partial<Plan> = {}): Plan {
  return plain(plan, {
    recyclers: 0,
    elsewhere: { isNamesake: true, ending: "rolls" },
    every: { ...never, changeTemplate: 20_000 },
    ...changes,
  });
}

/** The views of two groups as one. */
function joined(own: GroupView, other: GroupView): GroupView {
  const otherUids = new Set(other.workloads.map(({ uid }) => uid));
  return {
    ...own,
    workloads: [...own.workloads, ...other.workloads],
    podsOf: (set) => (otherUids.has(set.uid) ? other : own).podsOf(set),
    pod: (name) => own.pod(name) ?? other.pod(name),
  };
}

export const neighbourRules: readonly RemovedRule[] = [
  {
    rule: "R1",
    removed: "the namespace of a ledger: groups of one name share one",
    breaks: ["N1", "Z1", "Z2", "L1"],
    aim: (plan) => namesakes(plan),
    wrappers: wrapCluster((cluster) => {
      const here = <Key extends { readonly namespace?: string }>(key: Key) => ({ ...key, namespace: "db" });
      return {
        get: (resource, key, options) => cluster.get(resource, resource === "leases" ? here(key) : key, options),
        create: (resource, namespace, body) => cluster.create(resource, resource === "leases" ? "db" : namespace, body),
        patch: (resource, key, body, options) =>
          cluster.patch(resource, resource === "leases" ? here(key) : key, body, options),
      };
    }),
  },
  {
    rule: "R1",
    removed: "the zones of a group being those of its own namespace: a neighbour holds it",
    breaks: ["N1", "L1"],
    aim: (plan) =>
      namesakes(plan, {
        elsewhere: { isNamesake: false, ending: "stuck" },
        every: { ...never, changeTemplate: 10_000 },
      }),
    wrappers: wrapViews((cache) => async (key, need) => {
      const own = await cache.read(key, need);
      if (key.namespace !== "db") return own;
      return joined(own, await cache.read({ namespace: "elsewhere", group: "distant" }, need));
    }),
  },
];
