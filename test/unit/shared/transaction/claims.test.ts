/** How a function finds the groups whose ledgers hold its claims, and the workload of a claim. */
import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { GroupCache, ViewNeed } from "../../../../functions/shared/cache/cache.ts";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { createMemory } from "../../../../functions/shared/contract/memory.ts";
import { type Claim, formatClaims } from "../../../../functions/shared/ledger/claim.ts";
import { LedgerUnreadable } from "../../../../functions/shared/ledger/errors.ts";
import { ledgerName } from "../../../../functions/shared/ledger/lease-name.ts";
import type { Ledger, StoredLedger } from "../../../../functions/shared/ledger/reservation.ts";
import {
  hasClaim,
  listClaimed,
  openTransaction,
  scheduleOfClaims,
  workloadNamed,
} from "../../../../functions/shared/transaction/claims.ts";
import { Conflict } from "../../../../functions/shared/transaction/ledger-copy.ts";
import { claimOf, namespace, zone } from "../../functions/advance-zone-rollout/given.ts";
import { Harness, key, played, refused } from "../reconcile/harness.ts";

const [own, other] = [claimOf("a:0", "process", { by: "own" }), claimOf("b:0", "process", { by: "other" })];
const isOwn = ({ by }: Claim) => by === "own";

test("a claim's workload is the one of its zone, and everything is read once more where the group has none of that name", () => {
  const zones = [zone("a", "oo"), zone("b", "oo")];
  assert.equal(workloadNamed({ zones }, "b"), zones[1]?.workload);
  assert.throws(() => workloadNamed({ zones }, "c"), Conflict);
});

test("a group that is gone has no transaction", async () => {
  const harness = new Harness();
  const gone = { namespace, group: "gone" };
  assert.equal(await played(harness.timeline, openTransaction(harness.context, gone)), undefined);
});

test("a group is read as new as its ledger must be to permit something, and no consistent LIST is needed for that (R5)", async () => {
  const harness = new Harness();
  await harness.run();
  const needs: ViewNeed[] = [];
  const { cache } = harness.context;
  const read: GroupCache["read"] = (asked, need) => {
    needs.push(need);
    return cache.read(asked, need);
  };
  const context = { ...harness.context, cache: { ...cache, read } };
  assert.ok(await played(harness.timeline, openTransaction(context, key)));
  const { ledgerReadMs } = context.memoryOf(key);
  assert.deepEqual(
    needs.map(({ permitSinceMs, consistent }) => ({ permitSinceMs, consistent })),
    [{ permitSinceMs: ledgerReadMs, consistent: false }],
  );
});

describe("whether a ledger holds a claim", () => {
  interface Given {
    readonly known?: readonly Claim[];
    readonly stored?: readonly Claim[] | Error;
  }

  async function askedOf({ known, stored }: Given, sweep: boolean) {
    let reads = 0;
    const memoryOf = createMemory();
    if (known !== undefined) {
      const { copy } = memoryOf(key);
      Object.assign(copy, { ledger: { claims: known, reservations: [] } as unknown as Ledger, atMs: 0 });
    }
    const protocol = {
      async readLedger() {
        reads++;
        if (stored instanceof Error) throw stored;
        return stored && { claims: stored };
      },
    };
    const context = { cluster: { monotonicMs: () => 1 }, memoryOf, protocol } as unknown as Context;
    return { isThere: await hasClaim(context, key, sweep, isOwn), reads };
  }

  test("what this process knows is enough, also in a sweep", async () => {
    for (const sweep of [false, true]) {
      assert.deepEqual(await askedOf({ known: [other, own], stored: [] }, sweep), { isThere: true, reads: 0 });
      assert.deepEqual(await askedOf({ known: [other], stored: [own] }, sweep), { isThere: false, reads: 0 });
    }
  });

  test("an unknown ledger is read in a sweep alone, and one that is not there holds none", async () => {
    assert.deepEqual(await askedOf({ stored: [own] }, true), { isThere: true, reads: 1 });
    assert.deepEqual(await askedOf({ stored: [other] }, true), { isThere: false, reads: 1 });
    assert.deepEqual(await askedOf({}, true), { isThere: false, reads: 1 });
    assert.deepEqual(await askedOf({ stored: [own] }, false), { isThere: false, reads: 0 });
  });

  test("a ledger that cannot be used holds none, and another error is thrown", async () => {
    assert.deepEqual(await askedOf({ stored: new LedgerUnreadable("sluice-group", "no") }, true), {
      ...{ isThere: false, reads: 1 },
    });
    await assert.rejects(askedOf({ stored: refused(503) }, true), { code: 503 });
  });
});

describe("the groups with claims", () => {
  const leaseOf = (group: string, claims: string | undefined, name = ledgerName(group)) => ({
    metadata: {
      ...{ namespace, name },
      annotations: { "sluice.dev/group": group, ...(claims === undefined ? {} : { "sluice.dev/claims": claims }) },
    },
  });

  async function listed(
    leases: readonly ReturnType<typeof leaseOf>[],
    listDue: ReturnType<typeof listClaimed> = listClaimed(isOwn),
  ) {
    const memoryOf = createMemory();
    for (const { metadata } of leases) {
      const group = metadata.annotations["sluice.dev/group"];
      memoryOf({ namespace, group }).copy.ledger = {} as StoredLedger;
    }
    const cluster = { list: async () => ({ items: leases }) };
    const keys = await listDue({ cluster, memoryOf } as unknown as Context, namespace);
    const forgotten = leases
      .map(({ metadata }) => metadata.annotations["sluice.dev/group"])
      .filter((group) => memoryOf({ namespace, group }).copy.ledger === undefined);
    return { groups: keys.map(({ group }) => group), forgotten };
  }

  test("are those with one such claim among others, or with claims that cannot be read, and their copies are forgotten", async () => {
    const leases = [
      leaseOf("mixed", formatClaims([other, own])),
      leaseOf("others", formatClaims([other])),
      leaseOf("none", undefined),
      leaseOf("empty", ""),
      leaseOf("malformed", "{"),
      leaseOf("renamed", formatClaims([own]), "sluice-another"),
    ];
    assert.deepEqual(await listed(leases), { groups: ["mixed", "malformed"], forgotten: ["mixed", "malformed"] });
    assert.deepEqual((await listed(leases, scheduleOfClaims("other").listDue)).groups, [
      "mixed",
      "others",
      "malformed",
    ]);
  });

  test("are also those that the caller names besides", async () => {
    const isEmpty = (_: Context, { metadata }: { readonly metadata: { readonly name: string } }) =>
      metadata.name === ledgerName("none");
    const leases = [leaseOf("none", undefined), leaseOf("others", formatClaims([other]))];
    assert.deepEqual((await listed(leases, listClaimed(isOwn, isEmpty))).groups, ["none"]);
  });

  test("are listed every 30 s", () => {
    assert.equal(scheduleOfClaims("own").everySeconds, 30);
  });
});
