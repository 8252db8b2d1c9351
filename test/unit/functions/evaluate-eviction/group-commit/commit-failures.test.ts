/** Group commit when something fails: the ledger, the API server, a write without an answer, or the decision itself. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ledgerNewMs } from "../../../../../functions/shared/ledger/reservation.ts";
import { type Call, Harness, key, ledgerKey, refused } from "../../../shared/reconcile/harness.ts";
import { addBudget, governedGroup, Replica, reserved } from "./reviews.ts";

const by = "evaluate-eviction";
const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

test("ledger-contended: after five conflicts in a row the answer is a 429 (R3), and the next review begins anew", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  let writes = 0;
  replica.interfere = (call) => {
    if (isWrite(call) && ++writes <= 5) harness.writeLedger({ other: String(writes) });
  };
  const answer = await replica.answer(replica.submit("group-a-0"));
  assert.deepEqual([answer.allowed, answer.guard, !answer.allowed && answer.code], [false, "ledger-contended", 429]);
  assert.deepEqual([writes, harness.conflicts], [5, 5]);
  assert.deepEqual(reserved(harness), []);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
});

test("a ledger that is deleted and created again meanwhile is a conflict, and a new ledger permits nothing (R3, R4)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = (call) => {
    if (isWrite(call)) harness.world.store.delete("leases", ledgerKey);
  };
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["ledger-new"]);
  assert.equal(harness.conflicts, 1);
  assert.deepEqual(reserved(harness), []);
});

test("a write without an answer is a 429; its possible reservation counts, and the same pod may be asked for again", async () => {
  for (const arrives of [true, false]) {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    replica.interfere = (call) => {
      if (!isWrite(call)) return;
      const body = call.given[2] as { readonly metadata: object };
      if (arrives) harness.world.store.patch("leases", ledgerKey, body);
      throw refused(0, "no answer came");
    };
    const answer = await replica.answer(replica.submit("group-a-0"));
    assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["api-server-away", 429]);
    replica.interfere = () => {};
    const other = await replica.guards(replica.submit("group-b-0", { dryRun: true }));
    assert.deepEqual(other, [arrives ? "zones-down" : "allowed"]);
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
    assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`]);
  }
});

test("a write that never arrived undoes nothing of what another process reserved at the same moment", async () => {
  const harness = await governedGroup();
  const one = new Replica(harness);
  const two = new Replica(harness);
  one.interfere = (call) => {
    if (isWrite(call)) throw refused(0, "no answer came");
  };
  assert.deepEqual(await one.guards(one.submit("group-a-0")), ["api-server-away"]);
  one.interfere = () => {};
  assert.deepEqual(await two.guards(two.submit("group-a-0")), ["allowed"]);
  assert.deepEqual(await one.guards(one.submit("group-a-1")), ["zone-budget"]);
  assert.deepEqual(reserved(harness), [`group-a-0 by ${by}`]);
});

test("ledger-new: a ledger that the first review creates permits nothing for ten seconds, and is not written (R4)", async () => {
  const harness = new Harness();
  addBudget(harness);
  const replica = new Replica(harness);
  const answer = await replica.answer(replica.submit("group-a-0"));
  assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["ledger-new", 429]);
  await harness.goOn(ledgerNewMs - 1_000);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["ledger-new"]);
  assert.deepEqual(replica.writes, ["create leases"]);
  await harness.goOn(1_000);
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  for (const { given } of replica.calls.filter(({ verb, resource }) => verb === "list" && resource === "pods")) {
    assert.equal((given[1] as { notOlderThan?: string }).notOlderThan, undefined, "the first decision lists afresh");
  }
});

test("ledger-unreadable: a ledger that another client has broken permits nothing and is never overwritten", async () => {
  const harness = await governedGroup();
  harness.writeLedger({ "sluice.dev/reservations": "{" });
  const replica = new Replica(harness);
  const answer = await replica.answer(replica.submit("group-a-0"));
  assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["ledger-unreadable", 429]);
  assert.match(answer.allowed ? "" : answer.message, /^Lease sluice-group cannot be read as a ledger: .+ delete it/);
  assert.deepEqual(replica.writes, []);
});

test("api-server-away, right-missing: a call that the API server refuses is a 429 that says which call", async () => {
  for (const [code, guard] of [
    [503, "api-server-away"],
    [0, "api-server-away"],
    [504, "api-server-away"],
    [403, "right-missing"],
  ] as const) {
    const harness = await governedGroup();
    const replica = new Replica(harness);
    replica.interfere = ({ verb, resource }) => {
      if (verb === "list" && resource === "pods") throw refused(code, "it would not");
    };
    const answer = await replica.answer(replica.submit("group-a-0"));
    assert.deepEqual([answer.guard, !answer.allowed && answer.code], [guard, 429]);
    assert.match(
      answer.allowed ? "" : answer.message,
      /^to decide about pods of group, Sluice has to .+: it would not$/,
    );
    replica.interfere = () => {};
    assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  }
});

test("credentials-refused: a 401 becomes a 429 that names the credentials, until the first call that succeeds", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  replica.interfere = ({ verb, resource }) => {
    if (verb === "list" && resource === "pods") throw refused(401, "Unauthorized");
  };
  const answer = await replica.answer(replica.submit("group-a-0"));
  assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["credentials-refused", 429]);
  assert.match(
    answer.allowed ? "" : answer.message,
    /the API server does not accept Sluice's credentials: Unauthorized$/,
  );
  replica.interfere = () => {};
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
});

test("pod-unseen: no ledger is created for a group that has vanished", async () => {
  const harness = new Harness();
  const replica = new Replica(harness);
  const eviction = { name: "gone-0", uid: "u", isPinned: true, pin: [] };
  const review = { eviction, dryRun: false, deadlineMs: replica.cluster.monotonicMs() + 9_000 };
  const answer = await replica.answer(replica.commit.submit({ ...key, group: "gone" }, review));
  assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["pod-unseen", 429]);
  assert.deepEqual(replica.writes, []);
});

test("a decision that throws fails its own reviews, and no later one", async () => {
  const harness = await governedGroup();
  let isBroken = true;
  const shipped = new Replica(harness);
  const replica = new Replica(harness, () => ({}), {
    decide: (group) => {
      if (isBroken) throw new TypeError("the sky fell");
      return group.asked.map(() => ({ answer: { allowed: true, guard: "allowed", warnings: [] } }));
    },
  });
  await assert.rejects(replica.answer(replica.submit("group-a-0")), /the sky fell/);
  isBroken = false;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
  assert.deepEqual(await shipped.guards(shipped.submit("group-a-0")), ["allowed"]);
});

test("ledger-unwritable: a ledger that could not be read again is not written, the answer is a 429, and the next review is decided", async () => {
  const harness = await governedGroup();
  let ordinal = 1e30;
  const decide: ConstructorParameters<typeof Replica>[2] = {
    decide: ({ asked }) =>
      asked.map(({ eviction: { uid } }) => ({
        answer: { allowed: true, guard: "allowed", warnings: [] },
        reserve: { statefulSet: "group-a", ordinal, uid },
      })),
  };
  const replica = new Replica(harness, () => ({}), decide);
  const before = JSON.stringify(harness.world.store.get("leases", ledgerKey));
  const answer = await replica.answer(replica.submit("group-a-0"));
  assert.deepEqual([answer.guard, !answer.allowed && answer.code], ["ledger-unwritable", 429]);
  assert.equal(JSON.stringify(harness.world.store.get("leases", ledgerKey)), before);
  ordinal = 0;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0")), ["allowed"]);
});
