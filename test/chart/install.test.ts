/** The chart on the real API server: installed, at work under its own account, upgraded, and uninstalled. */
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, suite, test } from "node:test";
import { usualSecretName } from "../../functions/shared/certificates/settings.ts";
import { Api, eventually } from "../controlplane/api.ts";
import { auditPosition } from "../controlplane/audit.ts";
import { runPlugin } from "../support/ask-why.ts";
import { TcpProxy } from "../support/drain-proxy.ts";
import { chart, chartOfThisMachine, parentChart, skipWithoutHelm, someImage } from "../support/helm.ts";
import { askedBy, kubeconfigOf, tokenOf } from "../support/installed.ts";
import { type Built, Kubectl } from "../support/kubectl.ts";
import { play, skipWithoutControlPlane } from "../support/scene.ts";
import {
  type Configuration,
  createBudget,
  deploymentOf,
  installed,
  keyed,
  rollAndEvict,
  scaleDownWithout,
  webhooksPath,
} from "./deployed.ts";
import { drainEachSecond, Replicas } from "./replicas.ts";
import { type ChartStage, startChartStage } from "./stage.ts";

const root = join(import.meta.dirname, "../..");
const budgetDefinition =
  "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/zoneawarepoddisruptionbudgets.rollout-operator.grafana.com";

