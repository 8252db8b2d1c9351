/** Restarts of many processes at once: none starts before all are down, wherever the function is killed. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { blockedTogether } from "../../../../functions/advance-process-restart/coordinated/decide-begin.ts";
import { decideTogether } from "../../../../functions/advance-process-restart/coordinated/decide-together.ts";
import type { KnownClaim } from "../../../../functions/shared/ledger/claim.ts";
import { namespace } from "../../shared/reconcile/harness.ts";
import { managed } from "./given.ts";
import { idKey, RestartStage, sumOf } from "./stage.ts";

const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);
const [last = "", middle = "", firstPod = ""] = names;

/** A group all of whose pods are to restart together. Fails at the first process that starts while another one is not down. */
class TogetherStage extends RestartStage {
  /** The highest number of processes that were down at once. */
  mostDown = 0;

  writeAll(phase: string | null): void {
    for (const one of names) this.write(one, phase);
  }

  override async step(): Promise<void> {
    const before = this.all.map(({ starts }) => starts);
    await super.step();
    const down = this.all.filter(({ state }) => state !== "started").length;
    this.mostDown = Math.max(this.mostDown, down);
    const hasBegun = this.all.some(({ starts }, index) => starts > (before[index] ?? 0));
    if (hasBegun && this.isBarrierKept) assert.equal(this.mostDown, this.all.length, "one starts before all are down");
  }

  /** False where not all pods are members. */
  isBarrierKept = true;

  get all() {
    return names.map((one) => this.manager(one));
  }

  isOver = (): boolean => names.every((one) => this.phaseOf(one) === undefined);

  async ended(what = "the end", most = 60): Promise<void> {
    await this.until(what, this.isOver, most);
  }
}

async function stageOf(annotations: Readonly<Record<string, string>> = {}): Promise<TogetherStage> {
  const stage = new TogetherStage(annotations);
  await stage.begun();
  return stage;
}

test("all processes with the phase are down before the first one starts, each starts once, and nothing is left", async () => {
  const stage = await stageOf();
  for (const one of stage.all) one.mounted = sumOf(2);
  stage.writeAll("schedule-coordinated");
  await stage.until("the claim", () => stage.claims.length > 0);
  const [claim] = stage.claims;
  assert.deepEqual(
    [claim?.mode, claim?.terms, claim?.phase, Object.keys(claim?.processes ?? {}).length],
    ["coordinated", "announced", "preparing", 3],
  );
  await stage.until("the stop", () => stage.phaseOf(middle) === "stop-coordinated");
  await stage.until("the start", () => stage.phaseOf(middle) === "start-coordinated");
  await stage.ended();
  assert.equal(stage.mostDown, 3);
  for (const one of stage.all) {
    assert.deepEqual(one.calls, ["stop 1: 202", "start 2: 202"]);
    assert.deepEqual([one.starts, one.running], [2, sumOf(2)]);
  }
  assert.deepEqual(stage.claims, []);
  for (const one of names) assert.equal(stage.pod(one).metadata.annotations?.[idKey], undefined);
});

test("a function that is killed after any of its writes leaves a restart that the next one ends, with one new process for each pod", async () => {
  const counted = await stageOf();
  counted.writeAll("schedule-coordinated");
  await counted.ended();
  const writes = counted.calls.filter(({ verb }) => verb === "patch").length;
  assert.ok(writes >= 12, `${writes} writes`);
  for (let killedAfter = 1; killedAfter <= writes; killedAfter++) {
    const stage = await stageOf();
    stage.writeAll("schedule-coordinated");
    let seen = 0;
    stage.interfere = ({ verb }) => {
      if (verb === "patch" && ++seen > killedAfter) throw new Error("killed");
    };
    for (let steps = 0; steps < 30 && seen <= killedAfter; steps++) await stage.step().catch(() => {});
    stage.interfere = () => {};
    stage.anew();
    await stage.ended(`the end after write ${killedAfter}`);
    const starts = stage.all.map((one) => one.starts);
    assert.deepEqual([starts, stage.claims, stage.mostDown], [[2, 2, 2], [], 3], `killed after write ${killedAfter}`);
    const ids = stage.world.store.list("statefulsets").items.map(({ metadata }) => metadata.annotations?.[idKey]);
    assert.deepEqual(new Set(ids), new Set([undefined]), `killed after write ${killedAfter}`);
  }
});

