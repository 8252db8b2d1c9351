/** What the status costs the API server while no client asks for it: nothing, by the audit log of a real one. */
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { auditPosition } from "../controlplane/audit.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { type EvictionStage, startEvictionStage } from "../support/eviction-stage.ts";
import { type Asked, play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";

/**
 * Functions without a timer of their own: each timer lists Leases and what else it needs, at moments with a jitter, so that of
 * two processes one may have sent one LIST more.
 */
const functions = "advance-zone-rollout,evaluate-eviction,keep-ledgers,show-status";

/** Longer than the status waits between two LISTs of any kind: a process that lists on without clients is seen. */
const restMs = 12_000;

/**
 * What the status asks while a client looks, and in what the two processes are compared. All else is work on the rollout: how
 * often a function reads and writes depends on how many events one reconcile gathers. The status also lists budgets, and so does
 * a decision whose watch of them has been silent for 30 s. That it lists none without a client is seen after the viewer has gone.
 */
const ofStatus: readonly string[] = ["list leases", "list events", "list persistentvolumeclaims", "get pods"];
const budgets = "list zoneawarepoddisruptionbudgets";

const kindOf = ({ verb, resource }: Asked): string => `${verb} ${resource}`;

/** Numbers by verb and resource. Watches, which API servers end when they like, are not among the requests. */
function countOf(requests: readonly Asked[]): Readonly<Record<string, number>> {
  const kinds = requests.map(kindOf).toSorted();
  const counts: Record<string, number> = {};
  for (const kind of kinds) counts[kind] = (counts[kind] ?? 0) + 1;
  return counts;
}

describe("the status on a real control plane", { skip: await skipWithoutControlPlane() }, () => {
  let stage: EvictionStage;

  before(async () => {
    stage = await startEvictionStage();
  });

  after(async () => {
    await stage?.stop();
  });

  /** Rolls a group with the setting, and rests. Then calls `more`, and resolves to the requests until then. */
  async function roll(name: string, statusListen: string, more: (scene: Scene, server: Server) => Promise<void>) {
    let requests: readonly Asked[] = [];
    await play(stage.controlPlane, name, { zones: 2, pods: 1 }, async (scene) => {
      // A process that waits for rollout-operator lists its pods every 30 s.
      const settings = { FUNCTION: functions, OTHER_OPERATOR: "ignore", STATUS_LISTEN: statusListen };
      const server = await scene.serve(settings);
      await scene.waitForOldLedger(server);
      await changeTemplate(stage.controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      await scene.waitForGuard("done");
      await scene.waitForEvent("RolloutCompleted");
      await delay(restMs);
      requests = await scene.requests();
      await more(scene, server);
    });
    return requests;
  }

  test("without viewers a process with STATUS_LISTEN sends what one without it sends, and after a viewer has gone it sends nothing more", async (context) => {
    const viewed: { during: readonly Asked[]; afterwards: readonly Asked[] } = { during: [], afterwards: [] };
    const [off, on] = await Promise.all([
      roll("unlit", "off", async () => {}),
      roll("lit", "127.0.0.1:0", async (scene, server) => {
        const from = await auditPosition(stage.controlPlane.auditLog);
        // Its last GET is sent 12 s after its first.
        for (let time = 0; time <= 6; time++) {
          if (time > 0) await delay(2_000);
          assert.equal((await server.status()).groups.length, 1);
        }
        // The API server logs a request just after it has answered it.
        await delay(500);
        const gone = await auditPosition(stage.controlPlane.auditLog);
        viewed.during = await scene.requests(from);
        await delay(restMs);
        viewed.afterwards = await scene.requests(gone);
      }),
    ]);
    const [without, beside] = [off, on].map((requests) =>
      countOf(requests.filter((one) => ofStatus.includes(kindOf(one)))),
    );
    context.diagnostic(`without viewers: ${JSON.stringify(beside)}`);
    assert.deepEqual(beside, without);
    const during = countOf(viewed.during);
    context.diagnostic(`beside a viewer: ${JSON.stringify(during)}`);
    assert.ok((during["list leases"] ?? 0) >= 6 && (during["list events"] ?? 0) >= 2, JSON.stringify(during));
    assert.deepEqual(countOf(viewed.during.filter((one) => ![...ofStatus, budgets].includes(kindOf(one)))), {});
    assert.deepEqual(countOf(viewed.afterwards), {});
  });
});
