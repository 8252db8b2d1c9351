/**
 * The overlay `standalone` at work on the real API server: its account, its settings and its webhooks, as they are rendered; and
 * the server in rollout-operator's place, with the arguments and beside the objects that its users have.
 */
import assert from "node:assert/strict";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { writeKubeconfig } from "../controlplane/configuration.ts";
import { type ControlPlane, startControlPlane } from "../controlplane/controlplane.ts";
import { changeTemplate, waitForGroupReady } from "../controlplane/fixtures.ts";
import { evict } from "../support/drain-webhook.ts";
import { askedBy, isWebhook, isWorkload, kubeconfigOf, webhookAt, workloadOf } from "../support/installed.ts";
import { type Built, isDefinition, Kubectl, textOf } from "../support/kubectl.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";

suite("the overlay standalone on the real API server", { skip: await skipWithoutControlPlane() }, () => {
  const namespace = "mimir";
  let controlPlane: ControlPlane;
  let kubectl: Kubectl;
  let objects: Built[];
  before(async () => {
    controlPlane = await startControlPlane();
    kubectl = await Kubectl.open(controlPlane);
    objects = await kubectl.buildIn(namespace, "standalone");
    await kubectl.apply(objects.filter(isDefinition));
    await kubectl.waitForDefinitions();
  });
  after(async () => {
    await controlPlane?.stop();
    await kubectl?.close();
  });

  test("rolls a group and keeps evictions within its budget, with the rights that it is given", async (context) => {
    const from = await auditPosition(controlPlane.auditLog);
    const options = { zones: 3, pods: 2, zoneBudget: { maxUnavailable: 1 } };
    const { account, settings } = workloadOf(objects, "sluice");
    assert.deepEqual([settings.PORT, settings.TLS_PORT], ["8001", "8443"], "rollout-operator's ports");
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
      // The webhook refuses a rehearsal at once, and does not wait.
      const { code, message } = await evict(scene.api, namespace, `${second}-0`, "in the body");
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

  test("rolls a group and opens its TLS port when all it is told are rollout-operator's usual arguments", async () => {
    await play(controlPlane, "tempo", { zones: 2, pods: 1 }, async (scene) => {
      // Flags hold against variables, and the one address against the other.
      const kubeconfig = join(controlPlane.directory, "tempo.kubeconfig");
      await writeKubeconfig(kubeconfig, "https://127.0.0.1:1", controlPlane.token, controlPlane.caFile);
      const where = ["-kubernetes.api-url", controlPlane.url, "-kubernetes.config-file", kubeconfig];
      const ports = ["-server.port=0", "-server-tls.port=0", "-server-tls.self-signed-cert.dns-name=localhost"];
      const args = [...usualArguments("tempo"), ...where, ...ports];
      const server = await scene.serve({ PORT: "1" }, { kubeconfig: "/nowhere", namespace: "elsewhere", args });
      await server.ready();
      assert.equal((await fetch(`${server.url}/ready`)).status, 200);
      assert.ok(server.tlsPort > 0);
      const { data } = await scene.api.get<{ data: object }>("/api/v1/namespaces/tempo/secrets/its-certificate");
      assert.deepEqual(Object.keys(data).sort(), ["ca", "cert", "key", "review-key"]);
      await changeTemplate(controlPlane, scene.group, "app:2");
      await scene.waitForRollout("app:2");
      const warned = server.log.filter(({ reason }) => reason === "flag").map(({ msg }) => msg.split(/[ =]/)[0]);
      const variables = ["KUBECONFIG", "NAMESPACE", "PORT"];
      assert.deepEqual(warned, ["-use-zone-tracker", "-reconcile.interval", ...variables]);
    });
  });

  /** What a user's own kustomization of the overlay and some budgets says. */
  const kustomizationWithBudgets = async (own: string): Promise<string> => {
    await kubectl.file("budgets.yaml", textOf(["one", "other", "third"].map(budgetOf)));
    const resources = ["sluice/knative/overlays/standalone", "budgets.yaml"];
    return JSON.stringify({ namespace: own, resources, transformers: ["sluice/knative/namespace"] });
  };
  const countBudgets = async (own: string) => {
    const stored = await kubectl.run("-n", own, "get", "zoneawarepoddisruptionbudgets", "-o", "name");
    return stored.split("\n").filter(Boolean).length;
  };

  test("one command for the CRDs, the overlay and budgets fails once, as it knows no budgets yet, and then no webhook fails it", async () => {
    await kubectl.run("delete", "crd", "--all");
    await kubectl.run("create", "namespace", "at-once");
    const text = await kustomizationWithBudgets("at-once");
    const knowingNothing = `--cache-dir=${join(controlPlane.directory, "empty-cache")}`;
    await assert.rejects(
      kubectl.applyKustomization(text, knowingNothing),
      /no matches for kind "ZoneAwarePodDisruptionBudget"/,
    );
    await kubectl.waitForDefinitions();
    await kubectl.applyKustomization(text);
    assert.equal(await countBudgets("at-once"), 3);
  });

  test("the README's commands install CRDs, the overlay and budgets at the first attempt", async () => {
    await kubectl.run("delete", "crd", "--all");
    const typed = await kubectl.commandsOf("README.md", "A kustomization of your own");
    assert.equal(typed.pop(), "kubectl apply -k .");
    for (const line of typed)
      await kubectl.shell(line.replaceAll("sluice/knative", "knative").replace(" mimir", " typed"));
    const knowingNothing = `--cache-dir=${join(controlPlane.directory, "other-empty-cache")}`;
    await kubectl.applyKustomization(await kustomizationWithBudgets("typed"), knowingNothing);
    assert.equal(await countBudgets("typed"), 3);
  });
});

function budgetOf(name: string): Built {
  const spec = { maxUnavailable: 1, selector: { matchLabels: { "rollout-group": name } } };
  const apiVersion = "rollout-operator.grafana.com/v1";
  return { apiVersion, kind: "ZoneAwarePodDisruptionBudget", metadata: { name }, spec } as Built;
}

/** What rollout-operator's own manifests and charts write. */
function usualArguments(namespace: string): string[] {
  return [
    `-kubernetes.namespace=${namespace}`,
    "-use-zone-tracker=true",
    "-zone-tracker.config-map-name=rollout-operator-zone-tracker",
    "-reconcile.interval=5s",
    "-server-tls.enabled=true",
    "-server-tls.self-signed-cert.secret-name=its-certificate",
  ];
}
