/** The overlay `standalone` at work on the real API server: its account, its settings and its webhooks, as they are rendered. */
import assert from "node:assert/strict";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict } from "../e2e/drain-webhook.ts";
import { play, skipWithoutControlPlane } from "../e2e/scene.ts";
import { askedBy, isWebhook, isWorkload, kubeconfigOf, webhookAt, workloadOf } from "./installed.ts";
import { type Built, Kubectl } from "./kubectl.ts";

suite("the overlay standalone on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  const namespace = "mimir";
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  let objects: Built[];
  before(async () => {
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
    objects = await kubectl.buildIn(namespace, "standalone");
    await kubectl.apply(objects.filter(({ kind }) => kind === "CustomResourceDefinition"));
    await kubectl.run("wait", "--for=condition=Established", "--timeout=30s", "crd", "--all");
  });
  after(async () => {
    await controlPlane?.stop();
    await kubectl?.close();
  });

  test("rolls a group and keeps evictions within its budget, with the rights that it is given", async (context) => {
    const from = await auditPosition(controlPlane.auditLog);
    const options = { zones: 3, pods: 2, zoneBudget: { maxUnavailable: 1 } };
    const { account, settings } = workloadOf(objects, "sluice");
    await play(controlPlane, namespace, options, async (scene) => {
      await kubectl.apply(objects.filter((object) => !isWebhook(object) && !isWorkload(object)));
      const kubeconfig = await kubeconfigOf(controlPlane, scene.api, namespace, account);
      const free = { PORT: "0", TLS_PORT: "0", TLS_DNS_NAME: "localhost" };
      const server = await scene.serve({ ...settings, ...free }, { kubeconfig });
      await server.ready();
      const { tlsPort } = server;
      await kubectl.apply(objects.filter(isWebhook).map((configuration) => webhookAt(tlsPort, configuration)));
      const [first, second] = scene.group.statefulSets;
      const rehearse = () => evict(scene.api, namespace, `${first}-0`, "in the body");
      await eventually("an eviction allowed", 60_000, async () => ((await rehearse()).code === 201 ? true : undefined));
      assert.equal((await evict(scene.api, namespace, `${first}-0`)).code, 201);
      const { code, message } = await evict(scene.api, namespace, `${second}-0`);
      assert.equal(code, 429);
      assert.match(message, /^admission webhook "pod-eviction\.mimir\.grafana\.com" denied the request/);
      await waitForGroupReady(controlPlane, scene.group);
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const examples = await kubectl.rehearse(namespace, "examples");
      assert.ok(examples.length > 6 && examples.every((line) => /dry run\)$/.test(line)), examples.join("\n"));
      assert.ok((await server.metric("sluice_verdicts_total", { function: "validate-zone-budget" })) >= 2);
      const errors = server.log.filter(({ level }) => level === "error");
      assert.deepEqual(errors, []);
    });
    const { asked, forbidden } = await askedBy(controlPlane, from, namespace, account);
    context.diagnostic(`asked: ${asked.join(", ")}`);
    assert.deepEqual(forbidden, []);
    assert.ok(asked.includes("delete pods") && asked.includes("patch leases"), "nothing was seen of what it did");
  });
});