suite("the chart on the real API server", {
  skip: (await skipWithoutControlPlane()) || (await skipWithoutHelm()),
  // One waits for a certificate while the other one does.
  concurrency: 2,
}, () => {
  let stage: ChartStage;
  before(async () => {
    stage = await startChartStage();
  });
  after(async () => {
    await stage?.stop();
  });

  for (const major of ["4", "3"])
    test(`Helm ${major} installs it, it rolls a group and answers evictions, an upgrade keeps a renewed certificate, a drain goes on, and nothing holds a namespace without it`, async (context) => {
      const helm = stage.helmOf(major);
      const namespace = `helm-${major}`;
      const service = await TcpProxy.start();
      const { folder, remove } = await chartOfThisMachine(service.port);
      const from = await auditPosition(stage.controlPlane.auditLog);
      try {
        await play(stage.controlPlane, namespace, { zones: 3, pods: 2 }, async (scene) => {
          // The shortest that there is: the certificate is renewed after two thirds of it.
          const values = await helm.values({ ...someImage, settings: { TLS_CERT_LIFETIME: "1m" } });
          const notes = await helm.run("install", "prod", folder, "--namespace", namespace, ...values);
          assert.match(notes, new RegExp(`kubectl -n ${namespace} rollout status deployment/sluice`));
          // No replica answers yet. A budget of the same release, or the next one, is not refused for that.
          await eventually("the CRD served, whichever release has brought it", 30_000, () => createBudget(scene));
          const { account, settings } = await installed(scene.api, namespace);
          const kubeconfig = await kubeconfigOf(stage.controlPlane, scene.api, namespace, account);
          const replicas = await Replicas.start(scene, kubeconfig, service, settings);
          await keyed(scene.api, namespace);
          const authority = await trusted(scene.api, namespace);
          await rollAndEvict(scene);
          await eventually("another certificate presented and trusted", 90_000, async () =>
            (await trusted(scene.api, namespace)) === authority ? undefined : true,
          );
          const drain = drainEachSecond(scene);
          const more = await helm.values({ ...someImage, replicas: 3, podAnnotations: { example: "1" } });
          await helm.run("upgrade", "prod", folder, "--namespace", namespace, ...more);
          await trusted(scene.api, namespace);
          assert.equal((await deploymentOf(scene.api, namespace)).spec.replicas, 3);
          await replicas.replace((await installed(scene.api, namespace)).settings);
          await helm.run("rollback", "prod", "--namespace", namespace);
          await trusted(scene.api, namespace);
          assert.equal((await deploymentOf(scene.api, namespace)).spec.replicas, 2);
          await replicas.replace((await installed(scene.api, namespace)).settings);
          await keyed(scene.api, namespace);
          const { allowed, refused, failures } = await drain.end();
          context.diagnostic(`the drain: ${allowed} evictions allowed, ${refused} refused, ${failures.length} failed`);
          assert.deepEqual(failures, []);
          assert.ok(allowed > 0 && allowed + refused > 5, "it met both versions");
          assert.deepEqual(replicas.errors, []);
          const { asked, forbidden } = await askedBy(stage.controlPlane, from, namespace, account);
          assert.deepEqual(forbidden, [], "an account that is given what its functions need asks for nothing else");
          assert.ok(asked.includes("delete pods") && asked.includes("patch leases"), asked.join());
          await helm.run("uninstall", "prod", "--namespace", namespace);
          await scaleDownWithout(scene);
        });
      } finally {
        await service.close();
        await remove();
      }
    });

  test("as a subchart, beside 30 budgets of the same release, five of five installs succeed at once", async () => {
    const { folder, remove } = await parentChart(30, "operator");
    try {
      for (const helm of stage.helms)
        for (let index = 0; index < 5; index++) {
          const namespace = `parent-${helm.major}-${index}`;
          const values = await helm.values({ operator: { enabled: true, ...someImage }, global: { any: 1 } });
          await helm.run("install", "prod", folder, "--namespace", namespace, "--create-namespace", ...values);
          const deployed = await helm.run("get", "manifest", "prod", "--namespace", namespace);
          assert.equal(deployed.match(/^kind: ZoneAwarePodDisruptionBudget$/gm)?.length, 30);
          assert.match(deployed, /^kind: MutatingWebhookConfiguration$/m);
          const without = await helm.values({ operator: { enabled: false } });
          await helm.run("upgrade", "prod", folder, "--namespace", namespace, ...without);
          assert.doesNotMatch(
            await helm.run("get", "manifest", "prod", "--namespace", namespace),
            /WebhookConfiguration/,
          );
          await helm.run("uninstall", "prod", "--namespace", namespace);
        }
    } finally {
      await remove();
    }
  });

  for (const major of ["4", "3"])
    test(`Helm ${major} keeps values by --reuse-values, and undoes an upgrade that fails half way`, async () => {
      const helm = stage.helmOf(major);
      const namespace = `half-way-${major}`;
      await play(stage.controlPlane, namespace, { zones: 2, pods: 1 }, async ({ api }) => {
        const place = ["prod", chart, "--namespace", namespace];
        const values = await helm.values({ ...someImage, replicas: 3 });
        await helm.run("install", ...place, ...values);
        await trust(api, namespace);
        const reused = await helm.values({ settings: { CONCURRENCY: 3 } });
        await helm.run("upgrade", ...place, "--reuse-values", ...reused);
        const before = await stateOf(api, namespace);
        assert.equal(before.deployment.replicas, 3);
        assert.match(JSON.stringify(before.deployment), /"CONCURRENCY","value":"3"/);
        // The API server takes the label of the Service and of all that comes before the Deployment, and refuses that.
        const failing = { podAnnotations: { "no key": "" }, global: { commonLabels: { half: "way" } } };
        const less = await helm.values({ ...failing, networkPolicy: { enabled: false }, replicas: 1 });
        const service = await serviceOf(api, namespace);
        const flag = major === "4" ? "--rollback-on-failure" : "--atomic";
        const upgrade = ["upgrade", ...place, "--reuse-values", flag, "--timeout", "2m", ...less];
        const { code, stderr } = await helm.try(...upgrade);
        assert.notEqual(code, 0);
        assert.match(stderr, /annotations: Invalid value: "no key"/);
        assert.deepEqual(await stateOf(api, namespace), before);
        const { resourceVersion } = (await serviceOf(api, namespace)).metadata;
        assert.notEqual(resourceVersion, service.metadata.resourceVersion, "it failed before it wrote anything");
        await helm.run("uninstall", "prod", "--namespace", namespace);
      });
    });

  test("the three commands of the README lead from an empty cluster to the first answer of why", async () => {
    const readme = await readFile(join(root, "README.md"), "utf8");
    const three = /^docker push .+\n\n(helm install .+) --wait\n(kubectl .+ apply .+)\n(kubectl .+ exec .+)\n```$/m;
    const typed = (three.exec(readme) ?? assert.fail("no three commands")).slice(1);
    const words = typed.map((line) =>
      line
        .replace(/ +#.*$/, "")
        .replace("YOUR-REGISTRY", "registry.example")
        .replace(/ sluice\//, ` ${root}/`)
        .split(" ")
        .slice(1),
    );
    const [install = [], apply = [], exec = []] = words;
    const [helm = assert.fail()] = stage.helms;
    // No pod runs here, so that the release has nothing to wait for.
    await helm.run(...install);
    const kubectl = await Kubectl.open(stage.controlPlane);
    await kubectl.run(...apply);
    await kubectl.close();
    const [node, program, ...asked] = exec.slice(exec.indexOf("--") + 1);
    assert.deepEqual([node, program], ["/nodejs/bin/node", "/sluice/kubectl-sluice"]);
    const api = await Api.open(stage.controlPlane, { userAgent: "sluice-test-readme" });
    const { account } = await installed(api, "mimir");
    const answer = await runPlugin(stage.controlPlane, asked, "mimir", await tokenOf(api, "mimir", account));
    assert.match(answer, /ingester-zone-c/);
    await api.close();
    await helm.run("uninstall", "sluice", "--namespace", "mimir");
  });

  for (const major of ["4", "3"])
    test(`Helm ${major} installs nothing where a ServiceMonitor is asked for and its CRD is missing, and leaves the CRDs of another owner alone`, async () => {
      const helm = stage.helmOf(major);
      const namespace = `of-others-${major}`;
      await play(stage.controlPlane, namespace, { zones: 2, pods: 1 }, async ({ api }) => {
        const owner = { "meta.helm.sh/release-name": "mimir", "meta.helm.sh/release-namespace": "other" };
        await helm.run("install", "first", chart, "--namespace", namespace, ...(await helm.values(someImage)));
        await helm.run("uninstall", "first", "--namespace", namespace);
        await api.patch(budgetDefinition, { metadata: { annotations: owner } });
        const before = await api.get(budgetDefinition);
        const place = ["prod", chart, "--namespace", namespace];
        const monitored = await helm.values({ ...someImage, serviceMonitor: { enabled: true } });
        const { code, stderr } = await helm.try("install", ...place, ...monitored);
        assert.notEqual(code, 0);
        assert.match(stderr, /no matches for kind "ServiceMonitor".*\n?.*ensure CRDs are installed first/);
        const { items } = await api.get<{ items: Built[] }>(`/apis/apps/v1/namespaces/${namespace}/deployments`);
        assert.deepEqual(items, []);
        await helm.run("install", ...place, "--replace", ...(await helm.values(someImage)));
        await helm.run("uninstall", "prod", "--namespace", namespace);
        assert.deepEqual(await api.get(budgetDefinition), before);
      });
    });
});

/** Has the API server trust a certificate, as Sluice does, under another field manager than Helm's. */
async function trust(api: Api, namespace: string): Promise<void> {
  const bundle = { op: "add", path: "/webhooks/0/clientConfig/caBundle", value: "YQ==" };
  await api.request("PATCH", `${webhooksPath}/pod-eviction-${namespace}`, [bundle], "application/json-patch+json");
}

/** What an upgrade that failed must leave as it was. */
async function stateOf(api: Api, namespace: string) {
  const policies = `/apis/networking.k8s.io/v1/namespaces/${namespace}/networkpolicies`;
  const { webhooks } = await api.get<Configuration>(`${webhooksPath}/pod-eviction-${namespace}`);
  assert.equal(webhooks[0]?.clientConfig.caBundle, "YQ==");
  return {
    webhooks,
    deployment: (await deploymentOf(api, namespace)).spec,
    labels: (await serviceOf(api, namespace)).metadata.labels,
    networkPolicy: (await api.get<{ spec: object }>(`${policies}/sluice`)).spec,
  };
}

function serviceOf(api: Api, namespace: string) {
  return api.get<{ metadata: { labels: object; resourceVersion: string } }>(
    `/api/v1/namespaces/${namespace}/services/rollout-operator`,
  );
}

/** The authority of the certificate that is presented, in PEM. Throws unless the API server trusts it for evictions. */
async function trusted(api: Api, namespace: string): Promise<string> {
  const { data } = await api.get<{ data: Record<string, string> }>(
    `/api/v1/namespaces/${namespace}/secrets/${usualSecretName}`,
  );
  const { webhooks } = await api.get<Configuration>(`${webhooksPath}/pod-eviction-${namespace}`);
  const [authority = "", bundle = ""] = [data.ca, webhooks[0]?.clientConfig.caBundle].map((text = "") =>
    Buffer.from(text, "base64").toString("utf8").trim(),
  );
  assert.ok(
    authority !== "" && bundle.includes(authority),
    `the authority that is presented is not trusted: ${bundle}`,
  );
  return authority;
}
