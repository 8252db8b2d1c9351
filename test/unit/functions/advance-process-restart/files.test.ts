/** The files of a restart: copied before its claim, and waited for until the process manager has them. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { blockedByFiles, isMended } from "../../../../functions/advance-process-restart/decide-files.ts";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { sumOf } from "../../../../functions/advance-process-restart/process-manager/kept-files.ts";
import { ClusterError, type SecretObject } from "../../../../functions/shared/kubernetes/cluster.ts";
import { pod as podOf } from "../advance-zone-rollout/given.ts";
import { RestartStage } from "./stage.ts";

const namespace = "db";
const pod = "group-a-1";
const named = { "sluice.dev/restart-config": "wanted", "sluice.dev/restart-mounted": "mounted" };
const encoded = (files: Readonly<Record<string, string | Buffer>>) =>
  Object.fromEntries(Object.entries(files).map(([name, bytes]) => [name, Buffer.from(bytes).toString("base64")]));
const old = { "db.yml": "first", gone: "x" };
const wanted = { "db.yml": "second", "key.bin": Buffer.from([0, 255, 10, 13]) };
const [oldSum, wantedSum] = [old, wanted].map((files) => sumOfSecret({ data: encoded(files) })) as [string, string];

/** A stage with both Secrets, whose pods have the old files. `wanted`: undefined for no such Secret. */
async function begun(fields: Partial<SecretObject> = {}, expected: object | undefined = wanted): Promise<RestartStage> {
  const stage = await new RestartStage(named).begun();
  const add = (name: string, data: object, more: object = {}) =>
    stage.world.store.create("secrets", namespace, { metadata: { name }, data, ...more } as never);
  // Only what a test writes restarts.
  const metadata = { name: "wanted", annotations: { "sluice.dev/restart-mode": "by-hand" } };
  if (expected !== undefined) add("wanted", encoded(expected as typeof wanted), { metadata });
  add("mounted", encoded(old), fields);
  for (const ordinal of [0, 1, 2]) bring(stage, `group-a-${ordinal}`, oldSum);
  return stage;
}

function bring(stage: RestartStage, name: string, sum: string): void {
  const manager = stage.manager(name);
  manager.mounted = sum;
}

const mountedIn = (stage: RestartStage) => stage.world.store.find("secrets", { namespace, name: "mounted" });
const lastMessage = (stage: RestartStage) => stage.verdicts.at(-1)?.message ?? "";

test("a Secret has the sum that the process manager reports of its files, whatever their bytes", () => {
  const files = new Map(Object.entries(wanted).map(([name, bytes]) => [name, Buffer.from(bytes)]));
  assert.equal(wantedSum, sumOf(files));
  assert.equal(sumOfSecret({}), sumOf(new Map()));
});

test("before the claim the mounted Secret gets the expected files, all of them and no other, and the StatefulSet owns it", async () => {
  const stage = await begun();
  stage.write(pod, "schedule");
  await stage.until("the copy", () => mountedIn(stage)?.data?.["key.bin"] !== undefined);
  assert.deepEqual(mountedIn(stage)?.data, encoded(wanted));
  const [owner] = mountedIn(stage)?.metadata.ownerReferences ?? [];
  assert.deepEqual([owner?.kind, owner?.name], ["StatefulSet", "group-a"]);
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.claims], ["config-coming", []], "nothing is down before the kubelet has them");
  bring(stage, pod, wantedSum);
  await stage.until("the claim", () => stage.claims.length > 0);
  assert.equal(stage.claims[0]?.sum, wantedSum);
  await stage.until("the end", () => stage.phaseOf(pod) === undefined);
  assert.deepEqual([stage.manager(pod).running, stage.manager(pod).starts], [wantedSum, 2]);
});

test("config-not-there: files that have not come within 3 minutes are reported with both sums", async () => {
  const stage = await begun();
  stage.write(pod, "schedule-rolling");
  await stage.until("the copy", () => mountedIn(stage)?.data?.["key.bin"] !== undefined);
  await stage.step();
  assert.equal(stage.guard, "config-coming");
  await stage.goOn(180_000);
  await stage.step();
  assert.equal(stage.guard, "config-not-there");
  assert.ok([wantedSum, oldSum].every((sum) => lastMessage(stage).includes(sum)));
});

