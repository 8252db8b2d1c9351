/** Plans in which versions of Sluice run together that know different parts of a ledger. */
import { claimKinds } from "../../../functions/shared/ledger/claim.ts";
import { claiming } from "../claims/scenarios.ts";
import type { Plan } from "../plan.ts";

/** Claims of every kind, beside an older version that knows none of them. */
export function besideOlder(plan: Plan): Plan {
  return claiming(plan, claimKinds, {
    claims: { kinds: claimKinds, everyMs: 4_000, isForeign: false },
    versions: { older: true, laterKind: false, laterFormat: false },
  });
}

/** The same, also beside later versions: one makes claims of an unknown kind, one writes the ledger in another format. */
export function besideAll(plan: Plan): Plan {
  return { ...besideOlder(plan), versions: { older: true, laterKind: true, laterFormat: true } };
}
