/** A new value of a trigger restarts each pod once, wherever the function is killed; an earlier one restarts nothing. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideTriggers } from "../../../../functions/advance-process-restart/trigger/decide-trigger.ts";
import { parseRestart, type RestartSettings } from "../../../../functions/shared/annotations/restart.ts";
import type { Zone } from "../../../../functions/shared/groups/zones.ts";
import type { StatefulSet } from "../../../../functions/shared/workloads/statefulsets.ts";
import { namespace, refused } from "../../shared/reconcile/harness.ts";
import { managed } from "./given.ts";
import { idKey, phaseKey, RestartStage } from "./stage.ts";

const bare = { name: "group-a", uid: "uid", resourceVersion: "1" };
const triggerKey = "sluice.dev/restart-trigger";
const reasonKey = "sluice.dev/restart-reason";
const names = [2, 1, 0].map((ordinal) => `group-a-${ordinal}`);
const [last = "", middle = ""] = names;

/** A group whose pods restart by a trigger on their StatefulSet. */
class TriggerStage extends RestartStage {
  /** The highest number of processes that were down at once. */
  mostDown = 0;

  static async of(annotations: Readonly<Record<string, string>> = {}): Promise<TriggerStage> {
    const stage = new TriggerStage(annotations);
    await stage.begun();
    // The ledger remembers what stands there.
    await stage.step();
    return stage;
  }

  trigger(value: string | null): void {
    this.world.annotate({ namespace, name: "group-a" }, { [triggerKey]: value });
  }

  override async step(): Promise<void> {
    await super.step();
    const down = names.filter((one) => this.manager(one).state !== "started").length;
    this.mostDown = Math.max(this.mostDown, down);
  }

  get starts(): readonly number[] {
    return names.map((one) => this.manager(one).starts);
  }

  get known(): string | undefined {
    return this.ledger.knownTriggers?.get("group-a")?.text;
  }

  isOver = (): boolean => this.claims.length === 0 && names.every((one) => this.phaseOf(one) === undefined);

  async quiet(steps = 5): Promise<void> {
    for (let step = 0; step < steps; step++) await this.step();
  }

  /** Until all have restarted so often, and nothing of it is left. */
  async restarted(starts: readonly number[], what = "the end"): Promise<void> {
    await this.until(what, () => this.isOver() && `${this.starts}` === `${starts}`, 60);
    await this.quiet();
    assert.deepEqual([this.starts, this.isOver()], [starts, true], what);
  }
}

/** A zone of three pods, in these phases, whose StatefulSet has a trigger; the ledger remembers an empty one for it. */
function triggered(name: string, text: string | undefined, phases: readonly (string | undefined)[] = []) {
  const { workload, pods, ...zone } = managed(name, "●●●") as ReturnType<typeof managed> & { workload: StatefulSet };
  const trigger = text === undefined ? {} : { trigger: { text, isCoordinated: text.startsWith("coordinated:") } };
  const restart = { ...(workload.restart as RestartSettings), ...trigger };
  const shown = pods.map((pod, index) => {
    const phase = phases[index];
    const isFailed = phase === "failed";
    return phase === undefined
      ? pod
      : { ...pod, restart: { text: phase, phase: isFailed ? "failed" : undefined, id: undefined } };
  });
  return { ...zone, workload: { ...workload, restart }, pods: shown } as Zone<StatefulSet>;
}

const knownOf = (...zones: readonly Zone<StatefulSet>[]) =>
  new Map(zones.map(({ workload: { name, uid } }) => [name, { uid, text: "" }]));

const marksOf = ({ targets }: ReturnType<typeof decideTriggers>) =>
  targets.flatMap(({ pods, phase }) => pods.map(({ name }) => `${name} ${phase}`)).sort();

test("a coordinated trigger on one StatefulSet asks the pods of the whole group, and those that wait for their turn as well", () => {
  const [a, b] = [
    triggered("a", "coordinated:1"),
    triggered("b", undefined, ["schedule-rolling", "failed", "schedule"]),
  ];
  const decided = decideTriggers([a, b], knownOf(a, b));
  const marks = ["a-0", "a-1", "a-2", "b-0", "b-2"].map((one) => `${one} schedule-coordinated`);
  assert.deepEqual([marksOf(decided), decided.known, decided.blocked], [marks, undefined, undefined]);
});

