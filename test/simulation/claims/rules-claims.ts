/** The rules that keep claims safe, removed one at a time: for the functions that make claims, or for all that meet them. */

import { refuseClaim } from "../../../functions/shared/groups/refuse-claim.ts";
import type { PodAnswer, PodHttp } from "../../../functions/shared/http/pod-http.ts";
import { claimKinds, type KindName } from "../../../functions/shared/ledger/claim.ts";
import { kinds } from "../../../functions/shared/ledger/claim-kinds.ts";
import { refuseByHealth } from "../../../functions/shared/ledger/health-rule.ts";
import { dropAfterMs, type StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import { joinScaleDown } from "../../../functions/shared/scaling/size-changes.ts";
import { nextToAnnounce } from "../../../functions/shared/workloads/group-key.ts";
import type { Plan } from "../plan.ts";
import type { Wrappers } from "../replica.ts";
import { never, type RemovedRule, wrapProtocol } from "../rules.ts";
import { noFaults } from "../simulated-cluster.ts";
import { asked, asking, claiming, fencing } from "./scenarios.ts";

type Row = (typeof kinds)[KindName];

const withRow = (kind: KindName, changes: Partial<Row>): Wrappers => ({
  claims: { kinds: { ...kinds, [kind]: { ...kinds[kind], ...changes } } },
});

/** Rollouts and evictions that read only some claims. They still write no claim. */
function blindTo(isSeen: (claim: StoredLedger["claims"][number]) => boolean): Wrappers {
  const blind = (ledger: StoredLedger): StoredLedger => ({ ...ledger, claims: ledger.claims.filter(isSeen) });
  return wrapProtocol((protocol) => ({
    readLedger: async (...call) => {
      const ledger = await protocol.readLedger(...call);
      return ledger && blind(ledger);
    },
    writeLedger: async (...call) => blind(await protocol.writeLedger(...call)),
  }));
}

/** Rollouts and evictions that write the claims of others in their own spelling. */
const respelling = (respell: (claims: StoredLedger["claims"]) => StoredLedger["claims"]) =>
  wrapProtocol((protocol) => ({
    writeLedger: (cluster, ledger, change) =>
      protocol.writeLedger(cluster, ledger, { ...change, claims: respell(ledger.claims) }),
  }));

/** Scale-downs by processes that reconcile often, where each call takes long. */
function slowly(plan: Plan, every: Plan["every"]): Plan {
  return claiming(plan, ["scale-down"], {
    faults: { ...noFaults, latencyMs: 400 },
    claims: { kinds: ["scale-down"], everyMs: 1_000, isForeign: false },
    dieAfterWrite: 0,
    readyAfterMs: 300,
    every,
  });
}

const ofEachKind = claimKinds.flatMap((kind): RemovedRule[] => [
  {
    rule: "R18",
    removed: `counting a claim for a ${kind}`,
    breaks: ["Z1", "Z2", "K3"],
    aim: (plan) => claiming(plan, [kind]),
    wrappers: blindTo((claim) => claim.kind !== kind),
  },
  {
    rule: "R10a",
    removed: `waiting until what a ${kind} is for is over`,
    breaks: ["K1", "K4", "L1"],
    aim: (plan) => claiming(plan, [kind]),
    wrappers: withRow(kind, { isSettled: () => true }),
  },
  {
    rule: "R10a",
    removed: `the end of a ${kind} that is over`,
    breaks: ["L1"],
    aim: (plan) =>
      claiming(plan, [kind], { every: { ...never, crash: 30_000, deletePod: 10_000, changeTemplate: 60_000 } }),
    wrappers: withRow(kind, { isSettled: () => false }),
  },
]);

const ofAnchored = claimKinds
  .filter((kind) => kind !== "scale-down")
  .map(
    (kind): RemovedRule => ({
      rule: "R10a",
      removed: `the anchor of a ${kind}: its age alone drops it`,
      breaks: ["K1", "K4"],
      aim: (plan) => claiming(plan, [kind], { safetyMs: 900_000 }),
      wrappers: withRow(kind, {
        isAbandoned: ({ sinceMs, stampMs }, _where, nowMs) => nowMs - (sinceMs ?? stampMs) >= dropAfterMs,
      }),
    }),
  );

/** Answers each question ten times more from memory, whatever has happened to the ledger and the pods since. */
function keptAnswers(pods: PodHttp): PodHttp {
  const kept = new Map<string, { readonly answer: PodAnswer; uses: number }>();
  return {
    async send(address, request, options) {
      const before = kept.get(address.pod);
      if (before !== undefined && before.uses++ < 10) return before.answer;
      const answer = await pods.send(address, request, options);
      kept.set(address.pod, { answer, uses: 0 });
      return answer;
    },
  };
}

export const claimRules: readonly RemovedRule[] = [
  ...ofEachKind,
  ...ofAnchored,
  {
    rule: "R10a",
    removed: "the age of a claim whose anchor is gone: its writer may still be acting",
    breaks: ["K1", "K4"],
    aim: (plan) => claiming(plan, ["process"]),
    wrappers: withRow("process", { isAbandoned: (_claim, { isAnchored }) => !isAnchored }),
  },
  {
    rule: "R10a",
    removed: "telling by the pod's own word alone that it was ready anew: its clock is compared with the API server's",
    breaks: ["K1", "K4", "L1"],
    aim: (plan) => claiming(plan, ["process"], { skewMs: 14_000 }),
    wrappers: withRow("process", {
      isSettled: ({ stampMs }, { pods }) =>
        pods.size > 0 &&
        [...pods.values()].every(({ readySinceMs = Number.NEGATIVE_INFINITY }) => readySinceMs >= stampMs),
    }),
  },
  {
    rule: "R21",
    removed: "asking the process manager: a restart that no probe has seen holds its group for ever",
    breaks: ["L1"],
    aim: (plan) => claiming(plan, ["process"]),
    wrappers: withRow("process", {
      isSettled: ({ processes: _, ...claim }, where, nowMs) => kinds.process.isSettled(claim, where, nowMs),
    }),
  },
  {
    rule: "R21",
    removed: "reading by a GET since when a pod has been ready",
    breaks: ["K1", "K4"],
    aim: (plan) => claiming(plan, ["process"], { staleness: { oldest: 0.9, between: 0.8 } }),
    wrappers: { claims: { isConditional: false } },
  },
  {
    rule: "R17",
    removed: "the limit on what is asked",
    breaks: ["Z1", "Z2"],
    aim: (plan) => claiming(plan),
    wrappers: { claims: { refuse: () => undefined } },
  },
  {
    rule: "R18",
    removed: "counting the whole zone for a kind that this version does not know",
    breaks: ["Z1", "Z2", "K3"],
    aim: (plan) => claiming(plan, [], { claims: { kinds: [], everyMs: 4_000, isForeign: true } }),
    wrappers: blindTo(({ isKnown }) => isKnown),
  },
  {
    rule: "R18",
    removed: "writing back what this version does not know, to the byte",
    breaks: ["K2"],
    aim: (plan) => claiming(plan, [], { claims: { kinds: [], everyMs: 4_000, isForeign: true } }),
    wrappers: respelling((claims) =>
      claims.map((claim) => ({ ...claim, line: JSON.stringify(JSON.parse(claim.line)) })),
    ),
  },
  {
    rule: "R18",
    removed: "keeping claims of a kind that this version does not know",
    breaks: ["K2"],
    aim: (plan) => claiming(plan, [], { claims: { kinds: [], everyMs: 4_000, isForeign: true } }),
    wrappers: respelling((claims) => claims.filter(({ isKnown }) => isKnown)),
  },
  {
    rule: "R20",
    removed: "the undo of a scale-down that never came",
    breaks: ["L1"],
    aim: (plan) => claiming(plan, ["scale-down"]),
    wrappers: withRow("scale-down", { isAbandoned: () => false }),
  },
  {
    rule: "R20",
    removed: "telling those who stay before the claim goes",
    breaks: ["K1", "L1"],
    aim: (plan) => claiming(plan, ["scale-down"]),
    wrappers: withRow("scale-down", { undoes: () => [] }),
  },
  {
    rule: "R20",
    removed: "the 90 s in which a scale-down may still come",
    breaks: ["D1", "K4", "L1"],
    aim: (plan) => slowly(plan, { ...never, scale: 30_000 }),
    wrappers: withRow("scale-down", {
      isAbandoned: (claim, where) => kinds["scale-down"].undoes(claim, where).length > 0,
    }),
  },
  {
    rule: "R21",
    removed: "reading a size after the ledger, and changing it as it was read",
    breaks: ["D1", "K4"],
    aim: (plan) => slowly(plan, { ...never, scale: 2_000 }),
    wrappers: { claims: { isConditional: false } },
  },
  {
    rule: "R19",
    removed: "joining the claim that a change of a size is for: our own webhook refuses our own change",
    breaks: ["K7"],
    aim: (plan) => claiming(plan, ["scale-down"]),
    wrappers: {
      claims: {
        join: (claims, change) => {
          const joining = joinScaleDown(claims, change);
          return joining.kind === "joins" ? { kind: "held", guard: "zone-scaling-down", message: "" } : joining;
        },
      },
    },
  },
  {
    rule: "R19",
    removed: "the target: any change of the StatefulSet joins its claim",
    breaks: ["K7", "D1", "K4"],
    aim: (plan) => claiming(plan, ["scale-down"]),
    wrappers: {
      claims: {
        join: (claims, change) => {
          const claim = claims.find((one) => one.isKnown && one.zone === change.zone);
          return claim?.isKnown ? { kind: "joins", claim } : { kind: "unclaimed" };
        },
      },
    },
  },
  {
    rule: "R19",
    removed: "the uids of the pods that were told: a pod that came for one of them leaves untold",
    breaks: ["K7", "D1"],
    aim: (plan) =>
      claiming(plan, ["scale-down"], { every: { ...never, crash: 30_000, deletePod: 10_000, changeTemplate: 60_000 } }),
    wrappers: { claims: { join: (claims, change) => joinScaleDown(claims, { ...change, pods: new Map() }) } },
  },
  {
    rule: "R22",
    removed: "permitting only while nothing else is open in the ledger",
    breaks: ["K8"],
    aim: (plan) => asking(plan),
    wrappers: {
      claims: {
        refuseByHealth: ({ readMs }, ...rest) => refuseByHealth({ claims: [], reservations: [], readMs }, ...rest),
      },
    },
  },
  {
    rule: "R22",
    removed: "asking after the ledger was read: an answer from before serves",
    breaks: ["K8"],
    aim: (plan) => asking(plan),
    wrappers: { claims: { refuseByHealth: (ledger, ...rest) => refuseByHealth({ ...ledger, readMs: 0 }, ...rest) } },
  },
  {
    rule: "R22",
    removed: "permitting evictions and rollouts by an answer only while nothing else is open in the ledger",
    breaks: ["Q1"],
    aim: (plan) => asked(plan),
    wrappers: wrapProtocol(({ refuseByHealth: shipped }) => ({
      refuseByHealth: ({ readMs }, ...rest) => shipped({ claims: [], reservations: [], readMs }, ...rest),
    })),
  },
  {
    rule: "R22",
    removed: "asking before evictions and rollouts after the ledger was read: an answer serves ten times",
    breaks: ["Q1"],
    aim: (plan) => asked(plan),
    wrappers: { pods: keptAnswers },
  },
  {
    rule: "R23",
    removed: "the order of the ledgers",
    breaks: ["K6"],
    aim: (plan) => fencing(plan),
    wrappers: { claims: { nextToAnnounce: (keys, holds) => keys.toReversed().find((key) => !holds(key)) } },
  },
  {
    rule: "R23",
    removed: "telling every ledger before the fence is carried out",
    breaks: ["K6"],
    aim: (plan) => fencing(plan),
    wrappers: {
      claims: {
        nextToAnnounce: (keys, holds) => (keys.some(holds) ? undefined : nextToAnnounce(keys, holds)),
      },
    },
  },
  {
    rule: "R25",
    removed: "saying at once what can never be",
    breaks: ["K5"],
    aim: (plan) => claiming(plan, ["scale-down"]),
    wrappers: {
      claims: {
        refuse: (...asked) => {
          const blocked = refuseClaim(...asked);
          return blocked?.guard === "never-possible" ? { ...blocked, guard: "budget" } : blocked;
        },
      },
    },
  },
];
