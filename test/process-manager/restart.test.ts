/** A person marks a pod, and its process restarts: the shipped function as a process of its own, on a real API server. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { patienceMs } from "./pod.ts";
import { RestartStage, skipWithoutStage } from "./restart-stage.ts";

interface Warned {
  readonly type: string;
  readonly message: string;
}

suite("a process that restarts inside its pod", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  before(async () => {
    stage = await RestartStage.set("search");
    await stage.serve({ FUNCTION: "advance-process-restart" });
  });
  after(() => stage?.close());

  test("it stops and starts again once, with the files of now, in the same pod, and nothing of the restart is left", async () => {
    const { one } = stage;
    const { uid } = (await stage.read()).metadata;
    await one.pod.mount({ "db.yml": "second" });
    await stage.mark("schedule");
    await stage.withoutPhase();
    assert.deepEqual(await one.pod.journal(), ["start first", "stop", "start second"]);
    const { metadata } = await stage.read();
    assert.deepEqual([metadata.uid, metadata.annotations?.["sluice.dev/restart-id"]], [uid, undefined]);
    assert.equal(await stage.claims(), "");
    assert.equal((await one.status()).lastEpoch, 2);
  });

  test("a second restart goes on from the epochs of the first", async () => {
    const { one } = stage;
    await stage.mark("schedule");
    await stage.withoutPhase();
    assert.equal((await one.pod.journal()).filter((line) => line.startsWith("start")).length, 3);
    assert.equal((await one.status()).lastEpoch, 4);
  });

  test("a template with a preStop hook and without SLUICE_PRE_STOP gets a Warning Event that says what to write", async () => {
    const container = { name: "db", image: "db:1", command: ["sh", "/sluice/runner/runner.sh", "db"] };
    const lifecycle = { preStop: { exec: { command: ["leave"] } } };
    const template = { spec: { containers: [{ ...container, lifecycle }] } };
    await stage.api.patch(stage.setPath("db-zone-a"), { spec: { template } });
    const path = `${stage.path("events")}?fieldSelector=reason=RestartTemplateUnfit`;
    const [event] = await eventually("the Event", patienceMs, async () => {
      const { items } = await stage.api.get<{ readonly items: readonly Warned[] }>(path);
      return items.length > 0 ? items : undefined;
    });
    assert.equal(event?.type, "Warning");
    assert.match(event?.message ?? "", /^container db has a preStop hook.*SLUICE_PRE_STOP/);
  });
});
