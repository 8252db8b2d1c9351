/** Which pods of a zone count as down for the invariants of claims. */
import type { StoredStatefulSet } from "../../fake-cluster/objects.ts";
import type { SeenView } from "../../support/checkers/ledger-write.ts";
import { isUp, type Reserved } from "../../support/checkers/raw.ts";
import { names, type Raw } from "./raw.ts";

/** Those of a StatefulSet that is being deleted as well: its pods still serve. */
function ordinalsIn({ spec }: StoredStatefulSet): number[] {
  const start = spec.ordinals?.start ?? 0;
  return Array.from({ length: spec.replicas }, (_, at) => start + at);
}

/** True where no pod of a claim is up, so that the restart of its process takes nothing more from the group. */
export function isDownAlready(claim: Raw, set: StoredStatefulSet, view: SeenView): boolean {
  const named = ordinalsIn(set).filter((ordinal) => names(claim, ordinal));
  return !named.some((ordinal) => {
    const pod = view.pod(`${claim.zone}-${ordinal}`);
    return pod !== undefined && isUp(pod);
  });
}

/** The names of the pods that are missing, not up, reserved or claimed. A claim for a volume takes no pod. */
export function downIn(
  set: StoredStatefulSet,
  claims: readonly Raw[],
  all: readonly Reserved[],
  view: SeenView,
): Set<string> {
  const { name } = set.metadata;
  const down = ordinalsIn(set).filter((ordinal) => {
    const pod = view.pod(`${name}-${ordinal}`);
    const isReserved = all.some((one) => one.set === name && one.ordinal === ordinal);
    const isClaimed = claims.some((one) => one.zone === name && one.kind !== "volume" && names(one, ordinal));
    return pod === undefined || !isUp(pod) || isReserved || isClaimed;
  });
  return new Set(down.map((ordinal) => `${name}-${ordinal}`));
}
