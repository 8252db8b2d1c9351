/** The rules that keep suspended volumes safe, removed from the shipped functions one at a time. */

import { fieldsOf } from "../../../functions/shared/base/fields.ts";
import type { Preconditions } from "../../../functions/shared/kubernetes/cluster.ts";
import type { Protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import type { Plan, SuspensionDeed } from "../plan.ts";
import type { Wrappers } from "../replica.ts";
import { never, type RemovedRule, wrapCluster } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";
import { key } from "./raw.ts";
import { suspended, witnessed } from "./scenarios.ts";

const claimsResource = "persistentvolumeclaims";

/** Users who ask, and react at once to what Sluice does, over slow calls. */
const reacting = (
  plan: Plan,
  deeds: readonly SuspensionDeed[],
  { durationMs = 5_000, ...changes }: Partial<Plan> & { readonly durationMs?: number } = {},
): Plan => {
  const requests = ["request", ...deeds] as const;
  const chosen = { durationMs, waitMs: 0, mode: "Zone", reacts: 0.5, volumes: 1 } as const;
  const others = { faults: { ...noFaults, latencyMs: 60 }, every: { ...never, crash: 40_000 }, ...changes };
  return suspended(plan, { everyMs: 5_000, deeds: requests, ...chosen }, others);
};

/** Three zones whose volumes are soon due, and that must wait for each other. */
const waiting = {
  everyMs: 5_000,
  deeds: ["request"],
  durationMs: 5_000,
  waitMs: 30_000,
  mode: "Zone",
  reacts: 0,
  volumes: 1,
} as const;

const isRemoving = (body: object): boolean =>
  fieldsOf(fieldsOf(fieldsOf(body)?.metadata)?.annotations)?.[key("suspend-state")] === "Removing";

type Change = (objects: readonly object[]) => readonly object[];

/** Changes the objects that processes read. */
const seen = (resource: string, change: Change): Wrappers => seenBy(resource, () => change);

/** The same with a change for each process. */
function seenBy(resource: string, changeOf: () => Change): Wrappers {
  return wrapCluster((cluster) => {
    const change = changeOf();
    return {
      get: async (wanted, object, options) => {
        const read = await cluster.get(wanted, object, options);
        return wanted === resource ? (change([read])[0] as typeof read) : read;
      },
      list: async (wanted, query) => {
        const list = await cluster.list(wanted, query);
        return wanted === resource ? { ...list, items: change(list.items) as typeof list.items } : list;
      },
    };
  });
}

type Annotations = Readonly<Record<string, unknown>>;

/** A change of annotations. */
function annotatedBy(change: (metadata: Annotations, annotations: Annotations) => Annotations) {
  return (objects: readonly object[]): readonly object[] =>
    objects.map((object) => {
      const metadata = fieldsOf(fieldsOf(object)?.metadata) ?? {};
      const annotations = change(metadata, fieldsOf(metadata.annotations) ?? {});
      return { ...object, metadata: { ...metadata, annotations } };
    });
}

const annotated = (change: (annotations: Annotations) => Annotations) =>
  annotatedBy((_metadata, annotations) => change(annotations));

const withoutHold = annotated(({ [key("hold")]: _hold, ...rest }) => rest);

/** A process believes a statement that the volume is drained even after a user has withdrawn it. */
const drainedForEver = seenBy(claimsResource, () => {
  const last = new Map<unknown, unknown>();
  return annotatedBy(({ uid }, annotations) => {
    const at = annotations[key("drained-at")] ?? last.get(uid);
    last.set(uid, at);
    return at === undefined ? annotations : { ...annotations, [key("drained-at")]: at };
  });
});

/** The claim stands only in the memory of the process that removes, and in no ledger. */
function claimsInMemory(protocol: Protocol): Protocol {
  const isVolume = ({ kind }: StoredLedger["claims"][number]) => kind === "volume";
  let own: StoredLedger["claims"] = [];
  const read = (ledger: StoredLedger): StoredLedger => ({ ...ledger, claims: [...ledger.claims, ...own] });
  return {
    ...protocol,
    readLedger: async (cluster, group) => {
      const ledger = await protocol.readLedger(cluster, group);
      return ledger && read(ledger);
    },
    writeLedger: async (cluster, ledger, change) => {
      const claims = change.claims ?? ledger.claims;
      own = claims.filter(isVolume);
      const kept = claims.filter((claim) => !isVolume(claim));
      return read(await protocol.writeLedger(cluster, ledger, { ...change, claims: kept }));
    },
  };
}

/** Our processes do not wait between two removals. */
const hasty = annotated((annotations) => ({ ...annotations, [key("wait-between-removals")]: "0s" }));

/** One pod's answer is enough. */
const oneWitness = annotated((annotations) => ({ ...annotations, [key("drain-witnesses")]: "1" }));

/** A process always believes the first time that it has read of a volume claim. */
const withFirstTimes = seenBy(claimsResource, () => {
  const first = new Map<unknown, unknown>();
  return annotatedBy(({ uid }, annotations) => {
    const at = annotations[key("suspended-at")];
    if (at === undefined) return annotations;
    if (!first.has(uid)) first.set(uid, at);
    return { ...annotations, [key("suspended-at")]: first.get(uid) };
  });
});

/** A ledger never loses a claim that it has held. */
function claimsForEver(protocol: Protocol): Protocol {
  return {
    ...protocol,
    writeLedger: (cluster, ledger, change) => {
      const { claims = ledger.claims } = change;
      const lost = ledger.claims.filter(({ id }) => claims.every((one) => one.id !== id));
      return protocol.writeLedger(cluster, ledger, { ...change, claims: [...claims, ...lost] });
    },
  };
}

export const suspensionRules: readonly RemovedRule[] = [
  {
    rule: "S2",
    removed: "the uid and the revision as conditions of the point of no return",
    breaks: ["S1", "S2"],
    aim: (plan) => reacting(plan, ["recover", "withdraw", "hold"]),
    wrappers: wrapCluster((cluster) => ({
      patch: (resource, object, body, options) => {
        if (resource !== claimsResource || !isRemoving(body)) return cluster.patch(resource, object, body, options);
        const { uid: _uid, resourceVersion: _revision, ...metadata } = fieldsOf(fieldsOf(body)?.metadata) ?? {};
        return cluster.patch(resource, object, { ...body, metadata }, options);
      },
    })),
  },
  {
    rule: "S1",
    removed: "the uid and the revision as conditions of the removal",
    breaks: ["S1", "S2"],
    aim: (plan) => reacting(plan, ["hold"]),
    wrappers: wrapCluster((cluster) => ({
      delete: (resource, object, conditions, options) =>
        cluster.delete(resource, object, resource === claimsResource ? ({} as Preconditions) : conditions, options),
    })),
  },
  {
    rule: "S1",
    removed: "waiting until the pod is gone: one that is deleted counts as gone",
    breaks: ["S1"],
    aim: (plan) => reacting(plan, ["stick", "stick", "stick"], { goneAfterMs: 20_000 }),
    wrappers: seen("pods", (pods) =>
      pods.filter((pod) => fieldsOf(fieldsOf(pod)?.metadata)?.deletionTimestamp === undefined),
    ),
  },
  {
    rule: "S1",
    removed: "the look for other pods that use the volume",
    breaks: ["S1"],
    aim: (plan) => reacting(plan, ["debug", "debug"]),
    wrappers: seen("pods", (pods) =>
      pods.filter((pod) => fieldsOf(fieldsOf(pod)?.metadata)?.ownerReferences !== undefined),
    ),
  },
  {
    rule: "S1",
    removed: "hold",
    breaks: ["S1"],
    aim: (plan) => reacting(plan, ["hold", "hold"]),
    wrappers: {
      cluster: (cluster) => {
        const claims = seen(claimsResource, withoutHold).cluster?.(cluster) ?? cluster;
        return seen("statefulsets", withoutHold).cluster?.(claims) ?? claims;
      },
    },
  },
  {
    rule: "S1",
    removed: "looking once more whether the volume is drained",
    breaks: ["S1"],
    aim: (plan) => reacting(plan, ["undrain", "undrain"]),
    wrappers: drainedForEver,
  },
  {
    rule: "S1",
    removed: "the GETs that tell who has written a stamp",
    breaks: ["S1"],
    aim: (plan) => reacting(plan, ["forge", "forge"], { durationMs: 60_000 }),
    wrappers: seen(claimsResource, (claims) =>
      claims.map((claim) => ({
        ...claim,
        metadata: { ...fieldsOf(fieldsOf(claim)?.metadata), managedFields: undefined },
      })),
    ),
  },
  {
    rule: "R18",
    removed: "the claim of a volume in the ledger: it stands in the process's memory",
    breaks: ["K4", "Z1"],
    aim: (plan) => reacting(plan, []),
    wrappers: { protocol: claimsInMemory },
  },
  {
    rule: "S1",
    removed: "beginning the time anew when the pod is seen again",
    breaks: ["S1"],
    aim: (plan) => reacting(plan, ["scaleUp", "scaleDown", "duration"], { durationMs: 60_000 }),
    wrappers: withFirstTimes,
  },
  {
    rule: "L1",
    removed: "taking claims out of the ledger that are over",
    breaks: ["L1", "L2"],
    aim: (plan) => reacting(plan, []),
    wrappers: { protocol: claimsForEver },
  },
  {
    rule: "S3",
    removed: "the wait between removals",
    breaks: ["S3"],
    aim: (plan) => ({ ...reacting(plan, []), suspension: waiting }),
    wrappers: seen("statefulsets", hasty),
  },
  {
    rule: "S1",
    removed: "the other witnesses: the first pod that answers decides about the data of another",
    breaks: ["S1"],
    aim: (plan) => witnessed(plan),
    wrappers: seen("statefulsets", oneWitness),
  },
];
