/**
 * Accounts with `view`, with `edit`, and with one narrow right each, beside the Sluice that serves their namespace: it does for
 * them nothing that they may not do themselves.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { Metadata } from "../../functions/shared/kubernetes/cluster.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate } from "../controlplane/fixtures.ts";
import { isWebhook, isWorkload, kubeconfigOf, workloadOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl } from "../support/kubectl.ts";
import { play, type Scene, skipWithoutControlPlane } from "../support/scene.ts";
import type { Server } from "../support/server.ts";
import { type Attack, accountsOf, attacksOf, place, tierOf } from "./narrow-attacks.ts";

/** `MINUTES=3 node --test test/knative/narrow.test.ts`: for how long they try. */
const forMs = Number(process.env.MINUTES ?? 0.5) * 60_000;
const everyMs = 5_000;
const groupOptions = {
  zones: 3,
  pods: 2,
  volumes: ["data"],
  annotations: { "sluice.dev/suspend-duration": "7d", "sluice.dev/removal-mode": "All" },
};

suite("narrow rights beside Sluice", { skip: await skipWithoutControlPlane() }, () => {
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  let administrator: Api;
  before(async () => {
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
    administrator = await Api.open(controlPlane, { userAgent: "sluice-test-narrow" });
    await kubectl.run("apply", "-k", join(import.meta.dirname, "../fixtures/crds"));
    await kubectl.apply((await kubectl.build("overlays/standalone")).filter(isDefinition));
    await kubectl.waitForDefinitions();
  });
  after(async () => {
    await kubectl?.close();
    await administrator?.close();
    await controlPlane?.stop();
  });

  async function install(scene: Scene): Promise<Server> {
    const { namespace, name } = scene.group;
    const objects = await kubectl.buildIn(namespace, "standalone");
    const isOurs = (one: Built) => !isWebhook(one) && !isWorkload(one) && !isDefinition(one);
    await kubectl.apply([...objects.filter(isOurs), ...accountsOf(namespace), ...place(namespace, name)]);
    const { account, settings } = workloadOf(objects, "sluice");
    const kubeconfig = await kubeconfigOf(controlPlane, scene.api, namespace, account);
    const server = await scene.serve({ ...settings, PORT: "0", TLS_PORT: "off" }, { kubeconfig });
    await server.ready();
    await scene.waitForOldLedger(server);
    return server;
  }

  async function listed(scene: Scene, path: string): Promise<readonly { readonly metadata: Metadata }[]> {
    const { items } = await scene.api.get<{ items: { metadata: Metadata }[] }>(
      `${path.replace("NAMESPACE", scene.group.namespace)}`,
    );
    return items;
  }

  /** All that Sluice could delete, scale or relabel. */
  async function stateOf(scene: Scene) {
    const pods = await listed(scene, "/api/v1/namespaces/NAMESPACE/pods");
    const claims = await listed(scene, "/api/v1/namespaces/NAMESPACE/persistentvolumeclaims");
    const sets = await Promise.all(scene.group.statefulSets.map((name) => scene.statefulSet(name)));
    return {
      pods: pods.map(({ metadata }) => [metadata.name, metadata.uid, metadata.labels]),
      claims: claims.map(({ metadata }) => [metadata.name, metadata.uid, metadata.deletionTimestamp]),
      sizes: sets.map(({ metadata, spec }) => [metadata.name, spec.replicas]),
    };
  }

  async function tryOnce({ user, method, path, body }: Attack): Promise<string> {
    const type = method === "PATCH" ? "application/merge-patch+json" : "application/json";
    const answer = await administrator.send(method, path, body, type, { "impersonate-user": user });
    const text = await answer.body.text();
    if (answer.statusCode < 300) return "done";
    const refusal = /sluice-guard-\w+|is forbidden: User|already exists/.exec(text)?.[0];
    if (refusal === undefined) throw new Error(`${user}: ${method} ${path}: ${answer.statusCode} ${text}`);
    return refusal;
  }

  test("nothing is deleted, scaled, relabelled or blocked by what they write, and a rollout goes through after it", async (context) => {
    await play(controlPlane, "narrow", groupOptions, async (scene) => {
      await install(scene);
      const attacks = attacksOf(scene.group);
      const [first] = attacks;
      await eventually("the guard read by the API server", 60_000, async () =>
        (await tryOnce(first as Attack)).startsWith("sluice-guard-") ? true : undefined,
      );
      const state = await stateOf(scene);
      const outcomes = new Map<string, number>();
      for (const untilMs = performance.now() + forMs; performance.now() < untilMs; await delay(everyMs)) {
        for (const attack of attacks) {
          const outcome = `${attack.user}: ${attack.what}: ${await tryOnce(attack)}`;
          outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
        }
        assert.deepEqual(await stateOf(scene), state);
      }
      context.diagnostic([...outcomes].map(([outcome, count]) => `${count} x ${outcome}`).join("\n"));
      assert.deepEqual(
        [...outcomes.keys()].filter((outcome) => outcome.endsWith(": done")),
        [],
      );
      assert.equal(await tierOf(scene.api, scene.group.namespace), "isolated");
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2", 180_000);
    });
  });
});
