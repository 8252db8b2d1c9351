/** What StatefulSets and pods show of a restart of many processes. */

import { restartId } from "../../shared/annotations/restart.ts";
import { mapLimit } from "../../shared/base/map-limit.ts";
import type { Context } from "../../shared/contract/context.ts";
import { hasCode } from "../../shared/kubernetes/cluster.ts";
import type { KnownClaim } from "../../shared/ledger/claim.ts";
import type { Pod } from "../../shared/workloads/pods.ts";
import { show } from "../show.ts";
import { shownTogether, stemOf } from "./phases.ts";

/** So many pods are patched at once. */
const patchedAtOnce = 8;

/** Writes the anchors of these claims, and the phase and the id of their pods, if there are any. Throws ClusterError. */
export async function showTogether(
  context: Context,
  namespace: string,
  claims: readonly Pick<KnownClaim, "id" | "zone" | "phase">[],
  pods: readonly Pod[],
): Promise<void> {
  const [claim] = claims;
  if (claim === undefined) return;
  const id = stemOf(claim);
  for (const { zone } of claims) await anchor(context, { namespace, name: zone }, id);
  await mapLimit(pods, patchedAtOnce, (pod) => show(context, pod, { phase: shownTogether(claim.phase), id }));
}

/** Writes the id of a restart to a StatefulSet, unless that is gone; null takes it off. Throws ClusterError. */
export async function anchor(
  { cluster }: Context,
  at: { namespace: string; name: string },
  id: string | null,
): Promise<void> {
  try {
    await cluster.patch("statefulsets", at, { metadata: { annotations: { [restartId.key]: id } } });
  } catch (error) {
    if (!hasCode(error, 404)) throw error;
  }
}
