/** Plans in which versions of Sluice meet that do not know the same of a ledger. */
import { claimKinds } from "../../../functions/shared/ledger/claim.ts";
import { claiming } from "../claims/scenarios.ts";
import type { Plan } from "../plan.ts";

/** Claims of every kind, beside an older version that has never learnt of any. */
export function besideOlder(plan: Plan): Plan {
  return claiming(plan, claimKinds, {
    claims: { kinds: claimKinds, everyMs: 4_000, isForeign: false },
    versions: { older: true, laterKind: false, laterFormat: false },
  });
}

/** The same, beside later ones too: one makes claims of an unknown kind, one writes the ledger in another format. */
export function besideAll(plan: Plan): Plan {
  return { ...besideOlder(plan), versions: { older: true, laterKind: true, laterFormat: true } };
}
