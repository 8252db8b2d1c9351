/** The rules by which Sluice stands by for rollout-operator (invariant O1), removed from the shipped code one at a time. */
import type { StandBy } from "../../../functions/shared/contract/stand-by.ts";
import type { Cluster } from "../../../functions/shared/kubernetes/cluster.ts";
import { wrapCluster } from "../../../functions/shared/kubernetes/wrap-cluster.ts";
import type { Plan, PlannedOperator } from "../plan.ts";
import type { Wrappers } from "../replica.ts";
import { never, type RemovedRule } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";
import { standingWith } from "./scenarios.ts";

const usual: PlannedOperator = { replicas: 1, awayMs: 40_000, staysMs: 40_000, isListed: true, refusedMs: 0 };

/** The operator comes and goes. Nothing else goes wrong. */
function beside(plan: Plan, operator: Partial<PlannedOperator> = {}, changes: Partial<Plan> = {}): Plan {
  return standingWith(plan, { ...usual, ...operator }, changes);
}

/** Processes whose names match, and that take no heed of some of their waits. `isKnown`: a LIST has succeeded in one. */
function deaf(heeds: (stands: StandBy, isKnown: boolean) => boolean, names = /./): Wrappers {
  return {
    otherOperator: (open, cluster, process) => {
      const shipped = open(cluster);
      if (!names.test(process)) return shipped;
      let isKnown = false;
      return {
        ...shipped,
        standBy: async (namespace) => {
          const stands = await shipped.standBy(namespace);
          isKnown ||= !isUnlisted(stands);
          return stands !== undefined && heeds(stands, isKnown) ? stands : undefined;
        },
      };
    },
  };
}

/** True for the wait of a process that has no LIST, or an old one. */
function isUnlisted(stands: StandBy | undefined): boolean {
  return stands?.message.includes(" is unknown,") === true;
}

/** LISTs over this cluster, in place of the shipped ones. */
function overLists(lists: (cluster: Cluster) => Partial<Cluster>): Wrappers {
  return { otherOperator: (open, cluster) => open(wrapCluster(cluster, lists(cluster))) };
}

/** A clock that does not see how long the answers to LISTs were on their way. */
const unseenWay = overLists((cluster) => {
  let unseenMs = 0;
  let onTheirWay = 0;
  return {
    monotonicMs: () => cluster.monotonicMs() - unseenMs,
    list: async (...call) => {
      const sentMs = cluster.monotonicMs();
      onTheirWay++;
      try {
        return await cluster.list(...call);
      } finally {
        // Both LISTs are sent at once, and the later answer counts.
        if (--onTheirWay === 0) unseenMs += cluster.monotonicMs() - sentMs;
      }
    },
  };
});

/** Of the two LISTs that are sent at once, neither counts if one fails. */
const bothOrNone = overLists((cluster) => {
  let together: Promise<unknown>[] = [];
  return {
    list: async (...call) => {
      const list = cluster.list(...call);
      if (together.length === 2) together = [];
      together.push(list);
      const both = together;
      // The other one is sent only after this one.
      await undefined;
      await Promise.all(both);
      return list;
    },
  };
});

export const otherOperatorRules: readonly RemovedRule[] = [
  {
    rule: "O1-stand-by",
    removed: "standing by while a pod of rollout-operator runs",
    breaks: ["O1"],
    aim: (plan) => beside(plan),
    wrappers: deaf(() => false),
  },
  {
    rule: "O1-evictions",
    removed: "refusing evictions while a pod of rollout-operator runs",
    breaks: ["O1"],
    aim: (plan) => beside(plan),
    wrappers: deaf(() => false, /^webhook-/),
  },
  {
    rule: "O1-downscales",
    removed: "refusing prepared downscales while a pod of rollout-operator runs",
    breaks: ["O1"],
    aim: (plan) => beside(plan),
    wrappers: deaf(() => false, /^preparer-/),
  },
  {
    rule: "O1-gone",
    removed: "the 30 s after the last pod of rollout-operator",
    breaks: ["O1"],
    aim: (plan) => beside(plan),
    wrappers: deaf(({ message }) => !message.includes(" is gone:")),
  },
  {
    rule: "O1-first-list",
    removed: "standing by until a first LIST of rollout-operator's pods succeeds",
    breaks: ["O1"],
    aim: (plan) =>
      beside(plan, { refusedMs: 90_000, staysMs: 90_000 }, { every: { ...never, evict: 15_000, crash: 5_000 } }),
    wrappers: deaf((stands, isKnown) => isKnown || !isUnlisted(stands)),
  },
  {
    rule: "O1-old-list",
    removed: "the minute for which a LIST of rollout-operator's pods counts while others fail",
    breaks: ["O1"],
    aim: (plan) => beside(plan, { refusedMs: 90_000, staysMs: 90_000 }),
    wrappers: deaf((stands, isKnown) => !(isKnown && isUnlisted(stands))),
  },
  {
    rule: "O1-sent",
    removed: "counting the age of a LIST of rollout-operator's pods from its request",
    breaks: ["O1"],
    aim: (plan) => beside(plan, {}, { faults: { ...noFaults, latencyMs: 5, lateList: 0.5 } }),
    wrappers: unseenWay,
  },
  {
    rule: "O1-one-list",
    removed: "the pods of rollout-operator that a LIST by one label shows while the LIST by the other label fails",
    breaks: ["O1"],
    aim: (plan) => beside(plan, {}, { faults: { ...noFaults, latencyMs: 5, refuse: 0.1 } }),
    wrappers: bothOrNone,
  },
];
