/**
 * A person marks three StatefulSets, and the processes of all their pods restart together: the shipped function as a process of
 * its own, which is killed in the middle, and a real API server.
 */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { eventually } from "../controlplane/api.ts";
import type { Server } from "../support/server.ts";
import { patienceMs } from "./pod.ts";
import { phaseKey, RestartStage, skipWithoutStage } from "./restart-stage.ts";

const sets = ["db-zone-a", "db-zone-b", "db-zone-c"];

suite("processes that restart together", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  let server: Server;
  const serve = () => stage.serve({ FUNCTION: "advance-process-restart" });
  before(async () => {
    stage = await RestartStage.set("together", sets.length);
    server = await serve();
  });
  after(() => stage?.close());

  test("all are down before the first one starts, although the function is killed meanwhile, and nothing is left", async () => {
    const begun = (await stage.journal()).length;
    const since = async () => (await stage.journal()).slice(begun);
    const annotations = { [phaseKey]: "schedule-coordinated" };
    for (const set of sets) await stage.api.patch(stage.setPath(set), { metadata: { annotations } });
    await eventually("a process that stops", patienceMs * 3, async () => (await since()).length > 0 || undefined);
    await server.kill();
    server = await serve();
    for (const set of sets) await stage.withoutPhase(`${set}-0`);
    const journal = await since();
    assert.deepEqual(
      journal.slice(0, 3).sort(),
      sets.map((set) => `stop ${set}`),
    );
    assert.deepEqual(
      journal.slice(3).sort(),
      sets.map((set) => `start ${set}`),
    );
    assert.equal(await stage.claims(), "");
    // The ids go last.
    await eventually("StatefulSets without a phase and an id", patienceMs, async () => {
      const all = await Promise.all(
        sets.map((set) => stage.api.get<{ readonly metadata: Metadata }>(stage.setPath(set))),
      );
      const keys = all.flatMap(({ metadata: { annotations = {} } }) => Object.keys(annotations));
      return keys.includes(phaseKey) || keys.includes("sluice.dev/restart-id") ? undefined : true;
    });
  });

  test("coordinated: in the trigger of one StatefulSet stops all of the group before the first one starts", async () => {
    const begun = (await stage.journal()).length;
    await stage.trigger("coordinated:1", ["db-zone-b"]);
    for (const set of sets) await stage.withoutPhase(`${set}-0`);
    const verbs = (await stage.journal()).slice(begun).map((line) => line.split(" ")[0]);
    assert.deepEqual(verbs, ["stop", "stop", "stop", "start", "start", "start"]);
  });
});
