/** Who is asked about the data of a member, and what becomes of those who say nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Member } from "../../../../functions/shared/group/suspension/members.ts";
import type { PodAnswer } from "../../../../functions/shared/http/pod-http.ts";
import { PodHttpError } from "../../../../functions/shared/http/pod-http.ts";
import type { Context } from "../../../../functions/shared/pass/definition.ts";
import { withDrainAnswers } from "../../../../functions/shared/pass/suspension/drain-questions.ts";
import { minutesAgo, Suspended } from "../../../stage/suspended.ts";

const key = { namespace: "db", group: "db" };

function made(replicas = 3): Suspended {
  const on = Suspended.of(["a", "b"], replicas, {
    "suspend-duration": "1h",
    "drain-url": "http://:8080/drained?pod={pod}",
  });
  for (const zone of ["a", "b"]) on.spec(zone, { serviceName: `nodes-${zone}` });
  return on;
}

/** A context whose pods answer as `says` has it: a status, or nothing at all; and what they were asked. */
function contextOf(says: Readonly<Record<string, number | "silent">> = {}, nowMs = 0) {
  const asked: string[] = [];
  const clock = { monotonicMs: () => 0, serverTimeMs: () => nowMs, sleep: () => new Promise<never>(() => {}) };
  const send = async (address: { pod: string; service: string; port: number }, { path }: { path: string }) => {
    asked.push(`${address.pod}.${address.service}:${address.port}${path}`);
    const status = says[address.pod] ?? 200;
    if (status === "silent") throw new PodHttpError("connection", `${address.pod} is not there`, { sent: false });
    return { status, body: "", contentType: "", retryAfterMs: undefined } as unknown as PodAnswer;
  };
  const context = { cluster: clock, pods: { send }, reporter: { health() {} } } as unknown as Context;
  return { context, asked };
}

const stateOf = (members: readonly Member[], name: string) => members.find((one) => one.name === name)?.drain;

test("another pod of the same StatefulSet is asked, by its own name in DNS, and the path names the pod that it is about", async () => {
  const on = made();
  on.ask("a", 2);
  const { context, asked } = contextOf();
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-2");
  assert.deepEqual(asked, ["db-a-0.nodes-a:8080/drained?pod=db-a-2"]);
  assert.deepEqual(stateOf(members, "db-a-2"), { pod: "db-a-0", health: { state: "good", words: "HTTP 200" } });
  assert.equal(stateOf(members, "db-a-1"), undefined, "about which nobody wants to know");
});

test("those that stay are asked before those that go themselves, and before those of other zones; a no is an answer", async () => {
  const on = made();
  on.ask("a", 0, 1, 2);
  const { context, asked } = contextOf({ "db-b-0": 503 });
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-2");
  assert.deepEqual(asked, ["db-b-0.nodes-b:8080/drained?pod=db-a-2"]);
  assert.equal(stateOf(members, "db-a-2")?.health.state, "bad");
});

test("who says nothing is followed by the next, three at most; who is not ready, or is to leave, is not asked", async () => {
  const on = made(6);
  on.suspend("a", 5, 30);
  const { context, asked } = contextOf({ "db-a-0": "silent", "db-a-1": 404, "db-a-2": "silent" });
  const pod = on.pods.get("db-a-3") as never as { metadata: { deletionTimestamp?: string } };
  pod.metadata.deletionTimestamp = minutesAgo(1);
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-5");
  assert.deepEqual(
    asked.map((line) => line.replace(/\..*/, "")),
    ["db-a-0", "db-a-1", "db-a-2"],
  );
  const answer = stateOf(members, "db-a-5");
  assert.deepEqual([answer?.pod, answer?.health.state], ["db-a-2", "unknown"]);
});

test("about more than sixteen members one asks in turns, so that nobody waits for those of whom the answer is always no", async () => {
  const on = made(20);
  const askedAbout = async (nowMs: number): Promise<ReadonlySet<string>> => {
    const { context, asked } = contextOf({ "db-a-0": 503 }, nowMs);
    await withDrainAnswers(context, "me", key, on.members, () => true);
    return new Set(asked.map((line) => line.replace(/.*=/, "")));
  };
  const turns = [await askedAbout(0), await askedAbout(10_000), await askedAbout(20_000)];
  assert.deepEqual(
    turns.map(({ size }) => size),
    [16, 16, 8],
  );
  assert.equal(new Set(turns.flatMap((turn) => [...turn])).size, 40);
});

test("where nobody else is ready, or nobody has a name in DNS, nobody says that the data is not needed", async () => {
  const alone = Suspended.of(["a"], 1, { "drain-url": "http://:8080/{pod}" });
  alone.spec("a", { serviceName: "nodes" });
  const nameless = made();
  for (const zone of ["a", "b"]) nameless.spec(zone, { serviceName: "" });
  for (const [on, name] of [
    [alone, "db-a-0"],
    [nameless, "db-a-2"],
  ] as const) {
    const { context, asked } = contextOf();
    const members = await withDrainAnswers(context, "me", key, on.members, (one) => one.name === name);
    assert.deepEqual(asked, []);
    assert.equal(stateOf(members, name)?.health.state, "unknown");
    assert.match(stateOf(members, name)?.health.words ?? "", /no other pod of the group is ready/);
  }
});

test("a name that could change the path is written so that it cannot; where the StatefulSet asks nobody, nobody is asked", async () => {
  const on = made();
  on.policy("a", { "drain-url": undefined });
  const { context, asked } = contextOf();
  await withDrainAnswers(context, "me", key, on.members, () => true);
  assert.deepEqual(new Set(asked.map((line) => line.replace(/.*=/, ""))), new Set(["db-b-0", "db-b-1", "db-b-2"]));
});
