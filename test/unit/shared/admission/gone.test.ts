/**
 * Clients that disconnect, and answers that come too late: nothing stays reserved for them, and they are answered at
 * their deadline.
 */
import assert from "node:assert/strict";
import { test } from "node:test";
import { governedGroup, Replica, reserved } from "../../functions/evaluate-eviction/group-commit/reviews.ts";
import type { Call } from "../reconcile/harness.ts";

const isWrite = ({ verb, resource }: Call) => verb === "patch" && resource === "leases";

test("if a client disconnects while its eviction is written, the next write removes the reservation", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 });
  const replica = new Replica(harness);
  const leaving = new AbortController();
  replica.interfere = (call) => {
    if (isWrite(call)) leaving.abort();
  };
  const gone = replica.review("group-a-0", { signal: leaving.signal });
  // The client has disconnected and gets no answer; the next one does.
  void gone.catch(() => undefined);
  await harness.goOn(1_000);
  replica.interfere = () => {};
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-a-1 by evaluate-eviction"]);
});

test("a client that disconnects before its eviction is read costs no write, and keeps no other pod from going", async () => {
  const harness = await governedGroup({ maxUnavailable: 1 });
  const replica = new Replica(harness);
  const leaving = new AbortController();
  leaving.abort();
  assert.deepEqual(await replica.guards(replica.review("group-a-0", { signal: leaving.signal })), ["late"]);
  assert.equal(replica.count("patch leases"), 0);
  assert.deepEqual(await replica.guards(replica.review("group-a-1")), ["allowed"]);
  assert.deepEqual(reserved(harness), ["group-a-1 by evaluate-eviction"]);
});

test("a review is answered late five seconds after its reads, before the timer of late reviews fires (R9)", async () => {
  const harness = await governedGroup();
  const replica = new Replica(harness);
  let readMs = Number.NaN;
  replica.interfere = async (call) => {
    if (`${call.verb} ${call.resource}` === "get leases") await replica.cluster.sleep(300);
    if (call.resource === "statefulsets") readMs = replica.cluster.monotonicMs();
    // The five seconds are nearly over when the write is sent; the timer of late reviews would fire later.
    if (call.resource === "poddisruptionbudgets") await replica.cluster.sleep(4_900);
    if (isWrite(call)) await replica.cluster.sleep(20_000);
  };
  const deadlineMs = replica.cluster.monotonicMs() + 27_000;
  assert.deepEqual(await replica.guards(replica.submit("group-a-0", { deadlineMs })), ["late"]);
  const tookMs = replica.cluster.monotonicMs() - readMs;
  assert.ok(tookMs >= 5_000 && tookMs <= 5_010, `${tookMs} ms after the reads`);
});
