/** The server of a pod is killed at each step of a restart: the process does not notice, and the restart ends. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { RestartStage, skipWithoutStage } from "./restart-stage.ts";
import { ServerKiller } from "./server-killer.ts";

/** What the function is told, in this order, besides what it may miss between two of its looks. */
const expectedSteps: readonly RegExp[] = [
  ...[/^GET \/es\/status: started null$/, /^POST \/es\/stop: \w+ 1$/, /^GET \/es\/status: stopped 1$/],
  ...[/^POST \/es\/start: \w+ 2$/, /^GET \/es\/status: started 2$/],
];

suite("a process whose server is killed while it restarts", { skip: skipWithoutStage }, () => {
  let stage: RestartStage;
  let killer: ServerKiller | undefined;
  before(async () => {
    stage = await RestartStage.set("killed");
    killer = await ServerKiller.start(stage.one);
    const manager = { "sluice.dev/restart-manager": `http://:${new URL(killer.url).port}` };
    await stage.api.patch(stage.setPath("db-zone-a"), { metadata: { annotations: manager } });
    await stage.serve({ FUNCTION: "advance-process-restart" });
  });
  after(async () => {
    await killer?.close();
    await stage?.close();
  });

  test("at each step: it stops once and starts once, and nothing of the restart is left", async (context) => {
    await stage.one.pod.mount({ "db.yml": "second" });
    await stage.mark("schedule");
    await stage.withoutPhase();
    const { steps = [] } = killer ?? {};
    for (const step of steps) context.diagnostic(step);
    assert.deepEqual(await stage.one.pod.journal(), ["start first", "stop", "start second"]);
    assert.equal(await stage.claims(), "");
    const at = expectedSteps.map((expected) => steps.findIndex((step) => expected.test(step)));
    assert.deepEqual(
      at.toSorted((one, other) => one - other),
      at,
      steps.join("\n"),
    );
    assert.ok(!at.includes(-1), steps.join("\n"));
  });
});