test("restart-gathering: a pod that gets the phase 8 s after another one is a member", async () => {
  const stage = await stageOf();
  stage.write(last, "schedule-coordinated");
  for (let seconds = 0; seconds < 8; seconds++) await stage.step();
  assert.deepEqual([stage.guard, stage.claims], ["restart-gathering", []]);
  stage.write(middle, "schedule-coordinated");
  await stage.until("the claim", () => stage.claims.length > 0);
  assert.deepEqual(Object.keys(stage.claims[0]?.processes ?? {}).sort(), [middle, last]);
  stage.isBarrierKept = false;
  await stage.ended();
  assert.deepEqual([stage.manager(firstPod).starts, stage.manager(firstPod).calls], [1, []], "no member");
});

test("manager-silent: while a member does not answer no process starts, and without its phase it is out of the restart", async () => {
  const stage = await stageOf();
  stage.writeAll("schedule-coordinated");
  await stage.until("the stop", () => stage.all.every(({ state }) => state === "stopped" || state === "stopping"));
  stage.silent.add(middle);
  for (let steps = 0; steps < 12; steps++) await stage.step();
  assert.deepEqual([stage.guard, stage.manager(last).state], ["manager-silent", "stopped"]);
  assert.match(stage.verdicts.at(-1)?.message ?? "", /nothing starts before: take its phase off/);
  stage.isBarrierKept = false;
  stage.write(middle, null);
  await stage.ended();
  assert.deepEqual([stage.manager(last).starts, stage.manager(firstPod).starts, stage.claims], [2, 2, []]);
});

test("cancel on one pod before all are down withdraws the restart for all, and no process is left down", async () => {
  const stage = await stageOf();
  stage.manager(last).ends = false;
  stage.writeAll("schedule-coordinated");
  await stage.until("the stop", () => stage.manager(middle).state === "stopped");
  stage.isBarrierKept = false;
  stage.write(last, "cancel");
  stage.manager(last).ends = true;
  await stage.ended();
  assert.deepEqual([stage.claims, stage.all.map(({ state }) => state)], [[], ["started", "started", "started"]]);
});

test("processes that fail to start are failed, and no claim is left", async () => {
  const stage = await stageOf();
  for (const one of stage.all) one.isWhole = false;
  stage.writeAll("schedule-coordinated");
  await stage.until("the failure", () => names.every((one) => stage.phaseOf(one) === "failed"), 60);
  assert.deepEqual(stage.claims, []);
  for (const one of stage.all) one.isWhole = true;
  stage.writeAll("schedule-coordinated");
  await stage.ended();
  assert.deepEqual(
    stage.all.map(({ state }) => state),
    ["started", "started", "started"],
  );
});

test("restart-beside-others: all processes stop only after another restart is over", async () => {
  const stage = await stageOf();
  stage.isBarrierKept = false;
  stage.write(last, "schedule");
  await stage.until("the stop", () => stage.phaseOf(last) === "stop");
  for (const one of [middle, firstPod]) stage.write(one, "schedule-coordinated");
  await stage.until("the end of the first", () => stage.phaseOf(last) === undefined);
  assert.deepEqual([stage.manager(middle).calls, stage.manager(firstPod).calls], [[], []]);
  await stage.ended();
  assert.deepEqual(
    stage.all.map(({ starts }) => starts),
    [2, 2, 2],
  );
});

test("a phase on a StatefulSet restarts all of its processes together, and is taken off", async () => {
  const stage = await stageOf();
  stage.writeToAll("schedule-coordinated");
  await stage.until("the fan-out", () => stage.phaseOfAll === undefined);
  assert.deepEqual(
    names.map((one) => stage.phaseOf(one)),
    names.map(() => "schedule-coordinated"),
  );
  await stage.ended();
  assert.deepEqual([stage.mostDown, stage.all.map(({ starts }) => starts)], [3, [2, 2, 2]]);
});

test("restart-beside-others: nothing is claimed while another claim or a reservation stands, and nothing before 10 s", () => {
  const zones = [managed("a", "nnn")];
  const together = { zones, candidates: [], claims: [], gatheredMs: 10_000 } as const;
  assert.equal(blockedTogether(together), undefined);
  assert.equal(blockedTogether({ ...together, gatheredMs: 9_999 })?.guard, "restart-gathering");
  const foreign = { id: "f", kind: "later", zone: "a", by: "b", line: "{}", isKnown: false } as const;
  assert.equal(blockedTogether({ ...together, claims: [foreign] })?.guard, "restart-beside-others");
  const reserved = zones.map((zone) => ({ ...zone, reserved: new Map([[1, {}]]) as never }));
  assert.equal(blockedTogether({ ...together, zones: reserved })?.guard, "restart-beside-others");
});

