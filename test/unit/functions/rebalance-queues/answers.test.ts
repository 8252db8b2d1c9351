/** The possible answers of RabbitMQ, and what follows from each. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { ask, readAnswer } from "../../../../functions/rebalance-queues/ask.ts";
import type { PodReply } from "../../../fake-cluster/pod-http.ts";
import { refused } from "../../shared/reconcile/harness.ts";
import { Brokers, namespace, settleMs, usual } from "./brokers.ts";

async function due(): Promise<Brokers> {
  const brokers = new Brokers();
  await brokers.process().run();
  await brokers.goOn(settleMs + 1);
  return brokers;
}

const html = "<html>\n  hello </html>";
const cases: [PodReply, string, RegExp][] = [
  [{ status: 500, body: "boom" }, "rebalance-refused", /group-a-0 answered HTTP 500 boom; tried again in 30 s/],
  [
    { status: 401, body: '{"error":"not_authorized"}' },
    "rebalance-refused",
    /its user have the tag administrator: .* 401/,
  ],
  [{ status: 403 }, "rebalance-refused", /its user have the tag administrator: .* 403/],
  [{ status: 404 }, "rebalance-refused", /HTTP 404/],
  [{ status: 200, body: html }, "rebalance-refused", /no answer of RabbitMQ's: .* HTTP 200 <html> hello <\/html>/],
  [{ status: 302, headers: { location: "http://evil/" } }, "rebalance-refused", /no answer of RabbitMQ's: .* HTTP 302/],
  [{ status: 204, body: "x".repeat(5_000) }, "rebalance-unanswered", /more than 4096 bytes/],
  ["break", "rebalance-unanswered", /the connection ended/],
  ["hang", "rebalance-unanswered", /no answer within 5000 ms/],
];

test("Sluice reports any answer that is not RabbitMQ's in one Event, and asks another node 30 s later", async () => {
  for (const [reply, guard, message] of cases) {
    const brokers = await due();
    brokers.reply = () => reply;
    const process = brokers.process();
    assert.equal(await process.run(), guard);
    assert.match(brokers.harness.verdicts.at(-1)?.message ?? "", message);
    assert.deepEqual([brokers.state?.balanced, brokers.state?.claimedMs], [undefined, undefined]);
    // Another process reports the same, from the annotation.
    assert.equal(await brokers.process().run(), guard);
    await brokers.goOn(30_000);
    assert.equal(await process.run(), guard);
    assert.deepEqual(brokers.pods, ["group-a-0", "group-a-1"]);
    brokers.reply = () => ({ status: 204 });
    await process.goOn(61_000);
    assert.deepEqual(brokers.pods, ["group-a-0", "group-a-1", "group-a-2"]);
    assert.equal(await process.run(), "done");
    assert.equal(brokers.state?.failed, undefined);
    const waiting = brokers.events.filter((event) => event.startsWith("RebalanceWaiting"));
    assert.equal(waiting.length, 1, waiting.join("\n"));
    assert.equal(brokers.events.filter((event) => event.startsWith("QueuesRebalanced")).length, 1);
  }
});

test("after hours of failures the pauses are a quarter of an hour, and Sluice asks each node in turn", async () => {
  const brokers = await due();
  brokers.reply = () => ({ status: 503 });
  await brokers.process().goOn(4 * 3_600_000);
  assert.ok(brokers.asked.length >= 18 && brokers.asked.length <= 23, `${brokers.asked.length}`);
  const gaps = brokers.asked.slice(1).map(({ atMs }, index) => atMs - (brokers.asked[index]?.atMs ?? 0));
  assert.ok(gaps.every((gap, index) => gap >= Math.min(900_000, 30_000 * 2 ** index)));
});

test("a node that answers after the time limit counts as silent, although it may have rebalanced", async () => {
  const brokers = await due();
  brokers.slowMs = 2_000;
  const process = brokers.process();
  assert.equal(await process.run(), "rebalance-unanswered");
  assert.equal(brokers.asked.length, 1);
  brokers.slowMs = 1;
  await process.goOn(120_000);
  assert.deepEqual([brokers.asked.length, await process.run()], [2, "done"]);
});

test("Sluice gives up a call that never returns after 20 s, whatever the call's own time limit", async () => {
  const brokers = await due();
  let isGivenUp = false;
  const send = (_address: unknown, _request: unknown, options?: { readonly signal?: AbortSignal }) =>
    new Promise<never>(() => {
      options?.signal?.addEventListener("abort", () => {
        isGivenUp = true;
      });
    });
  const startMs = brokers.harness.timeline.nowMs();
  assert.equal(await brokers.process({ pods: { send } }).run(), "rebalance-unanswered");
  const tookMs = brokers.harness.timeline.nowMs() - startMs;
  assert.ok(tookMs >= 20_000 && tookMs < 21_000, `${tookMs}`);
  assert.ok(isGivenUp);
});

test("credentials-missing: without a readable Secret that holds credentials, Sluice sends no request", async () => {
  const brokers = new Brokers({ ...usual, "sluice.dev/rebalance-secret": "own" });
  const process = brokers.process();
  await process.goOn(settleMs + 1_000);
  assert.equal(await process.run(), "credentials-missing");
  assert.match(brokers.harness.verdicts.at(-1)?.message ?? "", /Secret own could not be read/);
  brokers.harness.world.store.create("secrets", namespace, {
    metadata: { name: "own" },
    data: { username: btoa("u") },
  } as never);
  await process.goOn(60_000);
  assert.match(brokers.harness.verdicts.at(-1)?.message ?? "", /Secret own has no username and password/);
  process.interfere = ({ resource }) => {
    if (resource === "secrets") throw refused(403, 'User "u" cannot get resource "secrets"');
  };
  await process.goOn(120_000);
  assert.match(brokers.harness.verdicts.at(-1)?.message ?? "", /a Role must give Sluice the right/);
  assert.deepEqual(brokers.asked, []);
});

test("a process that calls no pods reports that, and shortens a foreign message to one line of 200 characters", async () => {
  const { pods: _, ...context } = new Brokers().process().context;
  const endpoint = { url: { scheme: "http", port: 1 }, service: "s", secret: undefined, authority: undefined } as const;
  const refusal = await ask(context, { namespace, group: "g", pod: "p", endpoint });
  assert.deepEqual(refusal, { guard: "rebalance-unanswered", why: "this process calls no pods" });
  const long = readAnswer("p", { status: 500, body: `a\n\tb ${"c".repeat(999)}` });
  assert.match(long?.why ?? "", /^p answered HTTP 500 a b c+$/);
  assert.equal(long?.why.length, 200);
});