test("a trigger in turn asks the pods of its StatefulSet that are in no phase, and not those that have failed or go", () => {
  const [a, b] = [triggered("a", "1", ["schedule", "failed"]), triggered("b", undefined)];
  assert.deepEqual(marksOf(decideTriggers([a, b], knownOf(a, b))), ["a-2 schedule-rolling"]);
  const going = { ...a, pods: a.pods.map((pod) => ({ ...pod, terminating: true })) };
  const { targets, known } = decideTriggers([going, b], knownOf(a, b));
  assert.deepEqual([targets, known?.get("a")?.text, known?.get("b")?.text], [[], "1", ""]);
});

test("a coordinated trigger in a group with a StatefulSet without a process manager asks no pod, and is not remembered", () => {
  const [a, b] = [triggered("a", "coordinated:1"), triggered("b", undefined)];
  const unmanaged = { ...b, workload: { ...b.workload, restart: undefined } } as unknown as Zone<StatefulSet>;
  const { targets, blocked, known } = decideTriggers([a, unmanaged], knownOf(a));
  assert.deepEqual([targets, blocked?.guard, known], [[], "restart-manager-missing", undefined]);
});

test("of two triggers at once the coordinated one asks first, and both are remembered when all are asked", () => {
  const [a, b] = [triggered("a", "1"), triggered("b", "coordinated:1")];
  const first = marksOf(decideTriggers([a, b], knownOf(a, b)));
  assert.deepEqual(
    [first.length, new Set(first.map((one) => one.split(" ")[1]))],
    [6, new Set(["schedule-coordinated"])],
  );
  const waiting = ["schedule-coordinated", "schedule-coordinated", "schedule-coordinated"];
  const [later, other] = [triggered("a", "1", waiting), triggered("b", "coordinated:1", waiting)];
  const { targets, known } = decideTriggers([later, other], knownOf(a, b));
  assert.deepEqual([targets, known?.get("a")?.text, known?.get("b")?.text], [[], "1", "coordinated:1"]);
});

test("a trigger whose pods are all asked does not keep another one from its own, and a StatefulSet that is being deleted has none", () => {
  const waiting = ["schedule-rolling", "schedule-rolling", "schedule-rolling"];
  const [a, b] = [triggered("a", "1", waiting), triggered("b", "1", waiting.slice(1))];
  assert.deepEqual(marksOf(decideTriggers([a, b], knownOf(a, b))), ["b-2 schedule-rolling"]);
  const deleted = { ...b, workload: { ...b.workload, deleting: true } };
  assert.deepEqual(decideTriggers([a, deleted], knownOf(a, b)).targets, []);
});

test("restart-manager-missing: the first StatefulSet without a process manager is named, with what is wrong there, and nothing is remembered", () => {
  const going = (zone: Zone<StatefulSet>) => ({
    ...zone,
    pods: zone.pods.map((pod) => ({ ...pod, terminating: true })),
  });
  const without = (name: string, malformed: readonly { readonly message: string }[]) => {
    const { workload, ...zone } = triggered(name, undefined);
    return going({ ...zone, workload: { ...workload, restart: { manager: undefined, malformed } } } as never);
  };
  const [a, b] = [going(triggered("a", "coordinated:1")), going(triggered("b", "coordinated:2"))];
  const [c, d] = [without("c", [{ message: "no port" }, { message: "another" }]), without("d", [])];
  const { blocked, known } = decideTriggers([a, b, c, d], knownOf(a, b, c, d));
  assert.equal(known, undefined);
  assert.match(blocked?.message ?? "", /restart-trigger of a restarts no pod of c in place: no port$/);
});

test("a StatefulSet that was made anew is remembered by its own uid, though it has no trigger either", () => {
  const a = triggered("a", undefined);
  const { known } = decideTriggers([a], new Map([["a", { uid: "of-an-earlier-one", text: "" }]]));
  assert.deepEqual(known?.get("a"), { uid: a.workload.uid, text: "" });
  assert.equal(decideTriggers([a], knownOf(a)).known, undefined);
});

