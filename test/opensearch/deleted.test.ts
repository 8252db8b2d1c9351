/** A person deletes all pods of a real OpenSearch while a restart restricts allocation: that is undone when they are back. */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { allocation, marker, slowMs } from "./nodes.ts";
import { skip, stage } from "./stage.ts";
import { assertNothingLeft, writeDocument } from "./together.ts";

const usersOwn = { [allocation]: "new_primaries" };

suite("three processes of a real OpenSearch whose pods are deleted in a restart", { skip }, () => {
  const on = stage(() => ({ prepare: writeDocument }));

  test("allocation is as the user had it, no marker and no claim is left, and all documents are there", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    const [first = "", other = ""] = names;
    const uidsOf = async () => (await Promise.all(names.map((name) => pods.metadataOf(name)))).map(({ uid }) => uid);
    const before = await uidsOf();
    assert.equal(await nodes.set(other, usersOwn), 200);
    await pods.mark(first, "schedule");
    await eventually("the restriction", slowMs, async () => {
      return (await nodes.settingsAt(other))[marker] !== undefined || undefined;
    });
    assert.match(await pods.claims(), /"hold":true/);
    await Promise.all(names.map((name) => pods.replace(name, 0)));
    await eventually("allocation as the user had it", slowMs, async () => {
      const settings = await nodes.settingsAt(other);
      return (settings[marker] === undefined && (await pods.claims()) === "") || undefined;
    });
    assert.deepEqual(await nodes.settingsAt(other), usersOwn);
    const now = await uidsOf();
    assert.ok(!now.some((uid) => before.includes(uid)), "each pod is another one");
    assert.equal(await nodes.set(other, { [allocation]: null }), 200);
    await assertNothingLeft(pods);
  });
});