test("restart-config-missing: without the expected Secret, or with an empty one, nothing restarts", async () => {
  for (const expected of [undefined, {}]) {
    const stage = await new RestartStage(named).begun();
    if (expected !== undefined)
      stage.world.store.create("secrets", namespace, { metadata: { name: "wanted" }, data: {} } as never);
    stage.world.store.create("secrets", namespace, { metadata: { name: "mounted" }, data: encoded(old) } as never);
    stage.write(pod, "schedule");
    await stage.step();
    assert.deepEqual([stage.guard, stage.claims], ["restart-config-missing", []]);
    assert.match(lastMessage(stage), /Secret wanted/);
  }
});

test("restart-config-refused: an immutable Secret, one without a Role, and one that is too large are named", async () => {
  const immutable = await begun({ immutable: true });
  const forbidden = await begun();
  const large = await begun();
  const refuse = (stage: RestartStage, verb: string, code: number, message: string) => {
    stage.interfere = (call) => {
      if (call.verb === verb && call.resource === "secrets")
        throw new ClusterError({ code, reason: "Refused", message, verb, resource: "secrets" });
    };
  };
  refuse(forbidden, "get", 403, 'secrets "wanted" is forbidden: User "sluice" cannot get resource "secrets"');
  refuse(large, "patch", 422, "Too long: must have at most 1048576 bytes");
  const cases = [
    [immutable, /mounted, which is immutable/],
    [forbidden, /lacks the right to get secrets: .*; write a Role with get on the Secrets wanted and mounted/],
    [large, /cannot be copied into mounted: Too long/],
  ] as const;
  for (const [stage, message] of cases) {
    stage.write(pod, "schedule");
    for (let steps = 0; steps < 3; steps++) await stage.step();
    assert.deepEqual([stage.guard, stage.claims], ["restart-config-refused", []], String(message));
    assert.match(lastMessage(stage), message);
    assert.deepEqual(mountedIn(stage)?.data, encoded(old));
  }
});

test("a copy that was refused for want of a Role is made once the Role is there, though neither Secret changes", async () => {
  const stage = await begun();
  let refusals = 0;
  stage.interfere = ({ verb, resource }) => {
    if (verb !== "patch" || resource !== "secrets") return;
    refusals++;
    const message = 'secrets "mounted" is forbidden: User "sluice" cannot patch resource "secrets"';
    throw new ClusterError({ code: 403, reason: "Forbidden", message, verb, resource });
  };
  stage.write(pod, "schedule");
  for (let steps = 0; steps < 5; steps++) await stage.step();
  assert.deepEqual([stage.guard, refusals], ["restart-config-refused", 1], "it is not tried again at once");
  stage.interfere = () => {};
  await stage.until("the copy", () => mountedIn(stage)?.data?.["key.bin"] !== undefined);
});

test("no mounted Secret changes while a restart of the group is under way", async () => {
  const stage = await begun({}, old);
  for (const name of [pod, "group-a-2"]) stage.write(name, "schedule");
  await stage.until("the first claim", () => stage.claims.length > 0);
  stage.world.store.patch("secrets", { namespace, name: "wanted" }, { data: encoded({ ...wanted }) } as never);
  while (stage.claims.length > 0) {
    assert.deepEqual(mountedIn(stage)?.data, encoded(old));
    await stage.step();
  }
  await stage.until("the copy", () => mountedIn(stage)?.data?.["key.bin"] !== undefined);
});

test("no mounted Secret changes where another process may have written a claim since the decision", async () => {
  const stage = await begun();
  stage.write(pod, "schedule");
  let written = 0;
  stage.interfere = ({ verb, resource }) => {
    const [lease] = stage.world.store.list("leases", { namespace }).items;
    if (verb !== "get" || resource !== "secrets" || lease === undefined) return;
    stage.world.annotate({ namespace, name: lease.metadata.name }, { written: `${++written}` }, "leases");
  };
  await stage.step();
  assert.ok(written > 0);
  assert.deepEqual(mountedIn(stage)?.data, encoded(old));
  stage.interfere = () => {};
  await stage.until("the copy", () => mountedIn(stage)?.data?.["key.bin"] !== undefined);
});