test("a new value restarts the pods one after the other, once, and what stands in the manifest stays as it is", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("2026-11-29");
  await stage.until("the phases", () => names.every((one) => stage.phaseOf(one) === "schedule-rolling"));
  assert.equal(stage.pod(last).metadata.annotations?.[reasonKey], "trigger 2026-11-29");
  await stage.restarted([2, 2, 2]);
  assert.deepEqual([stage.mostDown, stage.known], [1, "2026-11-29"]);
  const { annotations = {} } = stage.world.store.find("statefulsets", { namespace, name: "group-a" })?.metadata ?? {};
  assert.deepEqual([annotations[triggerKey], annotations[phaseKey]], ["2026-11-29", undefined]);
  const events = stage.events.filter((one) => one.startsWith("RestartTriggered"));
  assert.deepEqual(events, [
    `RestartTriggered group-a: ${triggerKey} has the new value 2026-11-29: schedule-rolling is written on 3 of its pods`,
  ]);
  stage.trigger("2026-11-30");
  await stage.restarted([3, 3, 3], "the end of the second one");
});

test("coordinated: before the value, all processes of the group are down before the first one starts", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("coordinated: 7");
  await stage.restarted([2, 2, 2]);
  assert.deepEqual([stage.mostDown, stage.known], [3, "coordinated: 7"]);
});

test("a value that stands there when Sluice first reads the StatefulSet restarts nothing, and the next one does", async () => {
  const stage = await TriggerStage.of({ [triggerKey]: "1" });
  await stage.quiet();
  assert.deepEqual([stage.starts, stage.known, stage.phaseOf(last)], [[1, 1, 1], "1", undefined]);
  stage.trigger("2");
  await stage.restarted([2, 2, 2]);
});

test("a StatefulSet that is made anew with another value than the ledger remembers restarts nothing", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("1");
  await stage.restarted([2, 2, 2]);
  const { knownTriggers: known = new Map() } = stage.ledger;
  assert.equal(known.get("group-a")?.text, "1");
  const zone = triggered("group-a", "2");
  const { targets, known: next } = decideTriggers([zone], new Map([["group-a", { uid: "earlier", text: "1" }]]));
  assert.deepEqual([targets, next?.get("group-a")], [[], { uid: zone.workload.uid, text: "2" }]);
});

test("a trigger that is taken off, and written again with the same value, restarts nothing", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("1");
  await stage.restarted([2, 2, 2]);
  stage.trigger(null);
  await stage.quiet();
  stage.trigger("1");
  await stage.quiet();
  assert.deepEqual([stage.starts, stage.known], [[2, 2, 2], "1"]);
});

for (const value of ["1", "coordinated:1"])
  test(`a function that is killed after any of its writes leaves a trigger ${value} that the next one ends, with one new process for each pod`, async () => {
    const counted = await TriggerStage.of();
    const before = counted.calls.length;
    counted.trigger(value);
    await counted.restarted([2, 2, 2]);
    const writes = counted.calls.slice(before).filter(({ verb }) => verb === "patch").length;
    assert.ok(writes >= 10, `${writes} writes`);
    for (let killedAfter = 0; killedAfter <= writes; killedAfter++) {
      const stage = await TriggerStage.of();
      stage.trigger(value);
      let seen = 0;
      stage.interfere = ({ verb }) => {
        if (verb === "patch" && ++seen > killedAfter) throw new Error("killed");
      };
      for (let steps = 0; steps < 40 && seen <= killedAfter; steps++) await stage.step().catch(() => {});
      stage.interfere = () => {};
      stage.anew();
      await stage.restarted([2, 2, 2], `the end after write ${killedAfter}`);
    }
  });

test("a pod that waits because of a person is asked once, and one whose files were to change restarts though they change back", async () => {
  const stage = await TriggerStage.of();
  stage.write(last, "schedule-rolling");
  stage.world.annotate(
    { namespace, name: middle },
    { [phaseKey]: "schedule-rolling", [reasonKey]: "drift rolling 1:0" },
    "pods",
  );
  stage.trigger("1");
  await stage.until("the reason", () => stage.pod(middle).metadata.annotations?.[reasonKey] === "trigger 1");
  assert.equal(stage.pod(last).metadata.annotations?.[reasonKey], undefined, "it restarts in any case");
  await stage.restarted([2, 2, 2]);
});

