/** A process manager that answers badly: no process is touched, and the restart goes on when it answers well again. */
import assert from "node:assert/strict";
import { test } from "node:test";
import type { Delivery } from "../../../../functions/shared/http/calls.ts";
import type { StoredPod } from "../../../fake-cluster/objects.ts";
import type { PodReply } from "../../../fake-cluster/pod-http.ts";
import { RestartStage } from "./stage.ts";

const pod = "group-a-1";
const ok = (body: string): PodReply => ({ status: 200, body });

const bad: Readonly<Record<string, PodReply>> = {
  "the wrong token": { status: 401, body: '{"message":"wrong token"}' },
  "an error": { status: 500, body: "" },
  "a redirect": { status: 302, body: "" },
  "no body": { status: 204, body: "" },
  "an empty body": ok(""),
  "a page": ok("<html><body>started</body></html>"),
  "no object": ok("null"),
  "a list": ok('["started"]'),
  "no fields": ok("{}"),
  "fields of other types": ok('{"podUid":7,"state":{}}'),
  "another pod's report": ok('{"podUid":"another","state":"stopped","lastEpoch":9}'),
  "100 MB": ok(`{"state":"${"x".repeat(100_000_000)}"}`),
  nothing: "break",
};

class BadStage extends RestartStage {
  /** What is answered in the place of each report; absent: the report. */
  reply: PodReply | undefined;

  override answer(one: StoredPod, delivery: Delivery): PodReply {
    return this.reply ?? super.answer(one, delivery);
  }
}

for (const [what, reply] of Object.entries(bad))
  test(`manager-silent: a process manager that answers with ${what}`, async () => {
    const stage = new BadStage();
    await stage.begun();
    const manager = stage.manager(pod);
    stage.reply = reply;
    stage.write(pod, "schedule-rolling");
    for (let steps = 0; steps < 4; steps++) await stage.step();
    assert.deepEqual([stage.guard, stage.claims, manager.calls], ["manager-silent", [], []]);
    stage.reply = undefined;
    await stage.until("the stop", () => manager.state === "stopped");
    stage.reply = reply;
    for (let steps = 0; steps < 10; steps++) await stage.step();
    assert.deepEqual([stage.guard, stage.claims.length, manager.state], ["manager-silent", 1, "stopped"]);
    stage.reply = undefined;
    await stage.until("the end", () => stage.claims.length === 0 && stage.phaseOf(pod) === undefined);
    assert.deepEqual([manager.starts, manager.state], [2, "started"]);
  });
