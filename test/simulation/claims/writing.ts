/** How whoever makes claims looks at a ledger, and writes it: as a pass of a function does. */
import type { KnownClaim } from "../../../functions/shared/ledger/claim.ts";
import { actWithinMs, type Ledger } from "../../../functions/shared/ledger/reservation.ts";
import type { GroupKey } from "../../../functions/shared/objects/statefulsets.ts";
import type { Context } from "../../../functions/shared/pass/definition.ts";
import { knownLedger, loadLedger, refuseNewLedger, writeChange } from "../../../functions/shared/pass/ledger-access.ts";
import { type Observed, observeGroup } from "../../../functions/shared/pass/observation.ts";
import { keptRefusals } from "../../../functions/shared/pass/verdict-record.ts";

/** A group by its ledger; undefined while nothing may be permitted by it. Throws ClusterError. */
export async function observeLedger(context: Context, key: GroupKey): Promise<Observed | undefined> {
  const memory = context.memoryOf(key);
  const ledger: Ledger | undefined = knownLedger(context, memory) ?? (await loadLedger(context, key, memory));
  if (ledger === undefined) return undefined;
  const need = { permitSinceMs: memory.ledgerReadMs, consistent: false };
  const observed = await observeGroup(context, ledger, need);
  return refuseNewLedger(context, observed) === undefined ? observed : undefined;
}

/** Writes a claim in the place of its older self; undefined: takes it out. Resolves to until when it may be acted on. */
export async function writeClaim(
  context: Context,
  observed: Observed,
  before: KnownClaim | undefined,
  after: KnownClaim | undefined,
): Promise<number> {
  const others = observed.ledger.claims.filter((claim) => claim !== before);
  const sentMs = context.cluster.monotonicMs();
  await writeChange(context, observed, {
    reservations: observed.open,
    seenThrough: observed.view.seenThrough,
    membersThrough: observed.view.membersThrough,
    members: observed.joining.members,
    refusals: keptRefusals(observed),
    verdicts: observed.ledger.verdicts,
    claims: after === undefined ? others : [...others, after],
  });
  return sentMs + actWithinMs;
}