test("members-elsewhere names a node that is no pod, and each StatefulSet may do without the rule", () => {
  const refusal = (unchecked: readonly "members-elsewhere"[][], elsewhere?: readonly string[]) => {
    const zones = unchecked.map((rules, index) => managed("ab"[index] ?? "", "nnn", { unchecked: new Set(rules) }));
    const { guard, message } =
      blockedTogether({ zones, candidates: [], claims: [], gatheredMs: 10_000, ...(elsewhere && { elsewhere }) }) ?? {};
    return guard === undefined ? "" : `${guard}: ${message}`;
  };
  const both = "members-elsewhere: m-1 and 1 more would run while all others are down";
  assert.ok(refusal([[], []], ["m-1", "m-2"]).startsWith(both));
  assert.match(refusal([[], []], ["m-1"]), /^members-elsewhere: m-1 would run .*restart-unchecked of a$/);
  assert.match(refusal([["members-elsewhere"], []], ["m-1"]), /restart-unchecked of b$/);
  const off = ["members-elsewhere"] as const;
  assert.equal(refusal([[...off], [...off]], ["m-1"]), "");
  assert.deepEqual([refusal([[], []], []), refusal([[], []])], ["", ""]);
});

test("restart-manager-missing: no process of a group stops together with others while one StatefulSet names no process manager", () => {
  const { restart: _, ...workload } = managed("b", "nnn").workload;
  const zones = [managed("a", "nnn"), { ...managed("b", "nnn"), workload }];
  const blocked = blockedTogether({ zones, candidates: [], claims: [], gatheredMs: 10_000 });
  assert.equal(blocked?.guard, "restart-manager-missing");
});

test("no process starts while a member stops slowly, and the slow process is killed after its grace period", async () => {
  const stage = await stageOf();
  stage.manager(last).ends = false;
  stage.writeAll("schedule-coordinated");
  await stage.until("the kill", () => stage.manager(last).calls.some((call) => call.startsWith("kill")), 90);
  assert.deepEqual([stage.manager(middle).state, stage.manager(firstPod).starts], ["killed", 1]);
  await stage.ended();
  assert.deepEqual([stage.mostDown, stage.all.map(({ starts }) => starts)], [3, [2, 2, 2]]);
});

test("a pod that is made anew before all are down is stopped in its place, and starts with the others", async () => {
  const stage = await stageOf();
  stage.isBarrierKept = false;
  const stubborn = stage.manager(last);
  stubborn.ends = false;
  stage.writeAll("schedule-coordinated");
  await stage.until("the stop", () => stage.manager(middle).state === "stopped");
  stage.world.store.delete("pods", { namespace, name: middle });
  await stage.until(
    "the stop of the new pod",
    () => stage.claims[0]?.uids?.[middle] === stage.pod(middle).metadata.uid,
  );
  await stage.until("its end", () => stage.manager(middle).state === "stopped");
  assert.deepEqual([stage.phaseOf(middle), stage.manager(last).state], ["stop-coordinated", "stopping"]);
  stubborn.ends = true;
  await stage.ended();
  assert.deepEqual(stage.manager(middle).calls, ["stop 2: 202", "start 3: 202"]);
  assert.deepEqual([stage.all.map(({ starts }) => starts), stage.claims], [[2, 2, 2], []]);
});

test("a pod that is made anew shows the restart before the claims name it: its missing phase withdraws nothing", () => {
  const { workload: statefulSet, pods } = managed("a", "nn");
  const shown = { text: "stop-coordinated", phase: "stop-coordinated", id: "together" } as const;
  const uids = Object.fromEntries(pods.map(({ name, uid }) => [name, uid]));
  const claim = { id: "together/a", zone: "a", phase: "stopping", epoch: 1, stampMs: 0, uids } as unknown as KnownClaim;
  const members = pods.map((pod) => {
    const answer = { podUid: pod.uid, state: "stopped", lastEpoch: 1, restartId: "together" } as never;
    return { claim, statefulSet, answer, pod: { ...pod, restart: shown } };
  });
  const [old, other] = members;
  assert.ok(old !== undefined && other !== undefined);
  const [{ restart: _, ...bare }, fresh] = [old.pod, { podUid: "new", state: "started", lastEpoch: 0 } as never];
  const decided = (pod: object) =>
    decideTogether({
      ...{ claims: [claim], missing: undefined, isAnchored: true, nowMs: 1_000 },
      members: [{ ...old, pod: { ...pod, uid: "new" } as never, answer: fresh }, other],
    });
  assert.deepEqual(decided(bare).kind, "show");
  const named = decided(old.pod);
  assert.deepEqual([named.kind, "phase" in named && named.phase], ["move", "stopping"]);
});
