/** Each preset of the chart under its account: it has the rights that its functions use, and no other. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { alwaysServed, presets } from "../../triggers/table.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { chosenFreely, type Installation, walk } from "../knative/installation.ts";
import { serveRabbitmqClusters } from "../knative/spread.ts";
import { Kubectl } from "../support/kubectl.ts";
import { skipWithoutControlPlane } from "../support/scene.ts";
import { Helm, skipWithoutHelm, someImage } from "./helm.ts";

/** One process does everything. */
const play: Installation["play"] = async (start) => {
  const all = await start("sluice", chosenFreely);
  const scaling = { delayed: all, follower: all, releaser: all };
  const owners = { marker: all, spreader: all, suspender: all, collector: all, holder: all };
  return { certificate: all, reviews: all, rollout: all, ledgers: all, ...scaling, ...owners };
};

const sluice = { roller: "sluice", keeper: "sluice", spreader: "sluice", collector: "sluice" };

suite("the presets of the chart on the real API server", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
  concurrency: 4,
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

  for (const [preset, chosen] of Object.entries(presets))
    test(`the account of the preset ${preset} uses each right that it has, and lacks none`, async (context) => {
      const namespace = `only-${preset}`;
      const [helm = assert.fail()] = opened.helms;
      const objects = () => helm.render({ ...someImage, functions: [preset] }, { namespace });
      const functions = [...chosen, ...alwaysServed].map(({ name }) => name);
      await walk(context, controlPlane, { namespace, objects, functions, ...sluice, play });
    });
});
