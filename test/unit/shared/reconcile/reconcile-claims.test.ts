/** The order of a pass that ends its own claims first: what is read, what is written, and what it does when that fails. */
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
import { key, Passes, played } from "./passes.ts";

type Shrinking = ClaimingFunction<GroupObservation, never, Preparation>;

/** A function that never takes anything, and whose claims end as a test says. */
class Claiming extends Passes {
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

  /** Under a ledger that may be written, and that holds these claims of the function. */
  static async holding(...ids: readonly string[]): Promise<Claiming> {
    const passes = await new Claiming({ zones: ["a"], replicas: 3 }).prepare();
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
    passes.writeLedger({ "sluice.dev/claims": formatClaims(made) });
    return passes;
  }

  async reconcile(sweep: boolean): Promise<ReconcileResult> {
    return played(this.timeline, reconcileClaims(this.context, this.claiming, key, { sweep }));
  }
}

test("each claim that is over is taken out by a write of its own, and the decision rests on what is left", async () => {
  const passes = await Claiming.holding("one", "two");
  await passes.reconcile(true);
  assert.deepEqual(passes.steps, ["end one", "end two", "observe "]);
  assert.deepEqual(passes.ledger.claims, []);
  assert.equal(passes.count("get leases"), 1, "a sweep reads the ledger once");
});

test("where no own claim stands the group is looked at once, by one read of the ledger in a sweep", async () => {
  const passes = await Claiming.holding();
  await passes.reconcile(true);
  passes.forget();
  const { cache } = passes.context;
  let looks = 0;
  const read: typeof cache.read = (...asked) => {
    looks++;
    return cache.read(...asked);
  };
  passes.use({ ...cache, read });
  await passes.reconcile(true);
  assert.deepEqual([passes.count("get leases"), looks], [1, 1]);
});

test("a claim that stands stays, and the pass comes again when it may be over", async () => {
  const passes = await Claiming.holding("one");
  passes.claiming = { ...passes.claiming, endOf: async () => ({ kind: "stands", requeueAfterMs: 3_000 }) };
  const { requeueAfterMs } = await passes.reconcile(true);
  assert.equal(requeueAfterMs, 3_000);
  assert.deepEqual(passes.steps, ["observe one"]);
});

test("where another process has written the ledger meanwhile, the claims are left, and the pass decides all the same", async () => {
  const passes = await Claiming.holding("one", "two");
  const { endOf } = passes.claiming;
  passes.claiming = {
    ...passes.claiming,
    endOf: (context, observed, claim) => {
      passes.writeLedger({ "example.com/other": claim.id });
      return endOf(context, observed, claim);
    },
  };
  await passes.reconcile(true);
  assert.deepEqual(passes.steps, ["end one", "observe one,two"]);
  assert.equal(passes.conflicts, 1);
});

test("what is prepared rests on a ledger that is read anew; where that fails, the pass decides and soon comes again", async () => {
  const passes = await Claiming.holding();
  await passes.reconcile(true);
  let failing = false;
  passes.claiming = {
    ...passes.claiming,
    prepare: async (_context, { ledger }) => {
      passes.steps.push(`prepare at ${ledger.resourceVersion}`);
      if (failing) passes.writeLedger({ "sluice.dev/claims": "no JSON" });
      return { requeueAfterMs: 7_000 };
    },
  };
  passes.writeLedger({ "example.com/other": "1" });
  const now = passes.ledger.resourceVersion;
  passes.steps.length = 0;
  assert.equal((await passes.reconcile(false)).requeueAfterMs, 7_000);
  assert.deepEqual(passes.steps, [`prepare at ${now}`, "observe "]);
  failing = true;
  passes.writeLedger({ "sluice.dev/claims": "no JSON" });
  passes.steps.length = 0;
  assert.equal((await passes.reconcile(false)).requeueAfterMs, 1_000);
  assert.equal(passes.guard, "ledger-unreadable");
});
