import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { advanceZoneRollout } from "../../functions/advance-zone-rollout/function.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, createGroup, groupPods, waitForGroupReady } from "../controlplane/fixtures.ts";
import { refuseDeletion } from "../support/refused-deletion.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import { complaintsIn, createUser, grant, refusalsIn } from "./rights.ts";

const { needs } = advanceZoneRollout;
/** Served alone, so that the granted rights are its own. */
const alone = { FUNCTION: advanceZoneRollout.name };
const account = "sluice";

describe("refusals of the API server", { skip: await skipWithoutControlPlane(), concurrency: 5 }, () => {
  let controlPlane: ControlPlane;
  let api: Api;

  before(async () => {
    controlPlane = await startControlPlane();
    api = await Api.open(controlPlane, { userAgent: "sluice-test-scene" });
  });

  after(async () => {
    await api?.close();
    await controlPlane?.stop();
  });

  test("a pod that may not be deleted is named, and delays neither its siblings nor, for long, the next zone", async () => {
    const options = { zones: 2, pods: 4, maxUnavailable: 2 };
    const { takings } = await play(controlPlane, "refused", options, async (scene) => {
      await refuseDeletion(scene, "refused-zone-a-1");
      await scene.serve();
      await changeTemplate(controlPlane, scene.group, "app:2");
      const event = await scene.waitForEvent("DeleteRefused");
      assert.equal(event.type, "Warning");
      assert.deepEqual(
        { kind: event.involvedObject.kind, name: event.involvedObject.name },
        { kind: "StatefulSet", name: "refused-zone-a" },
      );
      assert.match(event.message, /delete of refused-zone-a-1 was refused with 403: .*this pod holds the last copy/);
      await scene.waitForTakings(3);
      const siblings = scene.observer.takings.map(({ pod }) => pod).sort();
      assert.deepEqual(siblings, ["refused-zone-a-0", "refused-zone-a-2", "refused-zone-a-3"]);
      const { zone, sentence: message } = await scene.waitForGuard("delete-refused", 60_000);
      assert.equal(zone, "refused-zone-a");
      assert.match(message, /^refused-zone-a-1 stays outdated: /);
      // Its reservation is dropped after two and a half minutes, and the next zone begins.
      await scene.waitForTakings(7, 200_000);
      await waitForGroupReady(controlPlane, scene.group);
      await scene.waitForGuard("delete-refused");
      const outdated = (await groupPods(controlPlane, scene.group)).filter(
        ({ spec }) => spec.containers[0]?.image === "app:1",
      );
      assert.deepEqual(
        outdated.map(({ metadata }) => metadata.name),
        ["refused-zone-a-1"],
      );
    });
    assert.equal(takings.length, 7);
  });

  test("two servers, each killed in turn every two seconds, finish a rollout and break no promise", async (context) => {
    const options = { zones: 3, pods: 10, maxUnavailable: 2, readyAfterMs: 1_000 };
    const { takings } = await play(controlPlane, "killed", options, async (scene) => {
      const servers = [await scene.serve(), await scene.serve()];
      // A server that has just started permits nothing under a recent ledger (rule R4), and here none lives for long.
      await eventually("the ledger older than any server's doubt", 90_000, async () => {
        const ledger = await api.get<{ metadata: { creationTimestamp: string } }>(scene.ledgerPath);
        return Date.now() - Date.parse(ledger.metadata.creationTimestamp) > 43_000 ? true : undefined;
      });
      await changeTemplate(controlPlane, scene.group, "app:2");
      const rolled = new AbortController();
      const killing = (async () => {
        let kills = 0;
        for (; !rolled.signal.aborted; kills++) {
          await delay(2_000, undefined, { signal: rolled.signal }).catch(() => {});
          if (rolled.signal.aborted) break;
          await servers[kills % 2]?.kill();
          servers[kills % 2] = await scene.serve();
        }
        return kills;
      })();
      await scene.waitForRollout("app:2", 120_000).finally(() => rolled.abort());
      const kills = await killing;
      context.diagnostic(`servers killed: ${kills}`);
      assert.ok(kills >= 4, `only ${kills} were killed`);
    });
    assert.equal(takings.length, 30, "every pod goes once");
  });

  test("a function's declared rights are enough for a whole rollout", async () => {
    await play(controlPlane, "entitled", { zones: 2, pods: 2 }, async (scene) => {
      const { namespace } = scene.group;
      const kubeconfig = await createUser(controlPlane, api, namespace, account);
      await grant(api, namespace, { namespace, name: account }, needs);
      const server = await scene.serve({ ...alone, SWEEP_INTERVAL: "1s" }, { kubeconfig });
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      await scene.waitForEvent("RolloutCompleted");
      assert.deepEqual(complaintsIn(server.log), []);
      assert.deepEqual(refusalsIn(await scene.requests()), []);
    });
  });

  test("a right that is missing in one namespace is named, and the other namespace goes on", async () => {
    await play(controlPlane, "partly-entitled", { zones: 2, pods: 2 }, async (scene) => {
      const { namespace } = scene.group;
      const barred = await createGroup(controlPlane, { name: "barred", namespace: "barred", zones: 2, pods: 2 });
      await waitForGroupReady(controlPlane, barred);
      const kubeconfig = await createUser(controlPlane, api, namespace, account);
      await grant(api, namespace, { namespace, name: account }, needs);
      const server = await scene.serve(
        { ...alone, SWEEP_INTERVAL: "1s" },
        { kubeconfig, namespace: `${namespace},barred` },
      );
      await changeTemplate(controlPlane, barred, "app:2");
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const line = server.log.find(({ msg }) =>
        /cannot list resource "statefulsets".* in the namespace "barred"/.test(msg),
      );
      assert.ok(line, "the log names the verb, the resource and the namespace");
      assert.ok((await groupPods(controlPlane, barred)).every(({ spec }) => spec.containers[0]?.image === "app:1"));
    });
  });

  test("a namespace that may not be read delays no other, even if only sweeps run", async () => {
    await play(controlPlane, "swept", { zones: 2, pods: 2 }, async (scene) => {
      const { namespace } = scene.group;
      const kubeconfig = await createUser(controlPlane, api, namespace, account);
      await grant(api, namespace, { namespace, name: account }, needs);
      const settings = { ...alone, VIEWS: "list", SWEEP_INTERVAL: "1s" };
      const server = await scene.serve(settings, { kubeconfig, namespace: `default,${namespace}` });
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2", 120_000);
      const line = server.log.find(({ reason }) => reason === "sweep-failed");
      assert.match(
        String(line?.msg),
        /^a namespace waits for the next sweep: Sluice lacks the right to list statefulsets: .*in the namespace "default"/,
      );
    });
  });

  test("if only the right to delete pods is missing, an Event on the StatefulSet names it", async () => {
    await play(controlPlane, "may-not-delete", { zones: 2, pods: 2 }, async (scene) => {
      const { namespace } = scene.group;
      const some = needs.map((need) =>
        need.resource === "pods" ? { ...need, verbs: need.verbs.filter((verb) => verb !== "delete") } : need,
      );
      const kubeconfig = await createUser(controlPlane, api, namespace, account);
      await grant(api, namespace, { namespace, name: account }, some);
      await scene.serve(alone, { kubeconfig });
      await changeTemplate(controlPlane, scene.group, "app:2");
      const event = await scene.waitForEvent("RightMissing");
      assert.equal(event.involvedObject.name, "may-not-delete-zone-a");
      assert.match(event.message, /^Sluice lacks the right to delete pods: /);
      await scene.waitForGuard("delete-refused", 60_000);
      assert.deepEqual(scene.observer.takings, []);
    });
  });
});
