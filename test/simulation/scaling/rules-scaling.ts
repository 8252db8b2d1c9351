/** The rules that keep downscales safe, removed from the shipped functions one at a time. */
import { changeClaim, type KnownClaim, makeClaim } from "../../../functions/shared/ledger/claim.ts";
import { undoAfterMs } from "../../../functions/shared/ledger/claim-kinds.ts";
import type { Protocol } from "../../../functions/shared/ledger/protocol.ts";
import type { StoredLedger } from "../../../functions/shared/ledger/reservation.ts";
import type { Plan } from "../plan.ts";
import type { Wrappers } from "../replica.ts";
import { never, type RemovedRule } from "../rules.ts";
import { forgetful, sized } from "./scenarios.ts";

type Claims = StoredLedger["claims"];

/** Zones whose pods are told right before they leave, by processes that are killed often. */
const preparing = (plan: Plan, changes: Partial<Plan> = {}): Plan =>
  sized(plan, prepared, { dieAfterWrite: 0.3, ...changes });

const prepared = {
  delayMs: 0,
  prepares: true,
  follows: false,
  everyMs: 20_000,
  refuse: 0,
  rubbish: 0,
  silent: 0,
  lose: 0,
  late: 0,
  slow: 0,
};

const isPreparing = (claim: Claims[number]): claim is KnownClaim => claim.isKnown && claim.phase === "preparing";

/** Gives each process claims of its own making. `into` changes them before a write, `from` after a read. */
function spelled(
  open: () => {
    into(claims: Claims, ...to: Parameters<Protocol["readLedger"]>): Promise<Claims>;
    from(claims: Claims, ...of: Parameters<Protocol["readLedger"]>): Promise<Claims>;
  },
): Wrappers {
  return {
    protocol: (protocol) => {
      const { into, from } = open();
      const read = async (cluster: Parameters<Protocol["readLedger"]>[0], ledger: StoredLedger) => ({
        ...ledger,
        claims: await from(ledger.claims, cluster, ledger.key),
      });
      return {
        ...protocol,
        readLedger: async (cluster, key) => {
          const ledger = await protocol.readLedger(cluster, key);
          return ledger && read(cluster, ledger);
        },
        writeLedger: async (cluster, ledger, change) => {
          const claims = await into(change.claims ?? ledger.claims, cluster, ledger.key);
          return read(cluster, await protocol.writeLedger(cluster, ledger, { ...change, claims }));
        },
      };
    },
  };
}

/** The claim stands only in the memory of the process that tells the pods, until all of them have answered. */
const claimsInMemory = spelled(() => {
  let own: readonly KnownClaim[] = [];
  return {
    async into(claims) {
      own = claims.filter(isPreparing);
      return claims.filter((claim) => !isPreparing(claim));
    },
    async from(claims) {
      own = own.filter(({ id }) => !claims.some((claim) => claim.id === id));
      return [...claims, ...own];
    },
  };
});

/**
 * The first write already says that the pods have answered, with the uids of the existing pods. The pods are told only then.
 */
const confirmedAtOnce = spelled(() => {
  const known = new Map<string, KnownClaim>();
  return {
    async into(claims, cluster, { namespace }) {
      const { items } = await cluster.list("pods", { namespace });
      const uids = Object.fromEntries(items.map(({ metadata: { name, uid } }) => [name, uid]));
      return claims.map((claim) => {
        if (!isPreparing(claim)) return claim;
        const named = { ...claim.uids, ...uidsOf(claim, uids) };
        known.set(claim.id, claim);
        return changeClaim(claim, { phase: "confirmed", uids: named });
      });
    },
    async from(claims) {
      return claims.map((claim) => known.get(claim.id) ?? claim);
    },
  };
});

function uidsOf({ zone, members }: KnownClaim, uids: Readonly<Record<string, string>>): Record<string, string> {
  const isMember = (ordinal: number) => members.some(({ first, last }) => ordinal >= first && ordinal <= last);
  return Object.fromEntries(
    Object.entries(uids).filter(
      ([name]) => name.startsWith(`${zone}-`) && isMember(Number(name.slice(zone.length + 1))),
    ),
  );
}

/** Shows claims in another form. A claim that the reader leaves as it is is written back in its old form. */
function seenAs(changed: (claim: KnownClaim, uids: Readonly<Record<string, string>>) => KnownClaim): Wrappers {
  return spelled(() => {
    const originals = new Map<string, Claims[number]>();
    return {
      into: async (claims) => claims.map((claim) => originals.get(claim.line) ?? claim),
      async from(claims, cluster, { namespace }) {
        if (!claims.some((claim) => claim.isKnown && claim.kind === "scale-down")) return claims;
        const { items } = await cluster.list("pods", { namespace });
        const uids = Object.fromEntries(items.map(({ metadata: { name, uid } }) => [name, uid]));
        return claims.map((claim) => {
          if (!claim.isKnown || claim.kind !== "scale-down") return claim;
          const seen = changed(claim, uidsOf(claim, uids));
          originals.set(seen.line, claim);
          return seen;
        });
      },
    };
  });
}

/** A process that reads a confirmed claim finds the uids of the current pods in it, whichever pods were told. */
const anyPodIsNotified = seenAs((claim, uids) =>
  claim.phase === "confirmed" ? changeClaim(claim, { uids: { ...claim.uids, ...uids } }) : claim,
);

/** Every confirmed scale-down looks so old that it can no longer come. */
const agedClaims = seenAs((claim) =>
  claim.phase === "confirmed" ? changeClaim(claim, { stampMs: claim.stampMs - undoAfterMs }) : claim,
);

/** No scale-down ever looks old enough to be taken back. */
const newClaims = seenAs((claim) => changeClaim(claim, { stampMs: claim.stampMs + 86_400_000 }));

/** Only the StatefulSet, and not the claim, says where pods are told. */
const withoutAddress = seenAs(({ toldAt: _, line: __, isKnown: ___, ...content }) => makeClaim(content));

export const scalingRules: readonly RemovedRule[] = [
  {
    rule: "R18",
    removed: "the claim before the first pod is told: it stands in the process's memory",
    breaks: ["D1", "L1", "Z1"],
    aim: (plan) => preparing(plan),
    wrappers: claimsInMemory,
  },
  {
    rule: "R18",
    removed: "the second write: one says at once that the pods have answered",
    breaks: ["D1"],
    aim: (plan) => preparing(plan),
    wrappers: confirmedAtOnce,
  },
  {
    rule: "R19",
    removed: "the uids of the pods that were told by a review",
    breaks: ["D1"],
    aim: (plan) => preparing(plan, { every: { ...never, crash: 20_000, deletePod: 5_000 } }),
    wrappers: anyPodIsNotified,
  },
  {
    rule: "R20",
    removed: "taking back a prepared downscale that never came",
    breaks: ["L1"],
    aim: (plan) => preparing(plan),
    wrappers: newClaims,
  },
  {
    rule: "R20",
    removed: "the 90 s in which a prepared downscale may still come",
    breaks: ["D1"],
    aim: (plan) => sized(plan, { ...prepared, slow: 1 }),
    wrappers: agedClaims,
  },
  {
    rule: "R20",
    removed: "what the end of a prepared downscale needs: the claim does not say where its pods were told",
    breaks: ["L1"],
    aim: (plan) => forgetful(plan),
    wrappers: withoutAddress,
  },
];