test("a pod that is taken out of the restart is not asked again for the same value", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("1");
  await stage.until("the phases", () => names.every((one) => stage.phaseOf(one) !== undefined));
  for (const one of names) stage.write(one, null);
  await stage.quiet(8);
  assert.deepEqual([stage.phaseOf(last), stage.phaseOf(middle)], [undefined, undefined]);
  assert.ok(stage.starts.filter((starts) => starts > 1).length <= 1, "the one that had begun ends");
});

test("restart-manager-missing: a trigger on a StatefulSet without a process manager writes on no pod, and is obeyed once it has one", async () => {
  const stage = await TriggerStage.of();
  stage.world.annotate({ namespace, name: "group-a" }, { "sluice.dev/restart-manager-secret": null });
  stage.trigger("1");
  await stage.quiet(3);
  assert.deepEqual([stage.guard, stage.phaseOf(last), stage.known], ["restart-manager-missing", undefined, ""]);
  stage.world.annotate({ namespace, name: "group-a" }, { "sluice.dev/restart-manager-secret": "token" });
  await stage.restarted([2, 2, 2]);
});

test("a trigger that is no value restarts nothing, and an Event on the StatefulSet says what to write", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("coordinated:");
  await stage.quiet();
  assert.deepEqual([stage.starts, stage.known], [[1, 1, 1], ""]);
  assert.ok(
    stage.events.some((one) => one.startsWith("MalformedAnnotation group-a")),
    `${stage.events}`,
  );
});

test("while one pod refuses its phase no process restarts, an Event says why, and later each restarts once", async () => {
  const stage = await TriggerStage.of();
  stage.interfere = ({ verb, resource, given }) => {
    const isOfMiddle = JSON.stringify(given).includes(`"${middle}"`);
    if (verb === "patch" && resource === "pods" && isOfMiddle) throw refused(422);
  };
  stage.trigger("1");
  await stage.quiet(8);
  assert.deepEqual([stage.starts, stage.known], [[1, 1, 1], ""]);
  assert.ok(
    stage.events.some((one) => one.startsWith("DeleteRefused group-a")),
    `${stage.events}`,
  );
  stage.interfere = () => {};
  await stage.restarted([2, 2, 2]);
  assert.equal(stage.pod(last).metadata.annotations?.[idKey], undefined);
});

for (const text of ["rubbish", "[]", '{"group-a":{"uid":"","text":"1"}}', '{"group-a":{"uid":"u","text":1}}'])
  test(`what a ledger remembers as ${text} is unknown, so that the trigger of now restarts nothing, and the next one does`, async () => {
    const stage = await TriggerStage.of({ [triggerKey]: "2" });
    stage.writeLedger({ "sluice.dev/restart-triggers": text });
    stage.anew();
    await stage.until("the memory", () => stage.known === "2");
    await stage.quiet();
    assert.deepEqual(stage.starts, [1, 1, 1]);
    stage.trigger("3");
    await stage.restarted([2, 2, 2]);
  });

test("a trigger has 1 to 253 characters, blanks around it do not count, and a new one after coordinated: is another value", () => {
  const triggerOf = (value: string) => parseRestart({ ...bare, annotations: { [triggerKey]: value } })?.trigger;
  assert.deepEqual(triggerOf(" 7 "), { text: "7", isCoordinated: false });
  assert.deepEqual(triggerOf("coordinated:7"), { text: "coordinated:7", isCoordinated: true });
  assert.equal(triggerOf("x".repeat(253))?.text.length, 253);
  for (const wrong of ["", "  ", "coordinated:", "coordinated: ", "x".repeat(254)])
    assert.equal(triggerOf(wrong), undefined);
});

test("a restart beside a trigger rests on the pods that were listed for it: nothing is listed after a process manager was asked", async () => {
  const stage = await TriggerStage.of();
  stage.trigger("1");
  let askedAt: number | undefined;
  const answer = stage.answer.bind(stage);
  stage.answer = (...call) => {
    askedAt ??= stage.calls.length;
    return answer(...call);
  };
  const isBegun = () => stage.claims.length > 0;
  for (let step = 0; step < 20 && !isBegun(); step++) {
    askedAt = undefined;
    stage.forget();
    await stage.step();
  }
  const listed = stage.calls.slice(askedAt ?? assert.fail("no process manager was asked"));
  assert.deepEqual([isBegun(), listed.filter(({ verb }) => verb === "list")], [true, []]);
});
