/** Claims of restarts as they stand in a ledger, and where pods show them, without the code of the product. */
import type { LeaseObject } from "../../../functions/shared/kubernetes/cluster.ts";
import { ordinalIn, setNameOf } from "../../support/checkers/raw.ts";

export const phaseKey = "elasticsearch.k8s.elastic.co/restart-phase";

export interface RawClaim {
  readonly id: string;
  readonly kind: string;
  readonly zone: string;
  readonly mode?: string;
  readonly phase?: string;
  readonly members?: string;
  readonly uids?: Readonly<Record<string, string>>;
  readonly sum?: string;
  readonly processes?: Readonly<Record<string, string>>;
}

export function readClaims({ metadata }: LeaseObject): readonly RawClaim[] {
  const lines = (metadata.annotations?.["sluice.dev/claims"] ?? "").split("\n").filter((line) => line !== "");
  return lines.map((line) => JSON.parse(line) as RawClaim);
}

/** The restart of a claim, as calls name it: each StatefulSet of a restart of many has a claim of its own. */
export function stemOf({ id, zone, mode }: RawClaim): string {
  return mode === "coordinated" ? id.slice(0, -zone.length - 1) : id;
}

export function namesPod({ zone, members = "" }: RawClaim, pod: string): boolean {
  if (zone !== setNameOf(pod)) return false;
  return members.split(",").some((part) => {
    const [first = 0, last = first] = part.split("-").map(Number);
    return ordinalIn(pod) >= first && ordinalIn(pod) <= last;
  });
}
