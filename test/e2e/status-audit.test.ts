/** What the status costs the API server while no client looks at it: nothing, by the audit log of a real one. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";

describe("the status on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  test("x", async () => {
    await Promise.all(["off", "on"].map((name) => play(stage.controlPlane, name, { zones: 2, pods: 1 }, async (scene) => {
      const settings = { STATUS_LISTEN: name === "off" ? "off" : "127.0.0.1:0" };
      const server = await scene.serve(settings);
      await scene.waitForOldLedger(server);
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      await scene.waitForGuard("done");
      await scene.waitForEvent("RolloutCompleted");
      await delay(20_000);
      const count = async (from?: number) => {
        const counts: Record<string, number> = {};
        for (const one of [...(await scene.requests(from)), ...(await scene.watches(from))]) { const k = `${one.verb} ${one.resource} ${one.code}`; counts[k] = (counts[k] ?? 0) + 1; }
        return counts;
      };
      console.log(name, await count());
      if (name === "off") return;
      const from = await auditPosition(stage.controlPlane.auditLog);
      for (let i = 0; i < 6; i++) { await server.status(); await delay(2000); }
      console.log("viewed", await count(from));
      await delay(2000);
      const from2 = await auditPosition(stage.controlPlane.auditLog);
      await delay(40000);
      console.log("left", await count(from2));
    })));
  });
});
