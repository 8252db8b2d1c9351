/** Which pods are asked about the data of a member, and what follows from missing answers. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Context } from "../../../../functions/shared/contract/context.ts";
import { type PodAnswer, PodHttpError } from "../../../../functions/shared/http/pod-http.ts";
import { withDrainAnswers } from "../../../../functions/shared/suspension/drain-answers.ts";
import { describeAgreeing, type Member, whyNeeded } from "../../../../functions/shared/volumes/members.ts";
import { minutesAgo, Suspended } from "../../../support/suspended.ts";
import { top, Volumes } from "./volumes.ts";

const key = { namespace: "db", group: "db" };

function made(replicas = 3, annotations: Readonly<Record<string, string>> = {}): Suspended {
  const on = Suspended.of(["a", "b"], replicas, {
    "suspend-duration": "1h",
    "drain-url": "http://:8080/drained?pod={pod}",
    ...annotations,
  });
  for (const zone of ["a", "b"]) on.spec(zone, { serviceName: `nodes-${zone}` });
  return on;
}

/** A context whose pods give these answers, with a status or not at all, and the requests that they got. */
function contextOf(answers: Readonly<Record<string, number | "silent">> = {}, nowMs = 0) {
  const asked: string[] = [];
  const clock = { monotonicMs: () => 0, serverTimeMs: () => nowMs, sleep: () => new Promise<never>(() => {}) };
  const send = async (address: { pod: string; service: string; port: number }, { path }: { path: string }) => {
    asked.push(`${address.pod}.${address.service}:${address.port}${path}`);
    const status = answers[address.pod] ?? 200;
    if (status === "silent") throw new PodHttpError("connection", `${address.pod} is not there`, { sent: false });
    return { status, body: "", contentType: "", retryAfterMs: undefined } as unknown as PodAnswer;
  };
  const context = { cluster: clock, pods: { send }, reporter: { health() {} } } as unknown as Context;
  return { context, asked };
}

const stateOf = (members: readonly Member[], name: string) => members.find((one) => one.name === name)?.drain;

const shortly = (asked: readonly string[]) => asked.map((line) => line.replace(/\..*/, ""));

test("three pods are asked by their own DNS names, those of the same StatefulSet first, and the path names the pod in question", async () => {
  const on = made();
  on.ask("a", 2);
  const { context, asked } = contextOf();
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-2");
  const path = ":8080/drained?pod=db-a-2";
  assert.deepEqual(asked, [`db-a-0.nodes-a${path}`, `db-a-1.nodes-a${path}`, `db-b-0.nodes-b${path}`]);
  const agreeing = ["db-a-0", "db-a-1", "db-b-0"];
  assert.deepEqual(stateOf(members, "db-a-2"), {
    pod: "db-a-0",
    health: { state: "good", detail: "HTTP 200" },
    agreeing,
  });
  const [member] = members.filter(({ name }) => name === "db-a-2") as [Member];
  assert.equal(describeAgreeing(member), "db-a-0, db-a-1, db-b-0 say that the data of db-a-2 is not needed");
  assert.equal(stateOf(members, "db-a-1"), undefined, "the function asks only about db-a-2");
});

test("pods that stay are asked before pods of their own zone that are to go, even if they are in other zones", async () => {
  const on = made();
  on.ask("a", 0, 1, 2);
  const { context, asked } = contextOf({ "db-b-0": 503 });
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-2");
  assert.deepEqual(shortly(asked), ["db-b-0", "db-b-1", "db-b-2"]);
  assert.equal(stateOf(members, "db-a-2")?.health.state, "bad");
});

test("a bad or missing answer of any of three witnesses keeps a volume", async () => {
  const decided = async (answers: Readonly<Record<string, number | "silent">>) => {
    const members = await withDrainAnswers(contextOf(answers).context, "me", key, made().members, () => true);
    const [member] = members.filter(({ name }) => name === "db-a-2") as [Member];
    return [whyNeeded(member)?.guard, member.drain?.pod];
  };
  assert.deepEqual(await decided({}), [undefined, "db-a-0"]);
  for (const witness of ["db-a-0", "db-a-1", "db-b-0"]) {
    assert.deepEqual(await decided({ [witness]: 503 }), ["drain-refused", witness]);
    assert.deepEqual(await decided({ [witness]: "silent" }), ["drain-unknown", witness]);
  }
  assert.deepEqual(
    await decided({ "db-a-0": "silent", "db-b-0": 503 }),
    ["drain-refused", "db-b-0"],
    "a bad answer is the better reason",
  );
});

