/**
 * A person parks the process of a real OpenSearch for a while. The function is killed meanwhile, the container starts again, and
 * another pod is asked to restart.
 */
import assert from "node:assert/strict";
import { suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { allocation, marker, slowMs } from "./nodes.ts";
import { phaseKey } from "./pods.ts";
import { skip, stage } from "./stage.ts";
import { assertNothingLeft, writeDocument } from "./together.ts";

const stopKey = "sluice.dev/stop";
/** The database waits so long for a parked process. */
const waitedForMs = 60_000;
/** The API server's clock, by which that is measured, shows whole seconds. */
const clockStepMs = 1_000;

suite("a process of a real OpenSearch that a person parks", { skip }, () => {
  const on = stage(() => ({ prepare: writeDocument }));

  /** Waits until the claim of the parked process has this in its text, and resolves to all claims. */
  const claimed = (pattern: RegExp) =>
    eventually(`a claim like ${pattern}`, slowMs, async () => {
      const claims = await on.pods.claims();
      return pattern.test(claims) ? claims : undefined;
    });

  test("it stays down, the database waits a minute for it, and it starts with the files of now when the annotation goes", async () => {
    const { pods } = on;
    const { nodes, names } = pods;
    const [asked = "", name = "", other = ""] = names;
    const served = pods.servedOf(name);
    const begun = (await pods.journal()).length;
    const since = async () => (await pods.journal()).slice(begun);
    const down = [`stopping ${name}`, `stop ${name}`];
    assert.equal(await nodes.set(asked, { [allocation]: "all" }), 200);
    await pods.annotate(name, { [stopKey]: "true" });
    assert.match(await claimed(/"phase":"parked"/), /"mode":"parked"/);
    assert.deepEqual(await since(), down);
    assert.match((await nodes.settingsAt(asked))[marker] ?? "", /previous=all$/);
    assert.equal((await pods.metadataOf(name)).annotations?.[phaseKey], "stop");

    await pods.startFunction();
    const { since: before } = await served.status();
    await pods.restartContainer(name);
    await eventually("a stopped process in the next container", slowMs, async () => {
      const { state, since: now } = await served.status();
      return (state === "stopped" && now !== before) || undefined;
    });
    await pods.mark(other, "schedule-rolling");
    await pods.mount(["node.attr.x: after"]);
    await eventually("allocation as the user had it", slowMs, async () => {
      return (await nodes.settingsAt(asked))[marker] === undefined || undefined;
    });
    const stoppedMs = (await pods.events()).findLast((one) => one.event === "stop")?.atMs ?? Number.NaN;
    assert.ok(Date.now() - stoppedMs >= waitedForMs - clockStepMs, "not before the minute is over");
    assert.deepEqual(await nodes.settingsAt(asked), { [allocation]: "all" });

    await pods.startFunction();
    const waits = /parked until sluice\.dev\/stop is taken off/;
    await eventually("a wait of the other pod", slowMs, async () => waits.test(pods.log) || undefined);
    assert.match(await pods.claims(), /"phase":"parked"/);
    assert.deepEqual(await since(), down, "it is down, and the other pod waits for it");
    assert.equal((await served.status()).state, "stopped");

    await pods.annotate(name, { [stopKey]: null });
    await pods.restarted([name, other]);
    assert.deepEqual(await since(), [...down, `start ${name}`, `stopping ${other}`, `stop ${other}`, `start ${other}`]);
    for (const one of [name, other]) {
      const { body } = await nodes.ask(one, "/_nodes/_local?filter_path=nodes.*.attributes");
      assert.match(JSON.stringify(body), /"x":"after"/, one);
    }
    assert.equal(await nodes.set(asked, { [allocation]: null }), 200);
    await assertNothingLeft(pods);
  });
});
