/** A restart of all that is called off after its files were mounted: the processes still run with the settings of before. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { type FilesChange, whyTogether } from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import { sumOfSecret } from "../../../../functions/advance-process-restart/files.ts";
import { formatSettings, restartSettings } from "../../../../functions/shared/annotations/restart-files.ts";
import { DriftStage, dataOf, names, namespace, steps } from "./drift-stage.ts";

const [one = ""] = names;
const [before, joint, later] = ["a: 1", "cluster.name: other", "cluster.name: other\na: 2"];
const sumOf = (file: string): string => sumOfSecret({ data: dataOf(file) });
const none = [undefined, undefined, undefined];
const mounted = (stage: DriftStage) => stage.world.store.find("secrets", { namespace, name: "mounted" });
const runningIn = (stage: DriftStage) => names.map((name) => stage.manager(name).running);

/** All processes run with the files of before, and the mounted Secret has others. */
async function calledOff(mode?: string): Promise<DriftStage> {
  const stage = await DriftStage.of(mode);
  stage.expect(joint);
  if (mode === "by-hand") for (const name of names) stage.write(name, "schedule-coordinated");
  const hasCopied = () => mounted(stage)?.data?.["opensearch.yml"] === dataOf(joint)["opensearch.yml"];
  await stage.until("the copy", hasCopied);
  stage.write(one, "cancel");
  await stage.until("the end", () => stage.claims.length === 0 && stage.phases.every((phase) => phase === undefined));
  assert.deepEqual(
    runningIn(stage),
    names.map(() => sumOf(before)),
  );
  return stage;
}

test("a restart of all that is called off while its processes stop starts each with the files that it had", async () => {
  const stage = await DriftStage.of();
  stage.expect(joint);
  const isDown = () => names.some((name) => stage.manager(name).state === "stopped");
  for (let step = 0; step < 60 && !isDown(); step++) await stage.stepWithFiles();
  assert.ok(isDown());
  stage.write(one, "cancel");
  await steps(stage, 40);
  assert.deepEqual([stage.claims, stage.phases], [[], none]);
  assert.deepEqual(
    names.map((name) => [stage.manager(name).state, stage.manager(name).running]),
    names.map(() => ["started", sumOf(before)]),
  );
});

suite("after a restart of all that was called off", () => {
  test("later files restart all together, although they have the settings that are mounted", async () => {
    const stage = await calledOff();
    const starts = [...stage.starts];
    stage.expect(later);
    await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
    await steps(stage, 40);
    assert.deepEqual([stage.phases, runningIn(stage)], [none, names.map(() => sumOf(later))]);
    assert.deepEqual(
      stage.starts,
      starts.map((count) => count + 1),
    );
    stage.expect(`${later}\nb: 1`);
    await stage.until("the phases", () => stage.phases.includes("schedule-rolling"));
  });

  test("restart-config-together: no process restarts alone with files that are mounted, and with which no other runs", async () => {
    for (const phase of ["schedule", "schedule-rolling"]) {
      const stage = await calledOff("by-hand");
      const starts = [...stage.starts];
      stage.write(one, phase);
      await steps(stage, 10);
      assert.deepEqual([stage.guard, stage.claims, stage.starts], ["restart-config-together", [], starts]);
      assert.match(stage.verdicts.at(-1)?.message ?? "", /because they change cluster.name, and it could not join/);
      for (const name of names) stage.write(name, "schedule-coordinated");
      await steps(stage, 40);
      assert.deepEqual([stage.phases, runningIn(stage)], [none, names.map(() => sumOf(joint))]);
    }
  });

  test("all pods that a person wants restarted in their turn restart together", async () => {
    const stage = await calledOff();
    stage.expect(later);
    for (const name of names) stage.write(name, "schedule-rolling");
    await stage.until("the phases", () => stage.phases.every((phase) => phase === "schedule-coordinated"));
    await steps(stage, 40);
    assert.deepEqual([stage.phases, runningIn(stage)], [none, names.map(() => sumOf(later))]);
  });

  test("files that are taken back are mounted again, and nothing restarts for that", async () => {
    const stage = await calledOff();
    const starts = [...stage.starts];
    stage.expect(before);
    await stage.until("the copy", () => mounted(stage)?.data?.["opensearch.yml"] === dataOf(before)["opensearch.yml"]);
    await steps(stage, 15);
    assert.deepEqual([stage.phases, stage.starts], [none, starts]);
    stage.expect("a: 2");
    await stage.until("the phases", () => stage.phases.includes("schedule-rolling"));
  });

  test("a note that cannot be read is reported once, and counts as none", async () => {
    const stage = await calledOff();
    const key = restartSettings.key;
    const noted = { [sumOf(before)]: {}, [sumOf(joint)]: { "cluster.name": "other" } };
    assert.deepEqual(JSON.parse(mounted(stage)?.metadata.annotations?.[key] ?? ""), noted);
    stage.world.annotate({ namespace, name: "mounted" }, { [key]: "[" }, "secrets");
    stage.expect(later);
    await stage.until("the phases", () => stage.phases.includes("schedule-rolling"));
    const events = stage.world.store.list("events", { namespace }).items as readonly { readonly message?: string }[];
    const found = events.filter(({ message = "" }) => message.startsWith("Secret mounted: ") && message.includes(key));
    assert.equal(found.length, 1);
  });
});

suite("what is noted of earlier files", () => {
  const settings = (name: string) => new Map([["cluster.name", name]]);
  const change: FilesChange = {
    expected: settings("b"),
    mounted: settings("b"),
    noted: new Map([["1:a", settings("a")]]),
  };

  test("each process is compared by the files that it was started with, and one of unknown files by what is mounted", () => {
    assert.equal(whyTogether({ ...change, started: ["1:b", "1:a"] }), "they change cluster.name");
    assert.equal(whyTogether({ ...change, started: ["1:b", "1:unknown"] }), undefined);
    assert.equal(whyTogether(change), undefined, "no process is known");
    const back = { ...change, expected: settings("a") };
    assert.equal(whyTogether({ ...back, started: ["1:a"] }), undefined, "all run with them already");
    assert.equal(whyTogether(back), "they change cluster.name");
    assert.equal(whyTogether({ ...change, mode: "rolling", started: ["1:a"] }), undefined);
  });

  test("the newest files are remembered, as many as there is room for", () => {
    const noted = new Map(
      Array.from({ length: 100 }, (_, index) => [`1:${"0".repeat(60)}${index}`, { "cluster.name": `${index}` }]),
    );
    const read = restartSettings.parse(formatSettings(noted)) ?? new Map();
    assert.ok(read.size > 20 && read.size < 100, `${read.size}`);
    assert.deepEqual([...read], [...noted].slice(-read.size));
    assert.equal(formatSettings(new Map([["1:a", { "cluster.name": "x".repeat(5_000) }]])), "{}");
    assert.equal(formatSettings(new Map()), "{}");
  });

  test("a malformed note is none", () => {
    for (const text of ["", "[]", "7", '{"1:a":"b"}', '{"1:a":{"cluster.name":7}}', "{"])
      assert.equal(restartSettings.parse(text), undefined, text);
  });
});
