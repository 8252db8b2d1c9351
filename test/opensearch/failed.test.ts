/**
 * A broken file meets the processes of a real OpenSearch. One fails where they restart in their turn, and all do where they
 * restart together. The mended file ends both.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { marker, slowMs } from "./nodes.ts";
import { namespace, phaseKey } from "./pods.ts";
import { skip, stage } from "./stage.ts";
import { assertNothingLeft, writeDocument } from "./together.ts";

suite("three processes of a real OpenSearch that get a broken file", { skip }, () => {
  const on = stage(() => ({ hasSecrets: true, prepare: writeDocument }));

  const phases = () =>
    Promise.all(on.pods.names.map(async (name) => (await on.pods.metadataOf(name)).annotations?.[phaseKey] ?? ""));

  /** How often the process of each pod has been stopped. */
  const stops = async () => {
    const journal = await on.pods.journal();
    return on.pods.names.map((name) => journal.filter((line) => line === `stopping ${name}`).length);
  };

  test("one fails, the others keep running, allocation is on, and the mended file alone brings all to it", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    await pods.expect(["no.such.setting: true"]);
    await Promise.all(names.map((name) => pods.mark(name, "schedule-rolling")));
    const seen = await eventually("a failed restart", slowMs, async () => {
      const now = await phases();
      return now.includes("failed") ? now : undefined;
    });
    assert.deepEqual([...seen].sort(), ["failed", "schedule-rolling", "schedule-rolling"]);
    const other = names[seen.indexOf("schedule-rolling")] ?? "";
    assert.deepEqual(await nodes.settingsAt(other), {}, "allocation is as the user had it");
    assert.equal(await pods.claims(), "");
    assert.deepEqual(
      await stops(),
      seen.map((phase) => (phase === "failed" ? 1 : 0)),
      "the broken file reaches one process",
    );
    await pods.expect(["node.attr.x: mended"]);
    await pods.restarted(names);
    assert.deepEqual(await nodes.settingsAt(other), {});
    assert.equal((await nodes.green(other)).number_of_nodes, 3);
    assert.equal(await pods.claims(), "");
    for (const name of names) {
      const { body } = await nodes.ask(name, "/_nodes/_local?filter_path=nodes.*.attributes");
      assert.match(JSON.stringify(body), /"x":"mended"/, name);
    }
    // A restart has two calls. The broken process may just be trying once more when the mended file comes, and is stopped then.
    const epochs = await Promise.all(names.map(async (name) => (await pods.servedOf(name).status()).lastEpoch));
    assert.deepEqual(
      epochs,
      seen.map((phase) => (phase === "failed" ? 4 : 2)),
      "the failed pod restarts twice, and each other one once",
    );
    const counted = await stops();
    assert.deepEqual(
      counted.filter((_, index) => seen[index] !== "failed"),
      [1, 1],
    );
  });

  test("together all fail, and the mended file alone brings all back, with their documents and allocation as the user had it", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    const [first = ""] = names;
    const annotations = { "sluice.dev/restart-mode": "coordinated" };
    for (const name of names)
      await pods.api.patch(`/api/v1/namespaces/${namespace}/secrets/${name}-files`, { metadata: { annotations } });
    await pods.expect(["no.such.setting: true"]);
    // The claims go after the phases.
    await eventually("failed restarts", 2 * slowMs, async () => {
      return ((await phases()).every((phase) => phase === "failed") && (await pods.claims()) === "") || undefined;
    });
    for (const name of names) await assert.rejects(nodes.ask(name, "/"), `${name} runs with the broken file`);
    await pods.expect(["node.attr.x: again"]);
    await pods.restarted(names);
    // That of the failed restart is in no ledger any more.
    await eventually("no marker", slowMs, async () => {
      return (await nodes.settingsAt(first))[marker] === undefined || undefined;
    });
    await assertNothingLeft(pods);
    for (const name of names) {
      const { body } = await nodes.ask(name, "/_nodes/_local?filter_path=nodes.*.attributes");
      assert.match(JSON.stringify(body), /"x":"again"/, name);
    }
  });
});
