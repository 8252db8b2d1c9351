/** What is done: sizes are changed, claims are ended, and what a StatefulSet has is written to the object that it mirrors. */
import type { MirroredScale } from "../shared/group/mirrored-scale.ts";
import type { SizeHeld } from "../shared/group/wanted-replicas.ts";
import { ClusterError, isRefused, wordsOf } from "../shared/kubernetes/cluster.ts";
import type { GroupKey, StatefulSet } from "../shared/objects/statefulsets.ts";
import { eventReasons } from "../shared/objects/vocabulary.ts";
import type { Act } from "../shared/pass/act.ts";
import { claimsBy, findEnd, lookAtLedger, writeClaim } from "../shared/pass/claim-writing.ts";
import type { Context, GroupMemory } from "../shared/pass/definition.ts";
import type { Observed } from "../shared/pass/observation.ts";
import { isNews, type Telling } from "../shared/pass/verdict-record.ts";
import { getStatefulSet } from "../shared/views/listing.ts";
import type { Resizing } from "./decide.ts";
import { findLed, name, readScales, type Scales } from "./observe.ts";

export const telling: Telling = {
  taking: "resizing",
  reasons: { begins: eventReasons.following, waits: eventReasons.followWaiting, ends: eventReasons.followed },
  quietGuards: new Set(["zone-scaling-down", "zones-down", "leader-not-ready", "min-time-between-zones"]),
};

/** How long a refused size is not asked for again, in milliseconds. */
const refusedForMs = 30_000;

/** What this process remembers of a group. Losing it costs a try, or the time of rule R20. */
export interface Memory {
  /** Claims whose only attempt was refused, by id: nothing of them is under way. */
  readonly withdrawn: Set<string>;
  /** By StatefulSet uid; until when, by the monotonic clock. */
  readonly refused: Map<string, { readonly sentence: string; readonly untilMs: number }>;
}

const memories = new WeakMap<GroupMemory, Memory>();

export function memoryOf(context: Context, key: GroupKey): Memory {
  const group = context.memoryOf(key);
  const memory = memories.get(group) ?? { withdrawn: new Set(), refused: new Map() };
  memories.set(group, memory);
  return memory;
}

/** Why the API server has refused sizes of late, by StatefulSet uid. */
export function refusalsOf({ cluster }: Context, { refused }: Memory): ReadonlyMap<string, string> {
  for (const [uid, { untilMs }] of refused) if (untilMs <= cluster.monotonicMs()) refused.delete(uid);
  return new Map([...refused].map(([uid, { sentence }]) => [uid, sentence]));
}

/** Changes the size by uid and resourceVersion, as a GET after the claim was written has them (rules R9, R18 and R21). */
export function actOn({ statefulSet, target, claim }: Resizing): Act {
  const { name: zone, uid } = statefulSet;
  return {
    name: target > statefulSet.replicas ? "raise" : "lower",
    object: zone,
    subjectUid: uid,
    statefulSet,
    claims: claim === undefined ? [] : [claim],
    ...(target > statefulSet.replicas ? { takesNothing: true } : {}),
    async carryOut(context, notAfterMs) {
      const now = await readAgain(context, statefulSet, target);
      const body = { metadata: { uid, resourceVersion: now.resourceVersion }, spec: { replicas: target } };
      context.views.learn(await context.cluster.patch("statefulsets", statefulSet, body, { notAfterMs }));
    },
    refused(context, key, error) {
      const memory = memoryOf(context, key);
      // A try that was repeated may still be carried out: rule R20 alone ends the claim then.
      if (claim !== undefined && error.attempts === 1 && isRefused(error)) memory.withdrawn.add(claim.id);
      if (error.code === 409) return;
      const sentence = `the API server does not let ${zone} go to ${target} replicas: ${wordsOf(error)}`;
      memory.refused.set(uid, { sentence, untilMs: context.cluster.monotonicMs() + refusedForMs });
    },
  };
}

/** The StatefulSet, where it is as it was decided on, and the same size is wanted still. Throws ClusterError. */
async function readAgain(context: Context, before: StatefulSet, target: number): Promise<StatefulSet> {
  const { cluster } = context;
  const { name: zone, namespace, uid, scaling } = before;
  const leader = scaling?.leader;
  const [now, leading] = await Promise.all([
    getStatefulSet(cluster, before),
    leader === undefined ? undefined : getStatefulSet(cluster, { namespace, name: leader }),
  ]);
  const isAsBefore = now?.uid === uid && now.replicas === before.replicas && now.start === before.start;
  if (isAsBefore) {
    const members = leading === undefined ? [now] : [now, leading];
    const led = findLed(members, await readScales(cluster, [now]), cluster.serverTimeMs());
    if (led.some(({ statefulSet, wanted }) => statefulSet.uid === uid && wanted === target)) return now;
  }
  const message = `${zone}, or the size that is wanted, has changed meanwhile`;
  throw new ClusterError({ code: 409, reason: "Changed", message, verb: "patch", resource: "statefulsets" });
}

/** Takes out of our claims what is over, and what nobody carries out: no pod was told. Throws as a look does. */
export async function endClaims(context: Context, observed: Observed): Promise<void> {
  const { key } = observed;
  const { withdrawn } = memoryOf(context, key);
  let now: Observed | undefined = observed;
  for (const { id } of claimsBy(observed, "scale-down", name)) {
    const claim = now && claimsBy(now, "scale-down", name).find((one) => one.id === id);
    if (now === undefined || claim === undefined) continue;
    // One that a review has joined since was renewed, and another's change may be on its way (rule R19).
    const isWithdrawn = withdrawn.has(id) && claim.sinceMs === undefined;
    if (!isWithdrawn && (await findEnd(context, key, claim)).kind === "stands") continue;
    await writeClaim(context, now, claim, undefined);
    withdrawn.delete(id);
    now = (await lookAtLedger(context, key))?.observed;
  }
}

/** Spec 3.3: the size that a StatefulSet has, to the status of what it mirrors. That it cannot be written holds up nothing. */
export async function writeBack(context: Context, key: GroupKey, members: readonly StatefulSet[], scales: Scales) {
  const written = members.map(async ({ uid, namespace, name: zone, replicas, scaling }) => {
    const { mirrored } = scaling ?? {};
    const scale = scales.get(uid);
    if (mirrored === undefined || !isDifferent(scale, replicas) || !mirrored.isWrittenBack) return;
    const at = { namespace, name: mirrored.name };
    const what = `the status of ${mirrored.kind} ${mirrored.name}`;
    try {
      await context.cluster.patch(scale.resource, at, { status: { replicas } }, { subresource: "status" });
    } catch (error) {
      if (!(error instanceof ClusterError)) throw error;
      const sentence = `${what} does not say that ${zone} has ${replicas} replicas: ${wordsOf(error)}`;
      if (isNews(context, key, `${uid} ${sentence}`)) context.reporter.problem(key, name, sentence, error);
    }
  });
  await Promise.all(written);
}

function isDifferent(scale: MirroredScale | SizeHeld | undefined, replicas: number): scale is MirroredScale {
  return scale !== undefined && "resource" in scale && scale.written !== replicas;
}
