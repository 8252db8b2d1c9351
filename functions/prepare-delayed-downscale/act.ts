/** What is done: one zone is made smaller, and the claim for that is ended. */
import { isSuccess, PodHttpError } from "../shared/http/pod-http.ts";
import { ClusterError, isRefused, wordsOf } from "../shared/kubernetes/cluster.ts";
import type { KnownClaim } from "../shared/ledger/claim.ts";
import type { StatefulSet } from "../shared/objects/statefulsets.ts";
import { eventReasons } from "../shared/objects/vocabulary.ts";
import type { Act } from "../shared/pass/act.ts";
import {
  type ClaimEnd,
  claimsBy,
  findEnd,
  lookAtLedger,
  renewClaim,
  writeClaim,
} from "../shared/pass/claim-writing.ts";
import type { Context } from "../shared/pass/definition.ts";
import type { Observed } from "../shared/pass/observation.ts";
import type { Telling } from "../shared/pass/verdict-record.ts";
import { getStatefulSet } from "../shared/views/listing.ts";
import type { Lowering } from "./decide.ts";
import { listOwn, name, readWanted } from "./observe.ts";
import { memoryOf, send } from "./tell.ts";

export const telling: Telling = {
  taking: "lowering",
  reasons: {
    begins: eventReasons.downscaling,
    waits: eventReasons.downscaleWaiting,
    ends: eventReasons.downscaled,
  },
  quietGuards: new Set(["zone-scaling-down", "zones-down", "delay-running"]),
};

/** How long a refused size is not asked for again, in milliseconds. */
const refusedForMs = 30_000;
/** A pod that cannot be told that it stays holds its group no longer than this: each sweep tells it again. In milliseconds. */
const undoForMs = 600_000;
const undoing = "undoing";

/** Lowers the size by uid and resourceVersion, as a GET after the claim was written has them (rules R9, R18 and R21). */
export function actOn({ statefulSet, target, claim }: Lowering): Act {
  const { name: zone, uid } = statefulSet;
  const carryOut = async (context: Context, notAfterMs: number) => {
    const now = await readAgain(context, { statefulSet, target, claim });
    const body = { metadata: { uid, resourceVersion: now.resourceVersion }, spec: { replicas: target } };
    context.views.learn(await context.cluster.patch("statefulsets", statefulSet, body, { notAfterMs }));
  };
  return {
    name: "lower",
    object: zone,
    subjectUid: uid,
    statefulSet,
    claims: [claim],
    carryOut,
    refused(context, key, error) {
      const { cluster } = context;
      const memory = memoryOf(context, key);
      // A try that was repeated may still be carried out: rule R20 alone ends the claim then.
      if (error.attempts === 1 && isRefused(error)) memory.withdrawn.add(claim.id);
      const sentence = `the API server does not let ${zone} go to ${target} replicas: ${wordsOf(error)}`;
      if (error.code !== 409) memory.refused.set(uid, { sentence, untilMs: cluster.monotonicMs() + refusedForMs });
    },
  };
}

/** The StatefulSet, where all is as it was decided on. Throws ClusterError. */
async function readAgain({ cluster }: Context, { statefulSet, target, claim }: Lowering): Promise<StatefulSet> {
  const { name: zone, uid, replicas, start } = statefulSet;
  const [now, pods] = await Promise.all([getStatefulSet(cluster, statefulSet), listOwn(cluster, statefulSet)]);
  const isTold = [...pods.values()].every((pod) => pod.ordinal < start + target || claim.uids?.[pod.name] === pod.uid);
  const isAsBefore = now?.uid === uid && now.replicas === replicas && now.start === start && isTold;
  const wanted = isAsBefore ? await readWanted(cluster, now) : undefined;
  if (isAsBefore && typeof wanted === "number" && wanted <= target) return now;
  const message = `${zone}, its pods or the size that is wanted have changed meanwhile`;
  throw new ClusterError({ code: 409, reason: "Changed", message, verb: "patch", resource: "statefulsets" });
}

/** Takes out of our claims what is over, and what nobody carries out. Resolves to the ledger of then. Throws as a look does. */
export async function endClaims(context: Context, observed: Observed): Promise<Observed | undefined> {
  const { key } = observed;
  const memory = memoryOf(context, key);
  let now: Observed | undefined = observed;
  for (const { id } of claimsBy(observed, "scale-down", name)) {
    const claim: KnownClaim | undefined = now && claimsBy(now, "scale-down", name).find((one) => one.id === id);
    if (now === undefined || claim === undefined) continue;
    const end = await findEnd(context, key, claim);
    // One that a review has joined since was renewed, and another's change may be on its way (rule R19).
    const isWithdrawn = memory.withdrawn.has(id) && claim.sinceMs === undefined;
    if (end.kind === "abandoned" && !isWithdrawn) await undo(context, now, claim, end);
    else if (end.kind !== "stands" || isWithdrawn) await writeClaim(context, now, claim, undefined);
    else continue;
    memory.withdrawn.delete(id);
    now = (await lookAtLedger(context, key))?.observed;
  }
  return now;
}

/**
 * Rule R20: those of its members that are to stay are told so, and then it goes. Those that are to leave go on being prepared: it
 * is taken out, and the next pass claims them again.
 */
async function undo(
  context: Context,
  observed: Observed,
  claim: KnownClaim,
  { where, undoes }: Extract<ClaimEnd, { kind: "abandoned" }>,
): Promise<void> {
  const { cluster, pods: http } = context;
  const { statefulSet, pods } = where;
  const endpoint = statefulSet?.scaling?.delay?.endpoint;
  const wanted = statefulSet && (await readWanted(cluster, statefulSet));
  const end = typeof wanted === "number" ? (statefulSet?.start ?? 0) + wanted : Number.POSITIVE_INFINITY;
  const isUndone = (ordinal: number) => undoes.some(({ first, last }) => ordinal >= first && ordinal <= last);
  const stay = [...pods.values()].filter(({ ordinal }) => ordinal < end && isUndone(ordinal));
  if (stay.length === 0 || statefulSet === undefined || endpoint === undefined || http === undefined) {
    await writeClaim(context, observed, claim, undefined);
    return;
  }
  const sinceMs = claim.sinceMs ?? claim.stampMs;
  // Nobody joins it any more (rule R19), or a pod might leave that has just been told to stay.
  const undone = renewClaim(claim, cluster.serverTimeMs(), undoing);
  const deadlineMs = await writeClaim(context, observed, claim, undone);
  const told = await Promise.all(
    stay.map((pod) =>
      send(http, { statefulSet, endpoint }, pod, "stay", deadlineMs).then(
        (answer) => isSuccess(answer) || answer.status === 409,
        (error: unknown) => {
          if (!(error instanceof PodHttpError)) throw error;
          return false;
        },
      ),
    ),
  );
  const isLong = cluster.serverTimeMs() - sinceMs >= undoForMs;
  const look = await lookAtLedger(context, observed.key);
  const own = look && claimsBy(look.observed, "scale-down", name).find(({ line }) => line === undone.line);
  if (look !== undefined && own !== undefined && (isLong || told.every(Boolean)))
    await writeClaim(context, look.observed, own, undefined);
}
