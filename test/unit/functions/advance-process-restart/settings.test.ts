/** Which changes of a main file all processes of a group must make together. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { decideDrift } from "../../../../functions/advance-process-restart/drift/decide-drift.ts";
import {
  type Coordinating,
  coordinatingOf,
  dependsOnStarted,
  differingKey,
  disputedKey,
  unknownSetting,
  whyTogether,
} from "../../../../functions/advance-process-restart/drift/decide-settings.ts";
import { readSettings } from "../../../../functions/advance-process-restart/drift/settings.ts";
import { nowMs } from "../advance-zone-rollout/given.ts";
import { managed } from "./given.ts";

const settingsOf = (file: string): Coordinating => {
  const settings = readSettings({ "elasticsearch.yml": Buffer.from(file).toString("base64") });
  return "unreadable" in settings ? assert.fail(settings.unreadable) : settings;
};
const change = (one: string, other: string) => differingKey(settingsOf(one), settingsOf(other));

test("only another value of a key that all nodes have in common must be changed together", () => {
  assert.equal(change("cluster.name: a", "cluster.name: b"), "cluster.name");
  assert.equal(change("", "plugins.security.disabled: true"), "plugins.security.disabled");
  assert.equal(change("", "plugins.security.disabled: false"), undefined, "that is the default");
  assert.equal(change("a: 1", "a: 2"), undefined);
  const licence = (value: string) => `xpack.license.self_generated.type: ${value}`;
  assert.equal(change(licence("basic"), licence("trial")), "xpack.license.self_generated.type");
  assert.equal(change(licence("gold"), licence("trial")), undefined);
});

test("notation does not matter, and a value that refers to itself ends", () => {
  const nested = "xpack:\n  security.transport:\n    ssl: {enabled: true}";
  assert.equal(change('xpack.security.transport.ssl.enabled: "true"', nested), undefined);
  assert.equal(change("xpack: &x\n  security: *x", ""), undefined);
});

test("a key without a value counts as one that is not there, and a value may be anything", () => {
  assert.equal(change("cluster.name:", ""), undefined);
  assert.equal(change("cluster: text", ""), undefined);
  assert.equal(change("cluster: null", ""), undefined);
  assert.equal(change("cluster:\n  toString: a", ""), undefined);
  assert.equal(change("cluster.name: {a: 1}", "cluster.name: [1]"), undefined, "an object is as any other");
  assert.equal(change("cluster.name: {a: 1}", "cluster.name: a"), "cluster.name");
  for (const document of [null, undefined, "cluster.name", 7]) assert.deepEqual(coordinatingOf(document), new Map());
});

test("the first setting that differs is named", () => {
  const both = "cluster.name: b\nplugins.security.disabled: true";
  assert.equal(change("cluster.name: a", both), "cluster.name");
});

test("what processes were started with counts, and what is mounted where nothing is noted of that", () => {
  const [one, other] = [settingsOf("cluster.name: a"), settingsOf("cluster.name: b")];
  const secure = settingsOf("cluster.name: b\nplugins.security.disabled: true");
  const why = (change: Partial<Parameters<typeof whyTogether>[0]>) =>
    whyTogether({ expected: other, mounted: one, ...change });
  assert.equal(why({}), "they change cluster.name");
  assert.equal(why({ started: ["1:x"] }), "they change cluster.name", "nothing is noted");
  assert.equal(why({ started: ["1:x"], noted: new Map([["1:x", other]]) }), undefined);
  const noted = new Map([
    ["1:secure", secure],
    ["1:x", one],
  ]);
  assert.equal(why({ started: ["1:secure", "1:x"], noted }), "they change plugins.security.disabled");
  assert.equal(why({ mounted: undefined }), undefined, "nothing is known of before");
});

test("it matters with which files processes were started where some have other settings than are mounted", () => {
  const [one, other] = [settingsOf("cluster.name: a"), settingsOf("cluster.name: b")];
  const depends = (mounted: Coordinating | undefined, ...noted: readonly Coordinating[]) =>
    dependsOnStarted({
      mounted,
      noted: new Map(noted.map((settings, index) => [`1:${index}`, settings])),
    });
  assert.equal(depends(one, one, other), true);
  assert.equal(depends(one, one), false);
  assert.equal(depends(undefined, one), true);
  assert.equal(depends(undefined), false);
  assert.equal(dependsOnStarted({ mounted: one }), false);
});

test("a setting is unknown of the first process of which nothing is noted, where earlier files had another one", () => {
  const [one, other] = [settingsOf("cluster.name: a"), settingsOf("cluster.name: b")];
  const secure = settingsOf("plugins.security.disabled: true\ncluster.name: b");
  const noted = new Map([
    ["1:same", other],
    ["1:first", one],
    ["1:later", secure],
  ]);
  const unknown = (started: readonly string[], known = noted) =>
    unknownSetting({ expected: other, mounted: other, noted: known, started });
  assert.deepEqual(unknown(["1:same", "1:x", "1:y"]), { sum: "1:x", key: "cluster.name" });
  assert.equal(unknown(["1:first", "1:later"]), undefined, "it is known of each");
  assert.equal(unknown([]), undefined);
  assert.equal(unknown(["1:x"], new Map([["1:same", other]])), undefined, "they never had another one");
});

test("the disputed key is the first of several values that a change of files touches", () => {
  const [one, other] = [settingsOf("cluster.name: a"), settingsOf("cluster.name: b\nplugins.security.disabled: true")];
  const changed = { expected: other, mounted: one };
  assert.equal(disputedKey([changed, { expected: one, mounted: one }]), "cluster.name");
  assert.equal(disputedKey([changed, changed]), undefined);
  assert.equal(
    disputedKey([
      { expected: one, mounted: one },
      { expected: other, mounted: other },
    ]),
    undefined,
  );
  const partly = {
    started: ["1:one", "1:other"],
    noted: new Map([
      ["1:one", one],
      ["1:other", other],
    ]),
  };
  assert.equal(
    disputedKey([
      { ...changed, ...partly },
      { expected: one, mounted: one },
    ]),
    "cluster.name",
  );
});

test("restart-config-disagrees: a coordinated restart waits until all expected files of the group agree", () => {
  const zones = ["a", "b"].map((name) => managed(name, "nn")) as never as Parameters<typeof decideDrift>[0];
  const [first, second] = zones;
  if (first === undefined || second === undefined) assert.fail("two zones");
  const [old, wanted] = [settingsOf("cluster.name: a"), settingsOf("cluster.name: b")];
  const running = (zone: typeof first) => new Map(zone.pods.map(({ uid }) => [uid, "1:old"]));
  const changed = (zone: typeof first) => ({
    zone,
    sum: "1:new",
    expected: wanted,
    mounted: old,
    running: running(zone),
  });
  const unchanged = { zone: second, sum: "1:old", expected: old, mounted: old, running: running(second) };
  const alone = decideDrift(zones, [changed(first), unchanged], nowMs);
  assert.deepEqual([alone.blocked?.guard, alone.targets], ["restart-config-disagrees", []]);
  const both = decideDrift(zones, [changed(first), changed(second)], nowMs);
  assert.deepEqual(
    both.targets.map(({ phase, statefulSet }) => [statefulSet.name, phase]),
    [
      [first.workload.name, "schedule-coordinated"],
      [second.workload.name, "schedule-coordinated"],
    ],
  );
  const byHand = decideDrift(zones, [changed(first), { ...changed(second), mode: "by-hand" }], nowMs);
  assert.equal(byHand.blocked?.guard, "restart-config-disagrees");
});
