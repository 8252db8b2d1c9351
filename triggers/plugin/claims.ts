/** How `kubectl sluice why` shows a group's claims. */
import { type Claim, describeMembers } from "../../functions/shared/ledger/claim.ts";
import { endsOf, guardOfClaim } from "../../functions/shared/ledger/claim-kinds.ts";

/** Of a kind that this version does not know, only the first five fields are set. */
export interface ClaimInspection {
  readonly id: string;
  readonly kind: string;
  readonly zone: string;
  /** The name under which others wait for it. */
  readonly guard: string;
  /** Empty where it does not say. */
  readonly function: string;
  /** Ordinals, such as `3-5,7`, or names where there are none; null: the whole zone. */
  readonly members: string | null;
  readonly phase: string | null;
  /** `asked`: within the budget; `announced`: no function could choose. */
  readonly terms: "asked" | "announced" | null;
  /** When it was made or renewed last, and since when it has stood. */
  readonly at: string | null;
  readonly since: string | null;
  /** The object that says why it exists, as RESOURCE/NAME or RESOURCE/NAMESPACE/NAME, and its annotation. */
  readonly anchor: { readonly object: string; readonly annotation: string } | null;
  readonly ends: string;
}

const ofLaterVersion =
  "by the function of a later version of Sluice that made it; until then its whole zone counts as down";

export function inspectClaim(claim: Claim): ClaimInspection {
  const stated = { id: claim.id, kind: claim.kind, zone: claim.zone, guard: guardOfClaim(claim), function: claim.by };
  if (!claim.isKnown) {
    const unknown = { members: null, phase: null, terms: null, at: null, since: null, anchor: null };
    return { ...stated, ...unknown, ends: ofLaterVersion };
  }
  const { phase, terms, stampMs, sinceMs = stampMs, anchor } = claim;
  const path =
    anchor && [anchor.resource, anchor.namespace, anchor.name].filter((part) => part !== undefined).join("/");
  return {
    ...stated,
    members: describeMembers(claim),
    phase,
    terms,
    at: new Date(stampMs).toISOString(),
    since: new Date(sinceMs).toISOString(),
    anchor: anchor === undefined || path === undefined ? null : { object: path, annotation: anchor.annotation },
    ends: endsOf(claim),
  };
}
