/** The overlay `standalone` at work on the real API server: its account, its settings and its webhooks, as they are rendered. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { type Api, eventually } from "../controlplane/api.ts";
import { auditPosition, readAudit } from "../controlplane/audit.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict } from "../e2e/drain-webhook.ts";
import { play, skipWithoutControlPlane } from "../e2e/scene.ts";
import { type Built, Kubectl } from "./kubectl.ts";

interface Deployment extends Built {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly serviceAccountName: string;
        readonly containers: readonly { readonly env: readonly { readonly name: string; readonly value: string }[] }[];
      };
    };
  };
}

interface WebhookConfiguration extends Built {
  readonly webhooks: readonly { readonly clientConfig: { readonly service: { readonly path: string } } }[];
}

/** There is no network of services here: the same webhooks, but for where they are. */
function at(port: number, configuration: WebhookConfiguration): Built {
  const webhooks = configuration.webhooks.map(({ clientConfig, ...webhook }) => ({
    ...webhook,
    clientConfig: { url: `https://localhost:${port}${clientConfig.service.path}` },
  }));
  return { ...configuration, webhooks } as Built;
}

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

  /** The kubeconfig of an account that is there. */
  const userOf = async (api: Api, account: string) => {
    const path = `/api/v1/namespaces/${namespace}/serviceaccounts/${account}/token`;
    const request = { apiVersion: "authentication.k8s.io/v1", kind: "TokenRequest", spec: {} };
    const { status } = await api.post<{ status: { token: string } }>(path, request);
    const kubeconfig = join(controlPlane.directory, `${account}.kubeconfig`);
    await writeKubeconfig(kubeconfig, controlPlane.url, status.token, controlPlane.caFile);
    return kubeconfig;
  };

  test("rolls a group and keeps evictions within its budget, with the rights that it is given", async (context) => {
    const from = await auditPosition(controlPlane.auditLog);
    const options = { zones: 3, pods: 2, zoneBudget: { maxUnavailable: 1 } };
    await play(controlPlane, namespace, options, async (scene) => {
      const isWebhook = (object: Built): object is WebhookConfiguration => /Webhook/.test(object.kind);
      await kubectl.apply(objects.filter((object) => !isWebhook(object) && object.kind !== "Deployment"));
      const deployment = objects.find(({ kind }) => kind === "Deployment") as Deployment;
      const { serviceAccountName, containers } = deployment.spec.template.spec;
      const settings = Object.fromEntries((containers[0]?.env ?? []).map(({ name, value }) => [name, value]));
      const kubeconfig = await userOf(scene.api, serviceAccountName);
      const free = { PORT: "0", TLS_PORT: "0", TLS_DNS_NAME: "localhost" };
      const server = await scene.serve({ ...settings, ...free }, { kubeconfig });
      await server.ready();
      await kubectl.apply(objects.filter(isWebhook).map((configuration) => at(server.tlsPort, configuration)));
      const rehearse = () => evict(scene.api, namespace, `${scene.group.statefulSets[0]}-0`, "in the body");
      await eventually("an eviction allowed", 60_000, async () => ((await rehearse()).code === 201 ? true : undefined));
      assert.equal((await evict(scene.api, namespace, `${scene.group.statefulSets[0]}-0`)).code, 201);
      const { code, message } = await evict(scene.api, namespace, `${scene.group.statefulSets[1]}-0`);
      assert.equal(code, 429);
      assert.match(message, /^admission webhook "pod-eviction\.mimir\.grafana\.com" denied the request/);
      await waitForGroupReady(controlPlane, scene.group);
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const examples = await kubectl.rehearse(namespace, "examples");
      assert.ok(examples.length > 6 && examples.every((line) => /dry run\)$/.test(line)), examples.join("\n"));
      assert.ok((await server.metric("sluice_verdicts_total", { function: "validate-zone-budget" })) >= 2);
      assert.deepEqual(
        server.log.filter(({ level }) => level === "error"),
        [],
      );
      const used = new Set<string>();
      const refused: string[] = [];
      for await (const { user, verb, resource, code } of readAudit(controlPlane.auditLog, { from }, () => {})) {
        if (user !== `system:serviceaccount:${namespace}:${serviceAccountName}`) continue;
        used.add(`${verb} ${resource}`);
        if (code === 401 || code === 403) refused.push(`${verb} ${resource}`);
      }
      context.diagnostic(`used: ${[...used].sort().join(", ")}`);
      assert.deepEqual(refused, []);
      assert.ok(used.has("delete pods") && used.has("patch leases"), "nothing was seen of what it did");
    });
  });
});
