/**
 * Evictions of pods whose owner is no StatefulSet: the ledger of their group decides them, over the zones of their volume
 * claims. Pure.
 */

import { notYet } from "../shared/admission/answers.ts";
import type { Denied } from "../shared/admission/definition.ts";
import { isUnsettled, type Zone } from "../shared/groups/zones.ts";
import type { Claim } from "../shared/ledger/claim.ts";
import { type Pod, podNameOf, statefulSetOfPod } from "../shared/workloads/pods.ts";
import { waitForClaim, type ZoneThen } from "./budget.ts";
import type { Taken } from "./decide-asked.ts";
import type { Decision } from "./group-commit/sort-decisions.ts";

/**
 * What stands in the ledger for a pod of another owner: its name, as the name and the ordinal that it is made of, so that the pod
 * is found again. A name without an ordinal gets 0, by which no observation finds the pod: it is reserved until the next one.
 */
export function reserveOwned({ name, ordinal, uid }: Pod): NonNullable<Decision["reserve"]> {
  const madeFor = statefulSetOfPod(name);
  const isWhole = madeFor !== undefined && podNameOf({ statefulSet: madeFor, ordinal }) === name;
  return isWhole ? { statefulSet: madeFor, ordinal, uid } : { statefulSet: name, ordinal: 0, uid };
}

/** Rule R18: the claim that blocks a pod: one that names its uid, or an unknown one, whose pods this version cannot know. */
export function claimOnOwned({ claims }: Pick<Zone, "claims">, { uid }: Pod): Claim | undefined {
  return claims.find((claim) => !claim.isKnown || Object.values(claim.uids ?? {}).includes(uid));
}

/**
 * Why a pod stays because of another zone's pods or claims; undefined if all others are whole. No budget limits how many of its
 * own zone may be down, because pods of one zone go together.
 */
export function refuseBesideZones(
  zones: readonly ZoneThen[],
  own: ZoneThen,
  pod: Pod,
  others: readonly (Pick<Taken, "uid"> & { readonly name: string })[],
): Denied | undefined {
  const { name } = own.workload;
  const isOwn = (uid: string) => [...own.pods, ...own.leaving].some((one) => one.uid === uid);
  const elsewhere = others.find(({ uid }) => uid !== pod.uid && !isOwn(uid));
  if (elsewhere !== undefined) {
    const message = `${elsewhere.name} of another zone was allowed to go: no pod of ${name} goes until it is back`;
    return notYet("zones-down", message, name);
  }
  const zone = zones.find((one) => one !== own && isUnsettled(one));
  if (zone === undefined) return undefined;
  const [claim] = zone.claims;
  if (claim !== undefined) return waitForClaim(claim, `no pod of ${name} goes until it ends`, own);
  const down = zone.down.size + zone.missing + zone.leaving.length;
  const message = `${down} pods down in ${zone.workload.name}: no pod of ${name} goes until that zone is whole`;
  return notYet("zones-down", message, name);
}
