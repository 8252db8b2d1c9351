/** The order of a reconcile that first ends its own claims: what it reads and writes, and how it goes on after a failure. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { ReconcileResult } from "../../../../functions/shared/contract/definition.ts";
import { take } from "../../../../functions/shared/contract/verdict.ts";
import { formatClaims, makeClaim } from "../../../../functions/shared/ledger/claim.ts";
import {
  type ClaimingFunction,
  type Preparation,
  reconcileClaims,
} from "../../../../functions/shared/reconcile/reconcile-claims.ts";
import type { GroupObservation } from "../../../../functions/shared/transaction/observe-group.ts";
import { Harness, key, played } from "./harness.ts";

type Shrinking = ClaimingFunction<GroupObservation, never, Preparation>;

/** A function that never takes anything, and whose claims end as a test says. */
class Claiming extends Harness {
  /** What happened, in order. */
  readonly steps: string[] = [];
  claiming: Shrinking = {
    name: "shrink",
    claimKind: "scale-down",
    eventPolicy: { taking: "shrinking", reasons: { begins: "B", waits: "W", ends: "E" }, quietGuards: new Set() },
    asks: async () => "yes",
    endOf: async (_context, _observed, { id }) => {
      this.steps.push(`end ${id}`);
      return { kind: "over" };
    },
    observe: (observed) => {
      this.steps.push(`observe ${observed.ledger.claims.map(({ id }) => id)}`);
      return observed;
    },
    decide: () => take([], "nothing is to go"),
    actOn: () => assert.fail("nothing is taken"),
  };

  /** The observation under a ledger that may be written, and that has these claims of the function. */
  static async holding(...ids: readonly string[]): Promise<Claiming> {
    const harness = await new Claiming({ zones: ["a"], replicas: 3 }).prepare();
    const made = ids.map((id, ordinal) =>
      makeClaim({
        id,
        kind: "scale-down",
        zone: "group-a",
        members: [{ first: ordinal, last: ordinal }],
        by: "shrink",
        stampMs: 0,
        phase: "confirmed",
        terms: "asked",
      }),
    );
    harness.writeLedger({ "sluice.dev/claims": formatClaims(made) });
    return harness;
  }

  async reconcile(sweep: boolean): Promise<ReconcileResult> {
    return played(this.timeline, reconcileClaims(this.context, this.claiming, key, { sweep }));
  }
}

test("each claim that has ended is removed by a write of its own, and the decision uses the remaining ones", async () => {
  const harness = await Claiming.holding("one", "two");
  await harness.reconcile(true);
  assert.deepEqual(harness.steps, ["end one", "end two", "observe "]);
  assert.deepEqual(harness.ledger.claims, []);
  assert.equal(harness.count("get leases"), 1, "a sweep reads the ledger once");
});

test("without an own claim the group is read once, and in a sweep the ledger once", async () => {
  const harness = await Claiming.holding();
  await harness.reconcile(true);
  harness.forget();
  const { cache } = harness.context;
  let rounds = 0;
  const read: typeof cache.read = (...asked) => {
    rounds++;
    return cache.read(...asked);
  };
  harness.use({ ...cache, read });
  await harness.reconcile(true);
  assert.deepEqual([harness.count("get leases"), rounds], [1, 1]);
});

test("a claim that stands stays, and the reconcile comes again when it may have ended", async () => {
  const harness = await Claiming.holding("one");
  harness.claiming = { ...harness.claiming, endOf: async () => ({ kind: "stands", requeueAfterMs: 3_000 }) };
  const { requeueAfterMs } = await harness.reconcile(true);
  assert.equal(requeueAfterMs, 3_000);
  assert.deepEqual(harness.steps, ["observe one"]);
});

test("if another process has written the ledger meanwhile, the claims stay, and the reconcile still decides", async () => {
  const harness = await Claiming.holding("one", "two");
  const { endOf } = harness.claiming;
  harness.claiming = {
    ...harness.claiming,
    endOf: (context, observed, claim) => {
      harness.writeLedger({ "example.com/other": claim.id });
      return endOf(context, observed, claim);
    },
  };
  await harness.reconcile(true);
  assert.deepEqual(harness.steps, ["end one", "observe one,two"]);
  assert.equal(harness.conflicts, 1);
});

test("the preparation uses a ledger that is read again; if that fails, the reconcile decides and comes again soon", async () => {
  const harness = await Claiming.holding();
  await harness.reconcile(true);
  let failing = false;
  harness.claiming = {
    ...harness.claiming,
    prepare: async (_context, { ledger }) => {
      harness.steps.push(`prepare at ${ledger.resourceVersion}`);
      if (failing) harness.writeLedger({ "sluice.dev/claims": "no JSON" });
      return { requeueAfterMs: 7_000 };
    },
  };
  harness.writeLedger({ "example.com/other": "1" });
  const now = harness.ledger.resourceVersion;
  harness.steps.length = 0;
  assert.equal((await harness.reconcile(false)).requeueAfterMs, 7_000);
  assert.deepEqual(harness.steps, [`prepare at ${now}`, "observe "]);
  failing = true;
  harness.writeLedger({ "sluice.dev/claims": "no JSON" });
  harness.steps.length = 0;
  assert.equal((await harness.reconcile(false)).requeueAfterMs, 1_000);
  assert.equal(harness.guard, "ledger-unreadable");
});
