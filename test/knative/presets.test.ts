/** Each preset of the chart under its account: it has the rights that its functions use, and no other. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { alwaysServed, presets } from "../../triggers/table.ts";
import { Api } from "../controlplane/api.ts";
import { wantedKubernetes } from "../controlplane/assets.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { Helm, skipWithoutHelm, someImage } from "../support/helm.ts";
import { isWorkload, kubeconfigOf, tokenOf, workloadOf } from "../support/installed.ts";
import { Kubectl } from "../support/kubectl.ts";
import { play as playScene, skipWithoutControlPlane } from "../support/scene.ts";
import { chosenFreely, type Installation, isForeign, walk } from "./installation.ts";
import { forgeWrites, labelListed, listedKinds, mirrorDeployment, mirrorListed, serveKinds } from "./listed-kinds.ts";
import { serveRabbitmqClusters } from "./spread.ts";

/** One process does everything. */
const play: Installation["play"] = async (start) => {
  const all = await start("sluice", chosenFreely);
  const scaling = { delayed: all, follower: all, releaser: all };
  const owners = { marker: all, spreader: all, suspender: all, collector: all, holder: all };
  return { certificate: all, reviews: all, rollout: all, ledgers: all, ...scaling, ...owners };
};

const sluice = { roller: "sluice", keeper: "sluice", spreader: "sluice", collector: "sluice", asker: "sluice" };

suite("the presets of the chart on the real API server", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
  concurrency: 6,
}, () => {
  let controlPlane: ControlPlane;
  let opened: Awaited<ReturnType<typeof Helm.open>>;
  before(async () => {
    controlPlane = await startControlPlane();
    opened = await Helm.open();
    const kubectl = await Kubectl.open(controlPlane);
    await kubectl.apply(await kubectl.build("base/crds"));
    await serveRabbitmqClusters(kubectl);
    await kubectl.waitForDefinitions();
    await kubectl.close();
  });
  after(async () => {
    await opened?.close();
    await controlPlane?.stop();
  });

  // Whether the rights of one namespace are those of three depends on the chart, and on no version of Kubernetes.
  const isOldest = wantedKubernetes() === "oldest";
  for (const [preset, chosen] of Object.entries(presets))
    for (const others of isOldest ? [[]] : [[], [`second-${preset}`, `third-${preset}`]]) {
      const where = others.length === 0 ? "the namespace" : "each of the three namespaces";
      test(`the account of the preset ${preset} uses each right that it has in ${where} that it serves, and lacks none`, async (context) => {
        const namespace = `${others.length === 0 ? "only" : "first"}-${preset}`;
        const [helm = assert.fail()] = opened.helms;
        const namespaces = others.length === 0 ? [] : [namespace, ...others];
        const values = { ...someImage, functions: [preset], namespaces };
        const objects = () => helm.render(values, { namespace });
        const functions = [...chosen, ...alwaysServed].map(({ name }) => name);
        await walk(context, controlPlane, { namespace, others, objects, functions, ...sluice, play });
      });
    }

  test("where kinds of a user are listed, zones mirror one and owners of the other ask for labels, and the account writes no other, nor the status of a Deployment", async () => {
    const namespace = "listed-kinds";
    const [helm = assert.fail()] = opened.helms;
    const values = { ...someImage, ...listedKinds, functions: ["follow-replicas", "mark-skip-label"] };
    const objects = await helm.render(values, { namespace });
    const kubectl = await Kubectl.open(controlPlane);
    await playScene(controlPlane, namespace, { zones: 1, pods: 1 }, async (scene) => {
      await serveKinds(kubectl);
      await kubectl.waitForDefinitions();
      await kubectl.apply(objects.filter((one) => !isForeign(one) && !isWorkload(one)));
      const { account, settings } = workloadOf(objects, "sluice");
      const kubeconfig = await kubeconfigOf(controlPlane, scene.api, namespace, account);
      const server = await scene.serve({ ...settings, ...chosenFreely }, { kubeconfig });
      await server.ready();
      await mirrorListed(scene);
      await mirrorDeployment(scene, `system:serviceaccount:${namespace}:${account}`);
      await labelListed(scene);
      const token = await tokenOf(scene.api, namespace, account);
      const attacker = await Api.open({ ...controlPlane, token }, { userAgent: "sluice-test-attacker" });
      await forgeWrites(scene, attacker);
      await attacker.close();
    });
    await kubectl.close();
  });
});