test("a pod that has failed starts again with mended files, before all others and without a person", async () => {
  const stage = await begun({}, old);
  stage.manager("group-a-0").isWhole = false;
  stage.write("group-a-0", "schedule-rolling");
  await stage.until("the failure", () => stage.phaseOf("group-a-0") === "failed");
  for (const name of [pod, "group-a-2"]) stage.write(name, "schedule-rolling");
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.claims], ["restart-failed", []]);
  stage.manager("group-a-0").isWhole = true;
  stage.world.store.patch("secrets", { namespace, name: "wanted" }, { data: encoded({ "db.yml": "mended" }) } as never);
  await stage.until("the copy", () => mountedIn(stage)?.data?.["db.yml"] === btoa("mended"));
  const sum = sumOfSecret(mountedIn(stage) as SecretObject);
  for (const ordinal of [0, 1, 2]) bring(stage, `group-a-${ordinal}`, sum);
  await stage.until("the claim", () => stage.claims.length > 0);
  assert.deepEqual(Object.keys(stage.claims[0]?.uids ?? {}), ["group-a-0"]);
  await stage.until("all ends", () => [0, 1, 2].every((one) => stage.phaseOf(`group-a-${one}`) === undefined));
  assert.equal(stage.manager("group-a-0").running, sum);
});

test("only a failed pod is mended, and only by files that it was not started with", () => {
  const failed = podOf("a-1", { restart: { text: "failed", phase: "failed", id: undefined } });
  const answer = (triedSum: string | undefined) => ({ podUid: failed.uid, triedSum }) as never;
  const same = { kind: "same", sum: "1:b" } as const;
  assert.equal(isMended(failed, same, answer("1:a")), true);
  assert.equal(isMended(failed, same, answer("1:b")), false);
  assert.equal(isMended(failed, same, answer(undefined)), false, "it is not known what it was started with");
  assert.equal(isMended(failed, undefined, answer("1:a")), false);
  assert.equal(isMended(failed, same, { silence: "none" }), false);
  assert.equal(isMended(failed, same, undefined), false);
  const none = { guard: "restart-config-missing", message: "none" };
  assert.equal(isMended(failed, { kind: "blocked", blocked: none }, answer("1:a")), false);
  assert.equal(isMended(podOf("a-1"), same, answer("1:a")), false);
});

test("a pod waits for its files until its process manager reports their sum", () => {
  const guardOf = (...[files, sum, waitedMs]: readonly [unknown, string | undefined, number]) =>
    blockedByFiles(podOf("a-1"), files as never, sum, waitedMs)?.guard;
  const same = { kind: "same", sum: "1:b" };
  assert.equal(guardOf(undefined, "1:a", 0), undefined);
  assert.equal(guardOf(same, "1:b", 500_000), undefined);
  assert.equal(guardOf(same, "1:a", 179_999), "config-coming");
  assert.equal(guardOf(same, undefined, 180_000), "config-not-there");
});

test("processes that restart together get their files under their claims, and none stops before all members have them", async () => {
  const stage = await begun();
  const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);
  for (const one of names) stage.write(one, "schedule-coordinated");
  await stage.until("the copy", () => mountedIn(stage)?.data?.["key.bin"] !== undefined);
  assert.deepEqual([stage.claims.length, stage.claims[0]?.phase], [1, "preparing"]);
  for (const one of names.slice(1)) bring(stage, one, wantedSum);
  for (let steps = 0; steps < 3; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.manager(pod).calls], ["config-coming", []]);
  for (const one of names) bring(stage, one, wantedSum);
  await stage.until("the end", () => names.every((one) => stage.phaseOf(one) === undefined));
  assert.deepEqual(
    names.map((one) => [stage.manager(one).running, stage.manager(one).starts]),
    names.map(() => [wantedSum, 2]),
  );
});

test("processes that have failed together start again together, without a person, when other files are expected", async () => {
  const stage = await begun();
  const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);
  const managers = names.map((one) => stage.manager(one));
  for (const one of names) stage.write(one, "schedule-coordinated");
  for (const one of managers) one.isWhole = false;
  for (const one of names) bring(stage, one, wantedSum);
  await stage.until("the failure", () => names.every((one) => stage.phaseOf(one) === "failed"));
  for (let steps = 0; steps < 15; steps++) await stage.step();
  assert.deepEqual([stage.claims, names.map((one) => stage.phaseOf(one))], [[], names.map(() => "failed")]);
  const mended = { "db.yml": "third" };
  const sum = sumOfSecret({ data: encoded(mended) });
  stage.world.store.patch("secrets", { namespace, name: "wanted" }, {
    data: { ...encoded(mended), "key.bin": null },
  } as never);
  for (const one of managers) one.isWhole = true;
  for (const one of names) bring(stage, one, sum);
  await stage.until("the end", () => names.every((one) => stage.phaseOf(one) === undefined), 80);
  assert.deepEqual(
    managers.map(({ running }) => running),
    names.map(() => sum),
  );
});