test("with drain-witnesses 1 the first answer counts, and any other number is malformed", async () => {
  const on = made(3, { "drain-witnesses": "1" });
  const { context, asked } = contextOf({ "db-a-0": "silent", "db-b-0": 503 });
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-2");
  assert.deepEqual(shortly(asked), ["db-a-0", "db-a-1"]);
  const [member] = members.filter(({ name }) => name === "db-a-2") as [Member];
  assert.equal(whyNeeded(member), undefined);
  const annotations = "db-a-1 alone says that the data of db-a-2 is not needed: sluice.dev/drain-witnesses is 1";
  assert.equal(describeAgreeing(member), annotations);
  for (const text of ["0", "2", "all"]) {
    const [wrong] = made(3, { "drain-witnesses": text }).members as [Member];
    assert.equal(whyNeeded(wrong)?.guard, "drain-question-malformed", text);
  }
});

test("with drain-witnesses 1 a silent pod is followed by the next, three at most; unready and leaving pods are not asked", async () => {
  const on = made(6, { "drain-witnesses": "1" });
  on.suspend("a", 5, 30);
  const { context, asked } = contextOf({ "db-a-0": "silent", "db-a-1": 404, "db-a-2": "silent" });
  const pod = on.pods.get("db-a-3") as never as { metadata: { deletionTimestamp?: string } };
  pod.metadata.deletionTimestamp = minutesAgo(1);
  const members = await withDrainAnswers(context, "me", key, on.members, ({ name }) => name === "db-a-5");
  assert.deepEqual(shortly(asked), ["db-a-0", "db-a-1", "db-a-2"]);
  const answer = stateOf(members, "db-a-5");
  assert.deepEqual([answer?.pod, answer?.health.state], ["db-a-2", "unknown"]);
});

test("with more than sixteen members the questions take turns, so that no member waits for those with a bad answer", async () => {
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

test("without another ready pod, or without DNS names, there is no answer that the data is not needed", async () => {
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
    assert.match(stateOf(members, name)?.health.detail ?? "", /no other pod of the group is ready/);
  }
});

test("a member whose StatefulSet has no question is not asked about", async () => {
  const on = made();
  on.policy("a", { "drain-url": undefined });
  const { context, asked } = contextOf();
  await withDrainAnswers(context, "me", key, on.members, () => true);
  assert.deepEqual(new Set(asked.map((line) => line.replace(/.*=/, ""))), new Set(["db-b-0", "db-b-1", "db-b-2"]));
});

test("an Event names the pods that gave the answer, and says that a single pod decides with drain-witnesses 1", async () => {
  for (const [witnesses, annotations] of [
    [
      null,
      /VolumeDrained data-group-a-2: group-a-0, group-a-1, group-b-0 say that the data of group-a-2 is not needed$/m,
    ],
    [
      "1",
      /VolumeDrained data-group-a-2: group-a-0 alone says that .* group-a-2 is not needed: sluice\.dev\/drain-witnesses is 1$/m,
    ],
  ] as const) {
    const on = new Volumes("1s", { "drain-url": "http://:8080/{pod}", "drain-witnesses": witnesses });
    on.restart({ pods: { send: async () => ({ status: 200, body: "", contentType: "" }) as PodAnswer } });
    on.annotate(top, { suspend: "true" });
    await on.until(
      () => on.recorded(top, "suspend-state") === "Suspended",
      () => on.suspend(),
    );
    assert.match(on.events.join("\n"), annotations);
    await on.until(
      () => on.claim(top) === undefined,
      () => on.collect(),
      400,
    );
    assert.match(
      on.events.join("\n"),
      /VolumeRemovalStarted data-group-a-2: it is deleted: .* nothing uses it; group-a-0/,
    );
  }
});
